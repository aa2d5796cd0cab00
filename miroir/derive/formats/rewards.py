"""The graded records in numbers, one flat row each, for a table or a reward model's bookkeeping."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...records.shape import mapping
from .form import Column, Example, Format, Kind, Row

# Each column: where in a record it stands, and what it holds.
_PLACES: Mapping[str, tuple[str, Column]] = {
    "task_id": ("task_id", Column.TEXT),
    "task_hash": ("metadata.task_hash", Column.TEXT),
    "split": ("split", Column.TEXT),
    "env": ("env.name", Column.TEXT),
    "agent": ("agent.name", Column.TEXT),
    "model": ("agent.model", Column.TEXT),
    "trial": ("trial", Column.INTEGER),
    "episode_id": ("episode_id", Column.TEXT),
    "reward": ("reward", Column.NUMBER),
    "success": ("metadata.success", Column.BOOLEAN),
    "harm": ("metadata.harm", Column.BOOLEAN),
    "ended_by": ("metadata.ended_by", Column.TEXT),
    "steps": ("diagnostics.steps", Column.NUMBER),
    "tool_errors": ("diagnostics.tool_errors", Column.NUMBER),
    "prompt_tokens": ("usage.prompt_tokens", Column.INTEGER),
    "completion_tokens": ("usage.completion_tokens", Column.INTEGER),
    "episode_s": ("timings.episode_s", Column.NUMBER),
    "started_at": ("timings.started_at", Column.TEXT),
}


def _rows(example: Example) -> list[Row]:
    return [{name: _at(example.record, place) for name, (place, _) in _PLACES.items()}]


def _at(record: Mapping[str, Any], place: str) -> Any:
    part, _, key = place.rpartition(".")
    return (mapping(record.get(part)) if part else record).get(key)


REWARDS = Format(
    name="rewards",
    about="the graded records in numbers, one flat row each (CSV)",
    kind=Kind.TABLE,
    columns={name: column for name, (_, column) in _PLACES.items()},
    rows=_rows,
    any_outcome=True,
    recipe="# pandas.read_csv({file!r})\n",
)
