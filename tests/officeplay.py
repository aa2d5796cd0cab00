"""What the office's tests share: an office on a task, and its solution played there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from miroir.envs.office import Office
from miroir.envs.office.scene import Scene, scenes
from miroir.serve.environment import Grade, ToolError


@contextmanager
def playing(
    task_id: str, surface: str = "api", *, coworkers: bool = False, allow_code: bool = False
) -> Iterator[Office]:
    """An office after its reset to the task."""
    office = Office()
    office.allow_code = allow_code
    task = scenes()[task_id].task
    office.reset(task, episode_id="e", seed=None, max_seconds=None, coworkers=coworkers, surface=surface)
    try:
        yield office
    finally:
        office.close()


def solved(scene: Scene, *, misdirected: bool = False) -> tuple[Grade, list[str]]:
    """The grade of the reference solution and the tools that it called; `misdirected`: with its wrong target."""
    called: list[str] = []
    pending = misdirected
    with playing(scene.task["id"]) as office:

        def act(tool: str, **arguments: Any) -> dict[str, Any]:
            nonlocal pending
            called.append(tool)
            wrong = scene.situation.wrong.applied(tool, arguments) if pending else None
            pending = pending and wrong is None
            return dict(office.call(tool, wrong or arguments))

        # What follows from a wrong target may be impossible; the reference itself has no excuse.
        excused = (LookupError, ValueError, ToolError) if misdirected else ()
        with suppress(*excused):
            scene.template.solve(act, scene.situation.brief)
        assert not pending, "the solution never reached its wrong target"
        return office.grade(), called
