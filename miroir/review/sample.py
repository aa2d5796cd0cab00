"""A queue of episodes to judge: a stratified sample that is the same for the same seed."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from ..errors import InvalidArgument
from .entry import Entry

STRATA = ("class", "outcome", "harm", "task", "agent", "ended_by")


def sample(
    entries: Sequence[Entry], size: int, *, seed: int = 0, strata: Sequence[str] = (), classes: Mapping[str, str | None]
) -> list[Entry]:
    """`size` graded episodes, in the order to judge them; as many of each stratum as its share, and at least one.

    Which ones depends on the seed and the episodes' ids alone. Void episodes have no grade to judge and are left out.
    """
    if size < 1:
        raise InvalidArgument(f"a sample of {size} holds nothing; give --sample at least 1")
    key = _stratum(strata, classes)
    groups: dict[tuple[str, ...], list[Entry]] = defaultdict(list)
    for entry in sorted(entries, key=lambda entry: _draw(seed, entry)):
        if entry.outcome != "void":
            groups[key(entry)].append(entry)
    counts = _shares({name: len(group) for name, group in groups.items()}, size)
    chosen = [entry for name, group in groups.items() for entry in group[: counts[name]]]
    return sorted(chosen, key=lambda entry: _draw(seed, entry))[:size]


def _stratum(strata: Sequence[str], classes: Mapping[str, str | None]) -> Callable[[Entry], tuple[str, ...]]:
    readers: dict[str, Callable[[Entry], str]] = {
        "class": lambda entry: classes.get(entry.task_id) or "",
        "outcome": lambda entry: entry.outcome,
        "harm": lambda entry: str(entry.harm),
        "task": lambda entry: entry.task_id,
        "agent": lambda entry: entry.agent,
        "ended_by": lambda entry: entry.ended_by,
    }
    unknown = [name for name in strata if name not in readers]
    if unknown:
        raise InvalidArgument(f"{unknown[0]!r} is no stratum; --stratify takes {', '.join(STRATA)}")
    return lambda entry: tuple(readers[name](entry) for name in strata)


def _shares(sizes: Mapping[tuple[str, ...], int], total: int) -> dict[tuple[str, ...], int]:
    """How many of each group: one at least, the rest in proportion, by the largest remainders (Hamilton 1792)."""
    everything = sum(sizes.values())
    total = min(total, everything)
    if not total:
        return dict.fromkeys(sizes, 0)
    exact = {name: total * size / everything for name, size in sizes.items()}
    shares = {name: max(1, int(share)) for name, share in exact.items()}
    for name in sorted(exact, key=lambda name: (int(exact[name]) - exact[name], name)):
        if sum(shares.values()) >= total:
            break
        shares[name] += shares[name] < sizes[name]
    return shares


def _draw(seed: int, entry: Entry) -> str:
    return hashlib.sha256(f"{seed}:{entry.episode_id}".encode()).hexdigest()
