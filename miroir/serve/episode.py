"""One episode as the server keeps it: its steps, how it ended, and its record. Pure; the clock is injected."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ..wire import RECORD_SCHEMA, Record, Task
from .environment import Grade
from .tools import Fault, Toolbox


@dataclass
class Answer:
    """What a tool call came to: its text, the same as an object where it is one, or its fault.

    `crash` says how the environment failed, where it did.
    """

    text: str = ""
    structured: Mapping[str, Any] | None = None
    fault: Fault | None = None
    crash: str | None = None
    is_error: bool = False
    done: bool = False
    reward: float | None = None
    seconds: float = 0.0

    @property
    def failed(self) -> bool:
        """Whether the model was told of an error."""
        return self.is_error or self.fault is not None

    def observation(self, tool: str) -> dict[str, Any]:
        """The answer in the shape of OpenEnv's CallToolObservation."""
        if self.fault is not None:
            return {"tool_name": tool, "result": None, "error": self.fault._asdict()}
        result = {
            "content": [{"type": "text", "text": self.text}],
            "structured_content": self.structured,
            "data": self.text if self.structured is None else self.structured,
            "is_error": self.is_error,
            "meta": None,
        }
        return {"tool_name": tool, "result": result, "error": None}


@dataclass
class Episode:
    """An attempt at a task, from its first observation (`started`, seconds on the clock of `now`) to its grade."""

    task: Task
    episode_id: str
    max_seconds: float | None
    toolbox: Toolbox
    started: float
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    ended: float | None = None
    ended_by: str | None = None
    void_reason: str | None = None
    grade: Grade | None = None
    steps: list[dict[str, Any]] = field(default_factory=list)
    step_count: int = 0
    tool_errors: int = 0
    env_s: float = 0.0

    @property
    def done(self) -> bool:
        """Whether it has ended, graded or void."""
        return self.ended_by is not None

    @property
    def deadline(self) -> float | None:
        """When it ends by itself; None: never."""
        return None if self.max_seconds is None else self.started + self.max_seconds

    @property
    def out_of_steps(self) -> bool:
        """Whether it has used all its tool calls."""
        limit = self.task.get("max_steps")
        return limit is not None and self.step_count >= limit

    @property
    def reward(self) -> float | None:
        """The grade's reward; None while it runs and when it is void."""
        return None if self.void_reason is not None or self.grade is None else self.grade.reward

    def count(self, answer: Answer, *, step: bool) -> None:
        """Count a tool call; `step` is false for the one that submits."""
        self.step_count += step
        self.tool_errors += answer.failed
        self.env_s += answer.seconds

    def end(self, by: str, now: float, grade: Grade) -> None:
        """End it with its grade; a reward that is missing or not finite makes it void."""
        self.ended_by, self.ended, self.grade = by, now, grade
        if grade.reward is None:
            self.void_reason = "the environment gave no reward"
        elif not math.isfinite(grade.reward):
            self.void("env_error", now, f"the reward is not a finite number: {grade.reward}")

    def void(self, by: str, now: float, reason: str) -> None:
        """End it without a grade."""
        self.ended_by, self.ended, self.void_reason = by, now, reason

    def add(self, tool: str, arguments: Mapping[str, Any], answer: Answer, at: float) -> dict[str, Any]:
        """Keep a tool call that began at `at`, with what it came to, once its reward is known; the record's step."""
        step = {
            "tool": tool,
            "arguments": arguments,
            "result": answer.text if answer.structured is None else answer.structured,
            "error": None if answer.fault is None else answer.fault._asdict(),
            "reward": self.reward if self.done else answer.reward,
            "done": self.done,
            "at_s": round(at - self.started, 6),
            "seconds": round(answer.seconds, 6),
        }
        self.steps.append(step)
        return step

    def record(self, env: Mapping[str, str]) -> Record:
        """The record, version 1, of an episode that is done."""
        assert self.ended is not None
        assert self.ended_by is not None
        grade = self.grade or Grade(reward=None, success=False)
        return {
            "schema": RECORD_SCHEMA,
            "episode_id": self.episode_id,
            "task_id": self.task["id"],
            "split": self.task.get("split"),
            "env": dict(env),
            "reward": self.reward,
            "metadata": {
                "task_hash": self.task["task_hash"],
                "success": self.void_reason is None and grade.success,
                "harm": bool(grade.harms),
                "ended_by": self.ended_by,
                "void_reason": self.void_reason,
                "checks": [{"name": c.name, "passed": c.passed, "detail": c.detail} for c in grade.checks],
                "harms": [{"name": h.name, "detail": h.detail} for h in grade.harms],
            },
            "diagnostics": {**grade.diagnostics, "steps": self.step_count, "tool_errors": self.tool_errors},
            "timings": {
                "started_at": self.started_at.isoformat(),
                "episode_s": round(self.ended - self.started, 6),
                "env_s": round(self.env_s, 6),
            },
            "steps": self.steps,
        }

    def state(self) -> dict[str, Any]:
        """What the `state` frame says of it."""
        return {
            "episode_id": self.episode_id,
            "task_id": self.task["id"],
            "step_count": self.step_count,
            "done": self.done,
            "ended_by": self.ended_by,
        }
