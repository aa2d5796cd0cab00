"""What makes an episode void, as pure functions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from miroir.errors import (
    ConnectionLost,
    ContextFull,
    CoworkerFailed,
    EnvError,
    InvalidArgument,
    MiroirError,
    ModelError,
    NotGraded,
    StepTimeout,
)
from miroir.void import blame, ending, gradable, void_record, worth_again
from miroir.wire import Record

LOST, LATE, UNGRADED = ConnectionLost("gone"), StepTimeout("late"), NotGraded("no grade")


def record(fault: BaseException, ended_by: str, steps: Any = ()) -> Record:
    """The void record that the fault leaves."""
    return void_record(
        {"id": "t", "task_hash": "h", "instruction": "", "split": "eval"},
        fault,
        ended_by,
        episode_id=None,
        env={"name": "office", "version": "1"},
        steps=steps,
        started_at=datetime(2026, 1, 2, tzinfo=UTC),
        episode_s=1.23456789,
    )


def coworker_failed(cause: Exception) -> CoworkerFailed:
    """A coworker's failure with its cause."""
    error = CoworkerFailed("no answer")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("fault", "agents", "ended_by"),
    [
        (LOST, False, "lost"),
        (LATE, True, "lost"),
        (UNGRADED, False, "env_error"),
        (EnvError("EXECUTION_ERROR", "reset failed"), False, "env_error"),
        (EnvError("VALIDATION_ERROR", "no object"), True, "agent_error"),
        (coworker_failed(ModelError("down")), True, "env_error"),
        (ModelError("down"), True, "agent_error"),
        (InvalidArgument("wrong"), True, "agent_error"),
        (RuntimeError("bug"), True, "agent_error"),
    ],
)
def test_a_fault_says_how_the_episode_ended(fault: Exception, agents: bool, ended_by: str) -> None:
    """The network's faults are `lost`, the environment's and the coworkers' `env_error`, the rest the agent's."""
    assert ending(fault, agents=agents) == ended_by


@pytest.mark.parametrize(
    ("error", "graded"),
    [
        (None, True),
        (EnvError("EXECUTION_ERROR", "crashed"), True),
        (EnvError("EPISODE_OVER", "over"), True),
        (ContextFull("too long"), True),
        (EnvError("VALIDATION_ERROR", "wrong"), False),
        (ModelError("down"), False),
        (RuntimeError("bug"), False),
    ],
)
def test_some_errors_of_an_agent_leave_a_grade(error: Exception | None, graded: bool) -> None:
    """An episode that is over, or whose agent has no more room to think, has a grade at the server."""
    assert gradable(error) is graded


@pytest.mark.parametrize(
    ("fault", "ended_by", "again"),
    [
        (LOST, "lost", True),
        (UNGRADED, "env_error", True),
        (None, "env_error", True),
        (None, "deadline", True),
        (RuntimeError("bug"), "agent_error", False),
        (ModelError("down", retryable=True), "agent_error", True),
        (ModelError("no", status=401), "agent_error", False),
        (coworker_failed(ModelError("down", retryable=True)), "env_error", True),
        (coworker_failed(ModelError("no", status=403)), "env_error", False),
        (coworker_failed(LOST), "env_error", True),
    ],
)
def test_what_is_worth_playing_again(fault: Exception | None, ended_by: str, again: bool) -> None:
    """Faults of the environment, the network and endpoints may pass; an agent's bug and a refused key do not."""
    assert worth_again(record(fault or MiroirError("X", "x"), ended_by), fault) is again


@pytest.mark.parametrize(
    ("fault", "ended_by", "blamed"),
    [
        (LOST, "lost", True),
        (UNGRADED, "env_error", True),
        (coworker_failed(LOST), "env_error", False),
        (RuntimeError("bug"), "agent_error", False),
        (None, "deadline", False),
    ],
)
def test_a_container_is_blamed_for_its_own_faults(fault: Exception | None, ended_by: str, blamed: bool) -> None:
    """A lost connection and an environment's error are the container's; an agent's and a coworker's are not."""
    void = record(fault or MiroirError("X", "x"), ended_by)

    assert bool(blame(void, fault)) is blamed
    assert blame({**void, "reward": 0.0}, fault) == ""


def test_a_void_record_holds_what_the_client_saw() -> None:
    """It has every key of the schema, the steps and their times, and a reason; success and harm are false."""
    steps = [
        {"tool": "say", "error": None, "seconds": 0.25},
        {"tool": "say", "error": {"message": "no"}, "seconds": 0.5},
        {"action": {"go": 1}, "error": None, "seconds": 0.0},
        {"tool": "submit", "error": None, "seconds": 0.25},
    ]

    void = record(LOST, "lost", steps)

    assert len(void.pop("episode_id")) == 32  # type: ignore[misc]
    assert void == {
        "schema": 1,
        "task_id": "t",
        "split": "eval",
        "env": {"name": "office", "version": "1"},
        "reward": None,
        "metadata": {
            "task_hash": "h",
            "success": False,
            "harm": False,
            "ended_by": "lost",
            "void_reason": "CONNECTION_LOST: gone",
            "checks": [],
            "harms": [],
        },
        "diagnostics": {"steps": 3, "tool_errors": 1},
        "timings": {"started_at": "2026-01-02T00:00:00+00:00", "episode_s": 1.234568, "env_s": 1.0},
        "steps": steps,
        "made_by": "client",
    }
