"""An episode as its client saw it, and the record of one that no server has a record of."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NotRequired, TypedDict, cast

from .. import wire

UNGRADED = "the environment ended the episode without a reward, or with one that is no number"
UNENDED = "the environment did not end the episode, and gave no reward"


class StepEntry(TypedDict):
    """One step as a record lists it; times in seconds, `at_s` since the episode's start."""

    tool: NotRequired[str]
    arguments: NotRequired[dict[str, Any]]
    action: NotRequired[dict[str, Any]]
    result: Any
    error: dict[str, Any] | None
    reward: float | None
    done: bool
    at_s: float
    seconds: float


class Journal:
    """What a client knows of one episode, from its first observation on."""

    def __init__(self, task_id: str, options: Mapping[str, Any], max_seconds: int | None) -> None:
        self.started_at = datetime.now(UTC)
        self.max_seconds = max_seconds
        self.steps: list[StepEntry] = []
        self.done = False
        self.task_id = task_id
        self._options = options
        self._began = time.monotonic()
        self._reward: float | None = None
        self._success: bool | None = None
        self._ended_by = wire.SUBMIT
        self._fault = ""

    @property
    def late(self) -> bool:
        """Whether the episode's time is over."""
        return self.max_seconds is not None and time.monotonic() - self._began >= self.max_seconds

    def add(self, entry: Any, step: wire.Step, at: float) -> None:
        """Keep a step: its tool and arguments, or its action, to which `at` (monotonic) and the outcome are added."""
        observation = step["observation"]
        entry["result"] = wire.result_of(observation)
        entry["error"] = observation.get("error")
        entry["reward"] = step["reward"]
        entry["done"] = step["done"]
        entry["at_s"] = round((at - self._began) * 1e6) / 1e6  # half the time of a round to six places
        entry["seconds"] = round((time.monotonic() - at) * 1e6) / 1e6
        self.steps.append(entry)
        if step["done"]:
            self.end(step, wire.SUBMIT if entry.get("tool") == wire.SUBMIT else "done")

    def end(self, reply: Mapping[str, Any], by: str) -> None:
        """The environment has ended the episode in this reply, which has the reward."""
        reward, metadata = reply.get("reward"), wire.observed(reply).get("metadata")
        self.done, self._ended_by = True, by
        self._reward = reward if is_finite(reward) else None
        said = metadata.get("success") if isinstance(metadata, dict) else None
        self._success = said if isinstance(said, bool) else None

    def fail(self, why: str, by: str = "env_error") -> None:
        """The episode is over, without a grade, unless it was over before."""
        if not self.done:
            self.done, self._ended_by, self._fault = True, by, why

    def record(self, episode_id: str, env: Mapping[str, str]) -> wire.Record:
        """The record of the episode as it stands; `env` is the environment's name and version."""
        void_reason = None
        if self._reward is None:
            void_reason = self._fault or (UNGRADED if self.done else UNENDED)
        success = self._success if self._success is not None else self._reward == 1.0
        split = self._options.get("split")
        return client_record(
            {"id": self.task_id, "task_hash": wire.digest(dict(self._options)), "instruction": "", "split": split},
            episode_id=episode_id,
            env=env,
            reward=self._reward,
            success=success,
            ended_by=self._ended_by,
            void_reason=void_reason,
            steps=self.steps,
            started_at=self.started_at,
            episode_s=time.monotonic() - self._began,
        )


def as_sent(value: Any) -> Any:
    """Arguments or an action as they are now, for a step to keep: an agent may fill one dict again and again."""
    return value.copy() if isinstance(value, dict) else value


def client_record(
    task: Mapping[str, Any],
    *,
    episode_id: str,
    env: Mapping[str, str],
    reward: float | None,
    success: bool,
    ended_by: str,
    void_reason: str | None,
    steps: Sequence[StepEntry],
    started_at: datetime,
    episode_s: float,
) -> wire.Record:
    """The record, version 1, of an episode of which only its client knows."""
    return {
        "schema": wire.RECORD_SCHEMA,
        "episode_id": episode_id,
        "task_id": task["id"],
        "split": task.get("split"),
        "env": dict(env),
        "reward": reward,
        "metadata": {
            "task_hash": task["task_hash"],
            "success": success and reward is not None,
            "harm": False,
            "ended_by": ended_by,
            "void_reason": void_reason,
            "checks": [],
            "harms": [],
        },
        "diagnostics": {
            "steps": sum(1 for step in steps if step.get("tool") != wire.SUBMIT),
            "tool_errors": sum(1 for step in steps if step["error"]),
        },
        "timings": {
            "started_at": started_at.isoformat(),
            "episode_s": round(episode_s, 6),
            "env_s": round(sum(step["seconds"] for step in steps), 6),
        },
        "steps": cast("list[dict[str, Any]]", list(steps)),
        "made_by": "client",
    }


def is_finite(reward: Any) -> bool:
    """Whether it is a number that a float can hold."""
    try:
        return isinstance(reward, int | float) and not isinstance(reward, bool) and math.isfinite(reward)
    except OverflowError:  # an integer beyond the floats
        return False
