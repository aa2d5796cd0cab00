"""A preset: what a package of tasks fixes of how its fleet is played."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, SupportsFloat

from miroir.coworkers import CoworkerModel
from miroir.errors import InvalidArgument
from miroir.urls import Source, Urls
from miroir.wire import SURFACES, Record, Task, Tool

Prompt = Callable[[Task, Sequence[Tool], Mapping[str, Any]], str]
Measure = Callable[[Record], float]

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Preset:
    """A fleet, its split and surface, and how an episode is told and measured; InvalidArgument where it cannot work.

    `token_env` names the environment variable with the fleet's token. `prompt` writes what a model is told first, from
    the task, its tools and the first observation, in place of `miroir.catalog.opening`. `metrics` and `rewards` are
    functions of a graded record: the former are kept beside Miroir's, the latter added to the environment's reward.
    """

    urls: Urls
    split: str = "train"
    surface: str | None = None
    token_env: str | None = None
    coworker_model: CoworkerModel | None = None
    prompt: Prompt | None = None
    metrics: Mapping[str, Measure] = field(default_factory=dict)
    rewards: Mapping[str, Measure] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Source.of(self.urls)
        if not isinstance(self.urls, str | os.PathLike):
            object.__setattr__(self, "urls", tuple(self.urls))
        _hold("split", self.split, "the name of a split", isinstance(self.split, str) and self.split != "")
        surfaces = ", ".join(SURFACES)
        _hold("surface", self.surface, f"one of {surfaces}, or None", self.surface in (None, *SURFACES))
        variable = self.token_env is None or (isinstance(self.token_env, str) and _VARIABLE.fullmatch(self.token_env))
        if not variable:  # what was given may be the token itself
            raise InvalidArgument("a preset's token_env is no name of an environment variable; put the token into one")
        model = self.coworker_model
        _hold("coworker_model", model, "a CoworkerModel or None", model is None or isinstance(model, CoworkerModel))
        _hold("prompt", self.prompt, "a function or None", self.prompt is None or callable(self.prompt))
        for field_name in ("metrics", "rewards"):
            object.__setattr__(self, field_name, _measures(field_name, getattr(self, field_name)))


def measured(measures: Mapping[str, Measure], record: Record) -> dict[str, float]:
    """What each function gives for the graded record; InvalidArgument for anything but a finite number."""
    return {name: _number(name, measure(record)) for name, measure in measures.items()}


def _number(name: str, given: object) -> float:
    if isinstance(given, SupportsFloat) and math.isfinite(given):
        return float(given)
    raise InvalidArgument(f"a preset's {name!r} gave {given!r} for an episode; return a finite number")


def _measures(field_name: str, value: object) -> dict[str, Measure]:
    """A copy of the functions by name."""
    _hold(field_name, value, "a dict of functions by name", isinstance(value, Mapping))
    assert isinstance(value, Mapping)
    for name, function in value.items():
        if name == "miroir":
            raise InvalidArgument(f"{field_name}['miroir'] would hide the environment's own reward; name it otherwise")
        named = isinstance(name, str) and _NAME.fullmatch(name)
        _hold(f"{field_name}[{name!r}]", function, "a function with a plain name", bool(named) and callable(function))
    return dict(value)


def _hold(field_name: str, value: object, wanted: str, holds: bool) -> None:
    if not holds:
        shown = repr(value) if isinstance(value, str) else f"a {type(value).__name__}"  # whose repr may hold a key
        raise InvalidArgument(f"a preset's {field_name} is {shown}; pass {wanted}")
