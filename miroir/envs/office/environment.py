"""The office as an environment: tasks, tools on three surfaces, coworkers and grading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...serve.environment import Environment, Grade, InvalidOption, UnknownTask
from ...wire import CoworkerTurn, Task, Tool
from . import sandbox, tools
from .episode import Episode
from .scene import scenes


class Office(Environment):
    """A company in SQLite: directory, mail, chat, calendar, help desk and shared files."""

    name = "office"
    version = "1"
    description = "A simulated company: people, mail, chat, calendar, help desk and shared files."
    surfaces = ("api", "mcp", "code")
    limits = sandbox.Limits()

    def __init__(self) -> None:
        self._episode: Episode | None = None

    def splits(self) -> Mapping[str, str]:
        """Train and eval: the same templates, other seeds."""
        return {"train": "train", "eval": "validation"}

    def tasks(self, split: str) -> Sequence[Task]:
        """The tasks of a split."""
        return [each.task for each in scenes().values() if each.task.get("split") == split]

    def tools(self, surface: str) -> Sequence[Tool]:
        """A tool for each operation (`api`), for each app (`mcp`), or one that runs Python (`code`)."""
        shown = {"api": tools.api_tools, "mcp": tools.mcp_tools, "code": sandbox.code_tools}
        return shown[surface]()

    def reset(
        self,
        task: Task,
        *,
        episode_id: str,  # noqa: ARG002
        seed: int | None,  # noqa: ARG002 - a task's seed is its own: another would be another task
        max_seconds: int | None,  # noqa: ARG002
        coworkers: bool,
        surface: str,
    ) -> Mapping[str, Any]:
        """Build the task's world; the observation says who the agent is and what time it is there."""
        if surface == "code" and not self.allow_code:
            raise InvalidOption(sandbox.REFUSAL)
        self.close()
        scene = scenes().get(task["id"])
        if scene is None:
            raise UnknownTask(f"there is no task {task['id']!r}; the task list has the ids")
        self._episode = Episode(scene, surface, self.limits, modelled=coworkers)
        return {"instruction": scene.task["instruction"], "persona": scene.me, "now": self._episode.world.stamp}

    def call(self, tool: str, arguments: dict[str, Any]) -> Mapping[str, Any]:
        """Run a tool; without a model for them, coworkers answer at once what it asked them."""
        return self._playing().call(tool, arguments)

    def coworker_turns(self) -> Sequence[CoworkerTurn]:
        """Who owes a reply; nobody where the world answers for its coworkers."""
        episode = self._playing()
        return episode.coworkers.turns() if episode.modelled else []

    def coworker_reply(self, coworker: str, text: str) -> int:
        """Deliver a coworker's reply."""
        return self._playing().coworkers.reply(coworker, text)

    def grade(self) -> Grade:
        """Judge what changed in the world since the reset."""
        return self._playing().grade()

    def close(self) -> None:
        """Drop the world."""
        if self._episode is not None:
            self._episode.world.close()
            self._episode = None

    def _playing(self) -> Episode:
        if self._episode is None:
            raise RuntimeError("there is no episode; reset first")
        return self._episode
