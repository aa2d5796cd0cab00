"""An ORS server as its own library serves it: `python ors_server.py PORT`."""

from __future__ import annotations

import asyncio
import math
import sys

from openreward.environments import Environment, JSONObject, Server, TextBlock, ToolOutput, tool
from pydantic import BaseModel

TRAIN = [
    {"id": f"train-{number}", "problem": f"{number}+{number}?", "solution": str(2 * number)} for number in range(5)
]


class Sum(BaseModel):
    """Two integers."""

    a: int
    b: int


class Text(BaseModel):
    """A text."""

    text: str


class Seconds(BaseModel):
    """A time."""

    s: float


class Arith(Environment):
    """Sums; `add` gives 0.1, `answer` ends the episode with 1.0 or 0.0."""

    def __init__(self, task_spec: JSONObject = {}, secrets: dict[str, str] = {}) -> None:  # noqa: B006
        super().__init__(task_spec)
        self.solution = task_spec.get("solution")
        self.secrets = secrets

    @classmethod
    def list_splits(cls) -> list[str]:
        return ["train", "test", "hard"]

    @classmethod
    def list_tasks(cls, split: str) -> list[dict[str, str]]:
        return TRAIN if split == "train" else []

    def get_prompt(self) -> list[TextBlock]:
        return [TextBlock(text=f"Solve {self.task_spec.get('problem')}")]

    @tool
    async def add(self, params: Sum) -> ToolOutput:
        """Add two integers."""
        return ToolOutput(blocks=[TextBlock(text=str(params.a + params.b))], reward=0.1)

    @tool
    async def boom(self, params: Text) -> ToolOutput:
        """Raises, or has no number for a reward."""
        if params.text == "nan":
            return ToolOutput(blocks=[TextBlock(text="nan")], reward=math.nan, finished=True)
        raise RuntimeError("tool exploded")

    @tool
    async def nap(self, params: Seconds) -> ToolOutput:
        """Sleeps."""
        await asyncio.sleep(params.s)
        return ToolOutput(blocks=[TextBlock(text="rested")], reward=0.25)

    @tool
    async def recite(self, params: Text) -> ToolOutput:
        """Says the text again."""
        return ToolOutput(blocks=[TextBlock(text=params.text)])

    @tool
    async def secret(self, params: Text) -> ToolOutput:
        """Says how long a secret is."""
        return ToolOutput(blocks=[TextBlock(text=str(len(self.secrets.get(params.text, ""))))])

    @tool
    async def answer(self, params: Text) -> ToolOutput:
        """Answer."""
        right = params.text == self.solution
        return ToolOutput(
            blocks=[TextBlock(text="right" if right else "wrong")],
            reward=1.0 if right else 0.0,
            finished=True,
            metadata={"expected": self.solution},
        )


if __name__ == "__main__":
    Server([Arith]).run(host="127.0.0.1", port=int(sys.argv[1]))
