"""Which of the fit records are used: current, without duplicates, and so many of each task as was asked for."""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from ..calibrate import named
from ..errors import RecordError
from .funnel import Funnel
from .spill import Span

PICKS = ("first", "best", "shortest", "random")
LATEST = "latest"

Source = tuple[str | None, str | None]  # environment and model


class Shape(NamedTuple):
    """A conversation's measures: its rows' lengths in tokens, its calls, and the digests of `Measured`."""

    lengths: tuple[int, ...]
    calls: int
    opening: int
    key: bytes
    prompt: bytes
    marks: tuple[int, ...]

    @property
    def tokens(self) -> int:
        """The length of the longest row."""
        return max(self.lengths, default=0)


class Candidate(NamedTuple):
    """What the choice between fit records needs to know of one; its rows wait at `span`."""

    task_id: str
    task_hash: str
    episode_id: str
    trial: int
    started_at: str
    reward: float
    success: bool
    harm: bool
    source: Source
    shape: Shape
    span: Span | None

    @property
    def order(self) -> tuple[str, int, str, str]:
        """Where it stands among all, whatever the order in which records were read."""
        return self.task_id, self.trial, self.started_at, self.episode_id


class Versions:
    """The versions of each task that graded records were seen of, and which one is current."""

    def __init__(self, known: Mapping[str, str] | None, choice: str | None) -> None:
        self._known = known
        self._choice = choice
        self._seen: dict[str, dict[str, tuple[int, str]]] = defaultdict(dict)

    def see(self, task_id: str, task_hash: str, started_at: str) -> None:
        """Count a graded record of a version."""
        count, last = self._seen[task_id].get(task_hash, (0, ""))
        self._seen[task_id][task_hash] = (count + 1, max(last, started_at))

    def current(self) -> dict[str, str]:
        """Each task's current task_hash; RecordError where records are of several and nothing says which one is."""
        return {task_id: self._current(task_id, versions) for task_id, versions in self._seen.items()}

    def _current(self, task_id: str, versions: Mapping[str, tuple[int, str]]) -> str:
        if self._known is not None:
            return self._known.get(task_id, "")
        if len(versions) == 1:
            return next(iter(versions))
        if self._choice == LATEST:
            return max(versions, key=lambda version: (versions[version][1], version))
        if self._choice in versions:
            return str(self._choice)
        counts = ", ".join(f"{version:.12} ({count:,})" for version, (count, _) in sorted(versions.items()))
        raise RecordError(
            f"the records of task {named([task_id])} are of {len(versions)} versions: {counts}; choose with "
            "--version latest, --version HASH, or --tasks FILE"
        )


def current(candidates: Iterable[Candidate], versions: Mapping[str, str], funnel: Funnel) -> list[Candidate]:
    """Those of the current version of their task, in order."""
    kept, stale = [], 0
    for candidate in sorted(candidates, key=lambda each: each.order):
        if versions.get(candidate.task_id) == candidate.task_hash:
            kept.append(candidate)
        else:
            stale += 1
    funnel.drop("current", "of another version of the task", stale)
    return kept


def unique(candidates: Iterable[Candidate], funnel: Funnel) -> list[Candidate]:
    """The first of those that made the same calls for the same task."""
    found: dict[tuple[str, bytes], Candidate] = {}
    count = 0
    for candidate in candidates:
        count += 1
        found.setdefault((candidate.task_hash, candidate.shape.key), candidate)
    funnel.drop("unique", "with the calls of another", count - len(found))
    return list(found.values())


def picked(
    candidates: Sequence[Candidate], pick: str, most: Callable[[str], int | None], seed: int, funnel: Funnel
) -> list[Candidate]:
    """At most `most(task_id)` of each task (None: all), those that `pick` puts first, in order."""
    by_task: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        by_task[candidate.task_id].append(candidate)
    kept = [
        candidate
        for task_id, group in by_task.items()
        for candidate in sorted(group, key=_ranking(pick, seed))[: most(task_id)]
    ]
    funnel.drop("picked", "beyond what a task may give", len(candidates) - len(kept))
    return sorted(kept, key=lambda each: each.order)


def balanced(cap: int, graded: Mapping[str, int], successes: Mapping[str, int]) -> Callable[[str], int]:
    """So many records of a task as the cap times its failure rate, rounded up, and at least one."""
    return lambda task_id: max(1, math.ceil(cap * (1 - successes[task_id] / graded[task_id])))


def most_of_a_task(candidates: Iterable[Candidate]) -> int:
    """How many candidates the task with most of them has."""
    return max(Counter(candidate.task_id for candidate in candidates).values(), default=0)


def validation_tasks(task_ids: Iterable[str], share: float, seed: int) -> set[str]:
    """The tasks held out for validation: `share` of them, rounded to the nearest count of at least one."""
    ordered = sorted(set(task_ids), key=lambda task_id: draw(seed, task_id))
    if not share:
        return set()
    if len(ordered) < 2:
        raise RecordError("the rows are of one task, which cannot be split; leave --validation out")
    return set(ordered[: min(len(ordered) - 1, max(1, round(share * len(ordered))))])


def draw(seed: int, *names: str) -> bytes:
    """A value that is random over names and the same on every machine."""
    return hashlib.sha256("\0".join([str(seed), *names]).encode(errors="surrogatepass")).digest()


def _ranking(pick: str, seed: int) -> Callable[[Candidate], tuple[object, ...]]:
    rankings: Mapping[str, Callable[[Candidate], tuple[object, ...]]] = {
        "first": lambda each: each.order,
        "best": lambda each: (-each.reward, each.shape.calls, each.shape.tokens, *each.order),
        "shortest": lambda each: (each.shape.calls, each.shape.tokens, *each.order),
        "random": lambda each: (draw(seed, each.episode_id), *each.order),
    }
    return rankings[pick]
