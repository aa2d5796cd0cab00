"""An environment's own options on the command line: what its constructor takes, as `--name value`."""

from __future__ import annotations

import argparse
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import NoReturn

from ..errors import InvalidArgument
from .environment import Environment
from .world import Factory

_TYPES: dict[str, Callable[[str], object]] = {"int": int, "float": float}
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def configured(kind: type[Environment], words: Sequence[str], name: str) -> Factory:
    """What makes environments of the class with the options in `words`; InvalidArgument, about the environment
    `name`, for an option that its constructor does not take, and for one that is missing.

    A parameter `api_key` is the option `--api-key VALUE`; one that is a bool is a flag; int and float are numbers.
    """
    parser = _Parser(prog=name, add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    for parameter in inspect.signature(kind).parameters.values():
        if parameter.kind in _NAMED:
            _add(parser, parameter)
    given = vars(parser.parse_args(list(words)))
    if not given:
        return kind

    @functools.wraps(kind, updated=())
    def make() -> Environment:
        return kind(**given)

    return make


def takes(kind: type[Environment], option: str) -> bool:
    """Whether the constructor of the class takes the option."""
    return option in inspect.signature(kind).parameters


def _add(parser: argparse.ArgumentParser, parameter: inspect.Parameter) -> None:
    option = f"--{parameter.name.replace('_', '-')}"
    annotation = getattr(parameter.annotation, "__name__", str(parameter.annotation))
    if annotation == "bool":
        parser.add_argument(option, dest=parameter.name, action="store_true")
        return
    required = parameter.default is parameter.empty
    parser.add_argument(
        option, dest=parameter.name, required=required, type=_TYPES.get(annotation.removesuffix(" | None"), str)
    )


class _Parser(argparse.ArgumentParser):
    """A parser that raises what is wrong, with the options that there are."""

    def error(self, message: str) -> NoReturn:
        options = ", ".join(action.option_strings[0] for action in self._actions)
        raise InvalidArgument(f"{self.prog}: {message}; its own options are {options or 'none'}")
