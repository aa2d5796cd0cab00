"""A world of two tools with short prompts, small enough for a very small model: walk along a line, then submit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from miroir.serve import Check, Environment, Grade, ToolError
from miroir.wire import Task, Tool

DIRECTIONS = {"left": -1, "right": 1}
MOVE: Tool = {
    "name": "move",
    "description": "Move one step.",
    "inputSchema": {
        "type": "object",
        "properties": {"direction": {"type": "string", "enum": [*DIRECTIONS]}},
        "required": ["direction"],
    },
}


class Grid(Environment):
    """A walker at 0; the task is solved where it stands at the goal at the end."""

    name = "grid"
    version = "1"

    def tasks(self, split: str) -> Sequence[Task]:
        """Goals 1 to 4."""
        return [
            {
                "id": f"goal-{goal}",
                "task_hash": f"grid-1-{goal}",
                "instruction": f"You are at 0. Move right to {goal}.",
                "max_steps": 4,
                "split": split,
            }
            for goal in range(1, 5)
        ]

    def tools(self, surface: str) -> Sequence[Tool]:
        """`move`; `submit` is every environment's."""
        return [MOVE]

    def reset(self, task: Task, **options: Any) -> Mapping[str, Any]:
        """Start at 0."""
        self.at, self.goal = 0, int(task["id"].removeprefix("goal-"))
        return {}

    def call(self, tool: str, arguments: dict[str, Any]) -> Mapping[str, Any]:
        """Move."""
        if arguments["direction"] not in DIRECTIONS:
            raise ToolError(f"direction must be one of {', '.join(DIRECTIONS)}")
        self.at += DIRECTIONS[arguments["direction"]]
        return {"at": self.at}

    def grade(self) -> Grade:
        """Whether the walker stands at the goal."""
        reached = Check("reached", self.at == self.goal, f"stands at {self.at}, goal {self.goal}")
        return Grade(reward=float(reached.passed), success=reached.passed, checks=[reached])
