"""What lists show of an episode, without its steps."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..records.canonical import alike
from ..records.shape import count, mapping, number, rows, text
from .reason import Reason, reason_of

OUTCOMES = ("success", "failure", "void")


@dataclass(frozen=True, slots=True)
class Entry:
    """One episode. `calls` holds this process's hash of each call; `place` and `length` are its record's in a spool."""

    episode_id: str
    sha256: str
    task_id: str
    task_hash: str
    outcome: str
    harm: bool
    reward: float | None
    trial: int
    attempt: int
    agent: str
    ended_by: str
    reason: Reason | None
    checks: int
    met: int
    steps: int
    tool_errors: int
    seconds: float | None
    started_at: str
    calls: array[int]
    place: int
    length: int = 0

    def json(self) -> dict[str, Any]:
        """What a list of episodes says of it."""
        named = {name: value for name, value in asdict(self).items() if name not in ("calls", "place", "length")}
        return {**named, "reason": self.reason and self.reason._asdict()}


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """What the records of a task say of it."""

    task_id: str
    instruction: str
    split: str
    tags: tuple[str, ...]


def entry_of(record: Mapping[str, Any], sha256: str, place: int = 0) -> Entry:
    """The entry of a record with this hash, kept at this place of a spool."""
    metadata, timings = mapping(record.get("metadata")), mapping(record.get("timings"))
    checks = rows(metadata.get("checks"))
    steps = rows(record.get("steps"))
    outcome = outcome_of(record)
    return Entry(
        episode_id=text(record.get("episode_id")) or f"sha256-{sha256[:16]}",
        sha256=sha256,
        task_id=text(record.get("task_id")),
        task_hash=text(metadata.get("task_hash")),
        outcome=outcome,
        harm=metadata.get("harm") is True or bool(metadata.get("harms")),
        reward=number(record.get("reward")),
        trial=count(record.get("trial")),
        attempt=count(record.get("attempt")),
        agent=_agent_name(record),
        ended_by=text(metadata.get("ended_by")),
        reason=reason_of(record, outcome),
        checks=len(checks),
        met=sum(check.get("passed") is True for check in checks),
        steps=len(steps),
        tool_errors=sum(bool(step.get("error")) for step in steps),
        seconds=number(timings.get("episode_s")),
        started_at=text(timings.get("started_at")),
        calls=array("q", (hash(call_key(step)) for step in steps)),
        place=place,
    )


def task_info(record: Mapping[str, Any]) -> TaskInfo:
    """The task of a record: from its row, or from what the agent was told."""
    task = mapping(record.get("task"))
    tags = task.get("tags")
    return TaskInfo(
        text(record.get("task_id")),
        text(task.get("instruction")) or text(record.get("prompt")),
        text(record.get("split")),
        tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else (),
    )


def outcome_of(record: Mapping[str, Any]) -> str:
    """Void where the episode could not be graded, else success or failure."""
    if number(record.get("reward")) is None:
        return "void"
    return "success" if mapping(record.get("metadata")).get("success") is True else "failure"


def _agent_name(record: Mapping[str, Any]) -> str:
    """The model that played, else the agent's name."""
    agent = mapping(record.get("agent"))
    return text(agent.get("model")) or text(agent.get("name"))


def call_key(step: Mapping[str, Any]) -> bytes:
    """Two calls are equal when their keys are: the tool and its arguments, or the raw action."""
    return alike([step["action"]] if "action" in step else [step.get("tool"), step.get("arguments")])
