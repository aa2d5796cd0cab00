"""The data that a page's lists, charts and failure groups are made of: everything but the records themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Any

from ..notes import Note
from .alignment import best_pair
from .entry import Entry, TaskInfo
from .reason import Reason

LABELS = (
    "agent error",
    "coworker error",
    "grader wrong",
    "environment bug",
    "task ambiguous",
    "reward hack",
    "harm",
    "good example",
)
COLUMNS = (
    *("id", "sha", "task", "outcome", "harm", "reward", "trial", "attempt", "agent", "ended", "reason"),
    *("checks", "met", "steps", "errors", "seconds", "started", "page", "blob"),
)


@dataclass(frozen=True)
class Facts:
    """What holds for the whole report, on each of its pages."""

    title: str
    made_at: str
    made_by: str
    loaded: str
    left_out: str = ""
    redacted: str = ""
    classes: Mapping[str, str | None] = field(default_factory=dict)
    labels: Sequence[str] = LABELS
    notes: Sequence[Note] = ()
    queue: Sequence[str] = ()
    blind: bool = False


Clean = Callable[[str], str]
Place = Callable[[Entry], tuple[int | None, int | None]]


def index(
    facts: Facts,
    entries: Sequence[Entry],
    tasks: Mapping[str, TaskInfo],
    *,
    place: Place,
    clean: Clean,
    **more: Any,
) -> dict[str, Any]:
    """The index of a page that lists `entries`, sorted by task.

    `place` tells the page that holds an episode's record and where on it; `clean` redacts what stands in notes.
    """
    agents: dict[str, int] = {}
    reasons: dict[Reason, int] = {}
    rows: list[list[Any]] = []
    listed = []
    for number, (task_id, group) in enumerate(groupby(entries, key=attrgetter("task_id"))):
        task = list(group)
        listed.append(_task(tasks[task_id], facts.classes.get(task_id), task, len(rows)))
        rows += [_row(entry, number, agents, reasons, place(entry)) for entry in task]
    shown = {entry.episode_id for entry in entries}
    return {
        "title": facts.title,
        "made_at": facts.made_at,
        "made_by": facts.made_by,
        "loaded": facts.loaded,
        "left_out": facts.left_out,
        "redacted": facts.redacted,
        "labels": list(facts.labels),
        "blind": facts.blind,
        "queue": [episode_id for episode_id in facts.queue if episode_id in shown],
        "notes": [_note(note, clean) for note in facts.notes if note["episode_id"] in shown],
        "agents": list(agents),
        "reasons": list(reasons),
        "tasks": listed,
        "columns": COLUMNS,
        "rows": rows,
        **more,
    }


def _task(task: TaskInfo, kind: str | None, entries: Sequence[Entry], first: int) -> dict[str, Any]:
    pair = best_pair(entries)
    return {
        "id": task.task_id,
        "instruction": task.instruction,
        "split": task.split,
        "tags": task.tags,
        "class": kind,
        "versions": len({entry.task_hash for entry in entries}),
        "pair": pair and [first + _at(entries, pair.good), first + _at(entries, pair.bad), pair.common],
    }


def _at(entries: Sequence[Entry], wanted: Entry) -> int:
    return next(at for at, entry in enumerate(entries) if entry is wanted)


def _row(
    entry: Entry, task: int, agents: dict[str, int], reasons: dict[Reason, int], place: tuple[int | None, int | None]
) -> list[Any]:
    """The values of COLUMNS; agents and reasons are numbered as they first appear."""
    agent = agents.setdefault(entry.agent, len(agents))
    reason = None if entry.reason is None else reasons.setdefault(entry.reason, len(reasons))
    return [
        *(entry.episode_id, entry.sha256, task, entry.outcome, entry.harm, entry.reward, entry.trial, entry.attempt),
        *(agent, entry.ended_by, reason, entry.checks, entry.met, entry.steps, entry.tool_errors, entry.seconds),
        *(entry.started_at, *place),
    ]


def _note(note: Note, clean: Clean) -> dict[str, Any]:
    return {**note, **{name: clean(value) for name, value in note.items() if isinstance(value, str)}}
