"""Where everything went: how many were read, what each stage left out and why, and how many are left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

RECORD_STAGES = (
    "graded",
    "asked for",
    "successful",
    "harmless",
    "not excluded",
    "whole",
    "clean",
    "in the format",
    "short enough",
    "current",
    "unique",
    "picked",
)
PAIR_STAGES = ("of one prompt", "apart enough", "of like length", "within the caps")


_WIDTH = max(map(len, RECORD_STAGES))


class Dropped(Exception):
    """What a stage leaves out, and why."""

    def __init__(self, stage: str, reason: str) -> None:
        super().__init__(stage, reason)
        self.stage = stage
        self.reason = reason


class Funnel:
    """Counts of the things that its title names; each is left out by one stage, or by none."""

    def __init__(self, title: str, stages: Sequence[str]) -> None:
        self.title = title
        self.read = 0
        self._dropped: dict[str, Counter[str]] = {stage: Counter() for stage in stages}

    def drop(self, stage: str, reason: str, count: int = 1) -> None:
        """Count what a stage leaves out."""
        if count:
            self._dropped[stage][reason] += count

    def dropped(self, stage: str) -> int:
        """How many the stage left out."""
        return self._dropped[stage].total()

    def left(self, stage: str | None = None) -> int:
        """How many are left after the stage, or after all."""
        left = self.read
        for name, reasons in self._dropped.items():
            left -= reasons.total()
            if name == stage:
                break
        return left

    def as_json(self) -> dict[str, Any]:
        """The counts for a manifest: read, and what is left after each stage with what it left out."""
        stages = {
            stage: {"left": self.left(stage), "left_out": dict(sorted(reasons.items()))}
            for stage, reasons in self._dropped.items()
        }
        return {"read": self.read, "stages": stages}

    def lines(self) -> list[str]:
        """The funnel as a table of text, without the stages that left out nothing."""
        rows = [(self.title, self.read, "")]
        for stage, reasons in self._dropped.items():
            if reasons:
                why = ", ".join(f"{count:,} {reason}" for reason, count in reasons.most_common())
                rows.append((stage, self.left(stage), f"left out: {why}"))
        width = max(_WIDTH, *(len(name) for name, _, _ in rows))
        return [f"{name:<{width}}  {count:>9,}  {why}".rstrip() for name, count, why in rows]

    def sentence(self) -> str:
        """The funnel in one line."""
        parts = [f"{count:,} {reason}" for reasons in self._dropped.values() for reason, count in reasons.most_common()]
        return f"{self.read:,} {self.title}; left out: {', '.join(parts) or 'none'}"
