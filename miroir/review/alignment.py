"""Two rollouts side by side: their calls aligned on tool and arguments, and where they part."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product, zip_longest
from typing import Any, NamedTuple

from ..records.shape import mapping
from .entry import Entry, call_key

MOST_CELLS = 1_000_000  # of the alignment's table; what would need more is set side by side as it comes
MOST_EACH = 50  # rollouts of a side that a best pair is sought among: the pairs grow with the square
_SAME, _CHANGED = 3, 1  # an equal call is worth more than two that only resemble each other


class Row(NamedTuple):
    """Steps that stand side by side: `same`, `changed` (the tool is the same), `other`; `left` or `right` alone."""

    kind: str
    left: int | None
    right: int | None


class Pair(NamedTuple):
    """Two rollouts of a task worth comparing, and how many calls they have in common before they part."""

    good: Entry
    bad: Entry
    common: int


def parting(left: Sequence[Any], right: Sequence[Any]) -> int:
    """How many calls two rollouts have in common before they part."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(left), len(right)))


def best_pair(entries: Sequence[Entry]) -> Pair | None:
    """A clean success and another rollout of the same version that keeps to its path for longest; the shortest of such.

    The other is a failure or did harm; None where a task has no two like that.
    """
    good = [entry for entry in entries if entry.outcome == "success" and not entry.harm]
    bad = [entry for entry in entries if entry.outcome != "void" and (entry.outcome == "failure" or entry.harm)]
    pairs = [
        Pair(one, other, parting(one.calls, other.calls))
        for one, other in product(good[:MOST_EACH], bad[:MOST_EACH])
        if one.task_hash == other.task_hash
    ]
    return max(pairs, key=lambda pair: (pair.common, -pair.good.steps, -pair.bad.steps), default=None)


def align(left: Sequence[Mapping[str, Any]], right: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The steps of two rollouts in rows, as many equal calls side by side as can be.

    The table of Needleman and Wunsch 1970, J. Molecular Biology 48(3), 443-453, where calls of one tool that share an
    argument are a weaker match. What is left between matches stands side by side as it comes.
    """
    a, b = [_call(step) for step in left], [_call(step) for step in right]
    keys = [call.key for call in a], [call.key for call in b]
    start = parting(*keys)
    end = parting(keys[0][start:][::-1], keys[1][start:][::-1])
    matched = [
        *((at, at) for at in range(start)),
        *((i + start, j + start) for i, j in _matches(a[start : len(a) - end], b[start : len(b) - end])),
        *((len(a) - at, len(b) - at) for at in range(end, 0, -1)),
    ]
    return list(_rows(a, b, matched))


class _Call(NamedTuple):
    key: bytes
    tool: Any
    arguments: frozenset[str]


def _call(step: Mapping[str, Any]) -> _Call:
    arguments = mapping(step.get("arguments"))
    named = frozenset(f"{name}={json.dumps(value, sort_keys=True)}" for name, value in arguments.items())
    return _Call(call_key(step), step.get("tool"), named)


def _matches(left: Sequence[_Call], right: Sequence[_Call]) -> Iterator[tuple[int, int]]:
    """Which calls of the left are set beside which of the right, both in order."""
    if len(left) * len(right) > MOST_CELLS:
        return
    best = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i in range(len(left) - 1, -1, -1):
        for j in range(len(right) - 1, -1, -1):
            best[i][j] = max(best[i + 1][j], best[i][j + 1], best[i + 1][j + 1] + _worth(left[i], right[j]))
    i = j = 0
    while i < len(left) and j < len(right):
        worth = _worth(left[i], right[j])
        if worth and best[i][j] == best[i + 1][j + 1] + worth:
            yield i, j
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1


def _rows(left: Sequence[_Call], right: Sequence[_Call], matched: Iterable[tuple[int, int]]) -> Iterator[Row]:
    i = j = 0
    for next_i, next_j in (*matched, (len(left), len(right))):
        for one, other in zip_longest(range(i, next_i), range(j, next_j)):
            yield _row(left, right, one, other)
        if next_i < len(left) and next_j < len(right):
            yield _row(left, right, next_i, next_j)
        i, j = next_i + 1, next_j + 1


def _row(left: Sequence[_Call], right: Sequence[_Call], i: int | None, j: int | None) -> Row:
    if i is None or j is None:
        return Row("left" if j is None else "right", i, j)
    if left[i].key == right[j].key:
        return Row("same", i, j)
    return Row("changed" if left[i].tool == right[j].tool else "other", i, j)


def _worth(one: _Call, other: _Call) -> int:
    if one.key == other.key:
        return _SAME
    return _CHANGED if one.tool == other.tool and not one.arguments.isdisjoint(other.arguments) else 0
