"""One attempt at a task: the person's tools, the coworkers, and the grade."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...serve.environment import Grade, ToolError
from . import grading, sandbox
from .coworkers import Coworkers
from .operation import Answer
from .scene import Scene
from .tools import Desk

_UNLIMITED = 1_000  # messages to a coworker: more than an episode can hold


class Episode:
    """A scene being played on one surface; `modelled`: a model plays the coworkers, so nothing is scripted."""

    def __init__(self, scene: Scene, surface: str, limits: sandbox.Limits, *, modelled: bool) -> None:
        self.scene = scene
        self.world = scene.world()
        self.coworkers = Coworkers(self.world, scene.me, scene.situation.coworkers)
        self.modelled = modelled
        self._surface = surface
        self._limits = limits
        self._desk = Desk(self.world, scene.me)

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Answer:
        """Run a tool of the surface."""
        if self._surface == "api":
            return self._call_api(tool, arguments)
        if self._surface == "mcp":
            answer = self._desk.call_mcp(tool, arguments)
            self._settle()
            return answer
        if tool != sandbox.TOOL:
            raise ToolError(f"there is no tool {tool!r}; the only tool is {sandbox.TOOL}", "tool_not_found")
        return sandbox.run(arguments, self._call_api, self._limits)

    def grade(self) -> Grade:
        """Judge what changed since the start."""
        scene = self.scene
        asked = [
            claim
            for coworker in scene.situation.coworkers
            for claim in (grading.told(coworker.email, _UNLIMITED), grading.sent(coworker.email, limit=_UNLIMITED))
        ]
        made = grading.changes(scene.start, self.world.snapshot(), scene.me)
        judged = grading.grade(scene.situation.goals, [*scene.situation.allowed, *asked], made)
        counts = {"reads": self._desk.reads, "writes": self._desk.writes, "coworker_replies": self.coworkers.replies}
        return replace(judged, diagnostics={**judged.diagnostics, **counts})

    def _call_api(self, tool: str, arguments: Mapping[str, Any]) -> Answer:
        answer = self._desk.call_api(tool, arguments)
        self._settle()
        return answer

    def _settle(self) -> None:
        """Let the coworkers answer by their script, so that a program can ask and read on in one call."""
        if not self.modelled:
            self.coworkers.answer()
