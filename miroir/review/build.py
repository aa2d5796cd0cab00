"""From trace files to what a reviewer opens: the collection narrowed to what is asked for, and the facts around it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version

from ..calibrate import read_calibration
from ..errors import InvalidArgument
from ..notes import read_notes
from ..records.sources import Traces
from .collection import Collection
from .index import LABELS, Facts
from .report import MAX_MB, Written, write
from .sample import sample

Name = str | os.PathLike[str]


@dataclass(frozen=True)
class Settings:
    """What a review shows: notes and classes read from files, labels to choose from, a sample, grades kept hidden.

    `size` None shows every episode; `blind` hides an episode's grade from a reviewer until it is judged.
    """

    title: str = "Review"
    notes: Sequence[Name] = ()
    calibration: Name | None = None
    labels: Sequence[str] = LABELS
    size: int | None = None
    seed: int = 0
    strata: Sequence[str] = ()
    blind: bool = False


def write_report(
    traces: Traces,
    out: Name,
    settings: Settings = Settings(),
    *,
    redact: Sequence[str] = (),
    skip_bad: bool = False,
    max_mb: float = MAX_MB,
) -> Written:
    """Write the review of trace files as an HTML page, or where one cannot hold it as several; see `report.write`."""
    with Collection(traces, redact=redact, skip_bad=skip_bad) as collection:
        return write(collection, out, prepared(collection, settings), max_mb=max_mb)


def prepared(collection: Collection, settings: Settings) -> Facts:
    """The facts of a report on the collection, which is narrowed to the sample where one is asked for."""
    if settings.blind and settings.size is None:
        raise InvalidArgument("grades are hidden for a sample only; give --sample N with --blind")
    if settings.strata and settings.size is None:
        raise InvalidArgument("strata are of a sample; give --sample N with --stratify")
    if "class" in settings.strata and settings.calibration is None:
        raise InvalidArgument("classes need a calibration file; name it with --calibration FILE")
    classes, told = _classes(collection, settings.calibration)
    queue: list[str] = []
    if settings.size is not None:
        chosen = sample(collection.entries, settings.size, seed=settings.seed, strata=settings.strata, classes=classes)
        if not chosen:
            raise InvalidArgument("every episode is void, so there is no grade to judge; run them again")
        told = f"{told}; a sample of {len(chosen)} of {len(collection.entries)} episodes, seed {settings.seed}"
        collection.keep(chosen)
        queue = [entry.episode_id for entry in chosen]
    redaction = collection.redaction
    return Facts(
        title=redaction.text(settings.title),
        made_at=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        made_by=f"miroir {version('miroir')}",
        loaded=f"{collection.report}{told}",
        redacted=f"{redaction.count:,} places were redacted" if redaction else "",
        classes=classes,
        labels=settings.labels,
        notes=[note for path in settings.notes for note in read_notes(path)],
        queue=queue,
        blind=settings.blind,
    )


def _classes(collection: Collection, path: Name | None) -> tuple[dict[str, str | None], str]:
    """Each task's class, and a sentence on those that are of another version of their task."""
    if path is None:
        return {}, ""
    tasks = read_calibration(path)["tasks"]
    listed = {entry.task_id: entry.task_hash for entry in collection.entries if entry.task_id in tasks}
    found = {task: tasks[task]["class"] for task, made in listed.items() if tasks[task]["task_hash"] == made}
    other = len(listed) - len(found)
    return found, f"; of another version, and left out: the classes of {other} tasks" if other else ""
