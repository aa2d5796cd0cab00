"""What a derivation tells of itself: the funnel, the lengths, the files, and what a reader should know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..records import Report as LoadReport
from .exclusion import Near
from .formats import Format, Kind
from .funnel import Funnel
from .measure import BOUNDS
from .options import Options
from .selection import Source

SCHEMA = 1
_NEAR_NAMED = 20


@dataclass(frozen=True)
class Report:
    """What came of a derivation; `files` are the rows written by file, none after a dry run."""

    format: Format
    options: Options
    inputs: Mapping[str, str | None]  # SHA-256 by file
    funnels: Sequence[Funnel]
    files: Mapping[str, int]
    rows: int
    tasks: Mapping[str, Mapping[str, Any]]
    lengths: Mapping[str, Any]
    unit: str
    near: Sequence[Near]
    redacted: int
    notes: Sequence[str]
    sources: Mapping[Source, int]  # what the rows come from

    def lines(self) -> list[str]:
        """The funnel, the rows written and their lengths."""
        told = [line for funnel in self.funnels for line in funnel.lines()]
        what = "files" if self.format.file_each else "rows"
        told += [f"{count:,} {what} written to {name}" for name, count in self.files.items()]
        told += [] if self.files else [f"{self.rows:,} rows would be written"]
        return [*told, *self._length_lines()]

    def named(self) -> Report:
        """The same with files by their names alone, for what is written beside them."""
        return replace(self, files={Path(name).name: count for name, count in self.files.items()})

    def _length_lines(self) -> list[str]:
        """The rows' lengths; none where rows have no length."""
        lengths = self.lengths
        if "longest" not in lengths:
            return []
        shares = ", ".join(f"{lengths[f'over_{bound}']:.0%} over {bound:,}" for bound in BOUNDS)
        return [
            f"row length in {self.unit}: {lengths['shortest']:,} to {lengths['longest']:,}, "
            f"median {lengths['median']:,}; {shares}"
        ]

    def _inputs(self) -> list[tuple[str, str | None]]:
        return sorted(((Path(name).name, digest) for name, digest in self.inputs.items()), key=str)

    def manifest(self) -> dict[str, Any]:
        """The manifest, as JSON can hold it; nothing in it depends on when or where it is made."""
        return {
            "schema": SCHEMA,
            "made_by": f"miroir {version('miroir')}",
            "format": self.format.name,
            "inputs": [{"file": name, "sha256": digest} for name, digest in self._inputs()],
            "options": {name: _plain(value) for name, value in asdict(self.options).items()},
            "funnels": {funnel.title: funnel.as_json() for funnel in self.funnels},
            "files": self.files,
            "lengths": {"unit": self.unit, **self.lengths},
            "redacted": self.redacted,
            "near_duplicates": [near._asdict() for near in self.near[:_NEAR_NAMED]],
            "notes": list(self.notes),
            "tasks": self.tasks,
        }


def notes(
    format_: Format, funnels: Sequence[Funnel], lengths: Mapping[str, Any], near: Sequence[Near], toolsets: int
) -> list[str]:
    """What the user should know of these rows."""
    told = []
    if format_.kind is not Kind.TASKS and lengths.get(f"over_{BOUNDS[0]}"):
        share = lengths[f"over_{BOUNDS[0]}"]
        told.append(
            f"note: {share:.0%} of the rows have more than {BOUNDS[0]:,} tokens, where TRL's trainers cut them unless "
            "told otherwise: set max_length"
        )
    if len(funnels) > 1 and (lost := funnels[1].dropped("of one prompt")):
        told.append(
            f"note: {lost:,} pairs were lost because their prompts differ; --format kto needs no pairs, and takes "
            "these episodes one by one"
        )
    if near:
        worst = max(near, key=lambda each: each.share)
        told.append(
            f"note: the instructions of {len(near):,} training tasks are nearly those of excluded ones, such as "
            f"{worst.task_id} and {worst.excluded_id} ({worst.share:.0%} of word sequences); the manifest names them"
        )
    if toolsets > 1:
        told.append(f"note: the records show {toolsets} different lists of tools; each row keeps its own")
    return told


def lost(loaded: LoadReport) -> list[str]:
    """What of the inputs was no record of its own: damaged lines, half-written ones, duplicates."""
    if loaded.bad or loaded.torn or loaded.duplicates or loaded.voided:
        return [f"note: {loaded}"]
    return []


def task_counts(
    graded: Counter[str], successes: Counter[str], written: Counter[str], held_out: set[str]
) -> dict[str, dict[str, Any]]:
    """Each task's graded and successful records, its rows, and the side of the split that they are on."""
    return {
        task_id: {
            "graded": graded[task_id],
            "successful": successes[task_id],
            "rows": written[task_id],
            "side": "validation" if task_id in held_out else "train",
        }
        for task_id in sorted(graded)
    }


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value
