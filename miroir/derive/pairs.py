"""Pairs of a better and a worse episode that began with the same prompt, for preference training."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .funnel import Funnel
from .selection import Candidate, draw

MODES = ("all", "near-miss", "best-worst", "harm")


class Pair(NamedTuple):
    """Two episodes of a task; their prompt is their first `shared` messages, back to the last turn's beginning."""

    chosen: Candidate
    rejected: Candidate
    shared: int


@dataclass(frozen=True)
class Pairing:
    """How pairs are made.

    `all` takes every success with every episode of a lower reward, `near-miss` for each success the one that went the
    same way longest, `best-worst` one pair a task, `harm` every harmless success with every harmful one. `margin` is
    the least difference in reward, `length_ratio` the most that the longer may be of the shorter.
    """

    mode: str = "all"
    margin: float = 0.0
    length_ratio: float | None = None
    per_task: int | None = None
    per_record: int | None = None
    seed: int = 0

    def pairs(self, candidates: Iterable[Candidate], funnel: Funnel) -> list[Pair]:
        """The pairs, in the order of their chosen and then rejected episodes; counted in the funnel."""
        groups: dict[tuple[str, str], list[Candidate]] = defaultdict(list)
        for candidate in candidates:
            groups[candidate.task_id, candidate.task_hash].append(candidate)
        kept = [pair for group in groups.values() for pair in self._of_task(group, funnel)]
        return sorted(kept, key=lambda pair: (pair.chosen.order, pair.rejected.order))

    def _of_task(self, group: Sequence[Candidate], funnel: Funnel) -> list[Pair]:
        possible = [
            Pair(chosen, rejected, self._shared(chosen, rejected))
            for chosen in group
            if chosen.success and not chosen.harm
            for rejected in group
            if self._is_worse(rejected, chosen)
        ]
        funnel.read += len(possible)
        fit = [pair for pair in possible if self._fits(pair, funnel)]
        kept = self._capped(self._chosen(fit))
        funnel.drop("within the caps", f"beyond what {self.mode} takes of a task", len(fit) - len(kept))
        return kept

    def _is_worse(self, rejected: Candidate, chosen: Candidate) -> bool:
        if self.mode == "harm":
            return rejected.success and rejected.harm
        return not rejected.harm and rejected.reward < chosen.reward

    def _shared(self, chosen: Candidate, rejected: Candidate) -> int:
        if self.mode != "near-miss":
            return chosen.shape.opening
        marks = zip(chosen.shape.marks, rejected.shape.marks, strict=False)
        return next((index for index, (one, other) in enumerate(marks) if one != other), len(chosen.shape.marks))

    def _fits(self, pair: Pair, funnel: Funnel) -> bool:
        chosen, rejected, _ = pair
        if chosen.shape.prompt != rejected.shape.prompt:
            funnel.drop("of one prompt", "with different prompts")
        elif chosen.reward - rejected.reward < self.margin:
            funnel.drop("apart enough", "closer than the margin")
        elif self.length_ratio and _ratio(chosen.shape.tokens, rejected.shape.tokens) > self.length_ratio:
            funnel.drop("of like length", "of too different lengths")
        else:
            return True
        return False

    def _chosen(self, pairs: Sequence[Pair]) -> list[Pair]:
        """The pairs that the mode takes, the most wanted first."""
        if self.mode == "near-miss":
            ordered = sorted(pairs, key=lambda pair: (-pair.shared, pair.chosen.order, pair.rejected.order))
            nearest: dict[str, Pair] = {}
            for pair in ordered:
                nearest.setdefault(pair.chosen.episode_id, pair)
            return list(nearest.values())
        if self.mode == "best-worst":
            best = sorted(pairs, key=lambda pair: (-pair.chosen.reward, pair.rejected.reward, pair.chosen.order))
            return best[:1]
        return sorted(pairs, key=lambda pair: draw(self.seed, pair.chosen.episode_id, pair.rejected.episode_id))

    def _capped(self, pairs: Sequence[Pair]) -> list[Pair]:
        uses: Counter[str] = Counter()
        kept: list[Pair] = []
        for pair in pairs:
            ids = (pair.chosen.episode_id, pair.rejected.episode_id)
            if self.per_task is not None and len(kept) == self.per_task:
                break
            if self.per_record is not None and any(uses[each] >= self.per_record for each in ids):
                continue
            uses.update(ids)
            kept.append(pair)
        return kept


def _ratio(one: int, other: int) -> float:
    return max(one, other) / max(1, min(one, other))
