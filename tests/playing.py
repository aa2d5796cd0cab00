"""Agents for command lines: `playing:says`, and others that take their time or do not work."""

from __future__ import annotations

import time
from typing import Any


def says(session: Any, task: Any, tools: Any, **_: Any) -> None:
    """Succeed."""
    session.step("say", {})


def breaks(session: Any, task: Any, tools: Any, **_: Any) -> None:
    """Break the environment."""
    session.step("boom", {})


def raises(session: Any, task: Any, tools: Any, **_: Any) -> None:
    """Raise."""
    raise LookupError("no such drawer")


def slow(session: Any, task: Any, tools: Any, *, seconds: float = 0.05, **_: Any) -> None:
    """Take some time."""
    session.step("say", {})
    time.sleep(seconds)


def thinks(session: Any, task: Any, tools: Any, *, trial: int, **_: Any) -> None:
    """Block in code of its own for a minute, but for the first trial."""
    session.step("say", {})
    if trial:
        time.sleep(60)


def waits(session: Any, task: Any, tools: Any, *, trial: int, **_: Any) -> None:
    """Block in a step for a minute, but for the first trial."""
    session.step("say", {})
    if trial:
        session.step("sleep", {"seconds": 60})


not_callable = 3
