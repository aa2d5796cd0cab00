"""Results of other tools as records, so that they can be calibrated as they are."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from typing import Any

from ...errors import InvalidArgument, MiroirError, RecordError

# Each kind's module here, whose `records(path)` yields records, and how its files' names end in a folder.
_MODULES = {"verifiers": "verifiers_runs", "tau-bench": "tau_bench", "tau2": "tau2", "inspect": "inspect_logs"}
_SUFFIXES = {"verifiers": ("traces.jsonl", "results.jsonl")}
KINDS = tuple(_MODULES)


def convert(kind: str, path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """The records in a results file of verifiers, tau-bench, tau2 or Inspect (JSON), one by one.

    An episode is a success when its reward is 1 or more, and void where the tool itself failed. Of an Inspect log with
    several scores, `inspect:NAME` chooses one. ValueError kinds for another `kind`, and for a file that is not of it.
    """
    name, score = _parse(kind)
    return _converted(name, [os.fspath(path), *score])


def suffixes(kind: str) -> tuple[str, ...]:
    """How the names of such files end."""
    return _SUFFIXES.get(_parse(kind)[0], (".json",))


def _parse(kind: str) -> tuple[str, list[str]]:
    name, colon, score = kind.partition(":")
    if name not in _MODULES or (colon and (name != "inspect" or not score)):
        raise InvalidArgument(f"{kind!r} is no kind of results; give {', '.join(KINDS)} or inspect:SCORE")
    return name, [score] if score else []


def _converted(name: str, arguments: list[str]) -> Iterator[dict[str, Any]]:
    records = importlib.import_module(f".{_MODULES[name]}", __package__).records
    try:
        yield from records(*arguments)
    except MiroirError:
        raise
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, OverflowError) as error:
        fault = f"{type(error).__name__}: {error}"
        raise RecordError(
            f"{arguments[0]} does not hold what {name} writes ({fault}); name its results file"
        ) from error
