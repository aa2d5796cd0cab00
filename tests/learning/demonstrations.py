"""Demonstrations of the office's tasks, of which only one in three is right."""

from __future__ import annotations

from typing import Any

from officeplay import playing

from miroir.envs.office.scene import scenes
from miroir.envs.office.tools import by_tool

Call = tuple[str, dict[str, Any]]
SUBMIT: Call = ("submit", {})


def demonstrations(task_id: str) -> list[list[Call]]:
    """Three lists of calls: one solves the task, one omits its last write, one writes to a wrong target.

    Each begins with the last look that the reference takes before it writes. What else it would have to find out is
    already in its arguments: a task's world is always the same, so a model can know it by heart.
    """
    calls = _reference(task_id)
    at = next(at for at, (tool, _) in enumerate(calls) if by_tool()[tool].writes)
    look, writes = calls[at - 1 : at], [call for call in calls if by_tool()[call[0]].writes]
    return [[*look, *flawed, SUBMIT] for flawed in (writes, writes[:-1], _misdirected(task_id, writes))]


def _reference(task_id: str) -> list[Call]:
    """The calls of the reference solution."""
    calls: list[Call] = []
    scene = scenes()[task_id]
    with playing(task_id) as office:

        def act(tool: str, **arguments: Any) -> dict[str, Any]:
            calls.append((tool, arguments))
            return dict(office.call(tool, arguments))

        scene.template.solve(act, scene.situation.brief)
    return calls


def _misdirected(task_id: str, writes: list[Call]) -> list[Call]:
    """The writes, the first of them that can with the task's wrong target."""
    wrong = scenes()[task_id].situation.wrong
    at, arguments = next((at, found) for at, call in enumerate(writes) if (found := wrong.applied(*call)) is not None)
    return [*writes[:at], (writes[at][0], arguments), *writes[at + 1 :]]
