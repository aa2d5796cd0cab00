"""How far a run has come, and at its end what its episodes came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..columns import aligned

_COLUMNS = ("tasks", "graded", "success", "reward", "harm", "void")
_REASON = 200  # characters of a void's reason that are told


@dataclass(frozen=True)
class Progress:
    """How far a run has come, in rollouts; `void` counts attempts, times are in seconds."""

    done: int
    total: int
    successes: int
    void: int
    elapsed_s: float

    @property
    def rate(self) -> float:
        """Rollouts a second."""
        return self.done / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def left_s(self) -> float | None:
        """The time left at this rate, None before there is one."""
        return (self.total - self.done) / self.rate if self.rate else None


@dataclass
class SplitTotals:
    """The graded and void episodes of one split."""

    tasks: set[str] = field(default_factory=set)
    graded: int = 0
    successes: int = 0
    harmful: int = 0
    void: int = 0
    rewards: float = 0.0

    def as_json(self) -> dict[str, int | float | None]:
        """The columns of the table; shares and means are None before anything is graded."""
        n = self.graded
        shares = (part / n if n else None for part in (self.successes, self.rewards, self.harmful))
        return dict(zip(_COLUMNS, (len(self.tasks), n, *shares, self.void), strict=True))

    def add(self, record: Mapping[str, Any]) -> None:
        """Count a record."""
        self.tasks.add(record["task_id"])
        if record.get("reward") is None:
            self.void += 1
            return
        metadata = record.get("metadata") or {}
        self.graded += 1
        self.rewards += float(record["reward"])
        self.successes += bool(metadata.get("success"))
        self.harmful += bool(metadata.get("harm"))


@dataclass
class Report:
    """What came of a run's rollouts, those that were done before it included.

    `earlier` counts these, `unfinished` the rollouts that are still void, with `reasons` for their last attempts.
    """

    splits: dict[str, SplitTotals] = field(default_factory=dict)
    earlier: int = 0
    unfinished: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    stats: Mapping[str, Any] = field(default_factory=dict)

    def add(self, record: Mapping[str, Any]) -> None:
        """Count a record."""
        self.splits.setdefault(record.get("split") or "-", SplitTotals()).add(record)

    def give_up(self, record: Mapping[str, Any]) -> None:
        """Count a void record that will not be played again."""
        self.unfinished += 1
        self.reasons[" ".join(str(record["metadata"]["void_reason"]).split())[:_REASON]] += 1

    def as_json(self) -> dict[str, Any]:
        """The counts, for a machine to read; `success`, `reward` and `harm` are shares and means of what is graded."""
        splits = {name: totals.as_json() for name, totals in sorted(self.splits.items())}
        return {
            "splits": splits,
            "earlier": self.earlier,
            "unfinished": self.unfinished,
            "reasons": dict(self.reasons.most_common()),
        }

    def table(self) -> str:
        """The splits as a text table."""
        rows: list[tuple[str, ...]] = [("split", *_COLUMNS)]
        for name, totals in sorted(self.splits.items()):
            rows.append((name, *map(_cell, totals.as_json().values())))
        return aligned(rows, numbers=True)


def _cell(value: float | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.2f}"
