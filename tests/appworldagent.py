"""Agents for the fake AppWorld, by name on a command line."""

from __future__ import annotations

from typing import Any


def solves(session: Any, task: Any, tools: Any, *, trial: int, **_: Any) -> None:
    """Solve the task in the even trials."""
    session.step("execute", {"code": "complete wrong" if trial % 2 else "complete right"})
