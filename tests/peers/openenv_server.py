"""OpenEnv servers as their library serves them: `python openenv_server.py KIND PORT SLOTS [IDLE_S]`.

KIND is `tool` (an MCP environment), `echo` (one with a type of action of its own) or `broken` (its factory raises).
It runs on openenv 0.10 and on openenv-core 0.2.1 and 0.3.0, with nothing of miroir's.
"""

from __future__ import annotations

import inspect
import math
import sys
import time
from typing import Any
from uuid import uuid4

import uvicorn
from fastmcp import FastMCP
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import Action, ConcurrencyConfig, Observation, State
from pydantic import Field


def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def lookup(key: str, nap: float = 0.0, size: int = 0) -> dict:
    """Look up a record."""
    time.sleep(nap)
    if key == "boom":
        raise RuntimeError("db exploded")
    return {"key": key, "rows": [1, 2, 3], "text": "x" * size}


class ToolEnv(MCPEnvironment):
    """Two tools; `add` gives 1.0, and ends the episode where a is 99; the key `nan` gives no number."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        mcp = FastMCP("peer")
        for tool in (add, lookup):
            mcp.tool(tool)
        self._state = State(episode_id=None, step_count=0)
        super().__init__(mcp)

    def reset(self, seed: Any = None, episode_id: Any = None, task_id: Any = None, **options: Any) -> Observation:
        self._state = State(episode_id=episode_id or uuid4().hex, step_count=0)
        told = {"task": f"task {task_id}, seed {seed}", "options": options}
        return Observation(done=False, reward=None, metadata=told)

    def _step_impl(self, action: Any, timeout_s: Any = None, **options: Any) -> Observation:
        return Observation(done=False, reward=0.0, metadata={"error": f"unknown action {type(action).__name__}"})

    def _graded(self, action: Any, observation: Any) -> Any:
        self._state.step_count += 1
        if isinstance(action, CallToolAction):
            if action.tool_name == "add" and observation.error is None:
                observation.reward, observation.done = 1.0, action.arguments.get("a") == 99
            if action.arguments.get("key") == "nan":
                observation.reward, observation.done = math.nan, True
        return observation

    def step(self, action: Any, **options: Any) -> Any:
        return self._graded(action, super().step(action, **options))

    async def step_async(self, action: Any, **options: Any) -> Any:
        return self._graded(action, await super().step_async(action, **options))

    @property
    def state(self) -> State:
        return self._state

    def list_splits(self) -> list[str]:
        return ["train", "test"]

    def list_tasks(self, split: str) -> list[dict]:
        return [{"id": f"{split}-{index}", "instruction": "Add."} for index in range(3)]

    def num_tasks(self, split: str) -> int:
        return 3

    def get_task(self, split: str, index: int) -> dict:
        return self.list_tasks(split)[index]

    def get_task_range(self, split: str, start: Any = None, stop: Any = None) -> list[dict]:
        return self.list_tasks(split)[start:stop]


class EchoAction(Action):
    """What is said."""

    message: str = Field(..., min_length=1)


class EchoObservation(Observation):
    """What comes back."""

    echoed: str = ""


class EchoEnv(Environment):
    """Says what it is told, for 0.5; `end` ends the episode, `win` with 1.0, `nan` with no number."""

    SUPPORTS_CONCURRENT_SESSIONS = False

    def __init__(self) -> None:
        super().__init__()
        self._state = State()

    def reset(self, seed: Any = None, episode_id: Any = None) -> EchoObservation:
        self._state = State(episode_id=episode_id or uuid4().hex, step_count=0)
        return EchoObservation(echoed="ready")

    def step(self, action: EchoAction, timeout_s: Any = None, **options: Any) -> EchoObservation:
        kind, _, number = action.message.partition(" ")
        if kind == "crash":
            raise ValueError("env crashed")
        if kind == "sleep":
            time.sleep(float(number))
        self._state.step_count += 1
        if kind == "big":
            return EchoObservation(echoed="x" * int(number), reward=0.0)
        reward = {"nan": math.nan, "win": 1.0}.get(kind, 0.5)
        return EchoObservation(echoed=action.message[:100], reward=reward, done=kind in ("end", "win", "nan"))

    @property
    def state(self) -> State:
        return self._state


def broken() -> Environment:
    """No environment."""
    raise RuntimeError("the disk is full")


def main() -> None:
    """Serve."""
    kind, port, slots = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    limits: dict[str, Any] = {"max_concurrent_envs": slots}
    if len(sys.argv) > 4:
        limits["session_timeout"] = float(sys.argv[4])
    known: dict[str, Any] = {"concurrency_config": ConcurrencyConfig(**limits), "env_name": "peer_env"}
    options = {name: value for name, value in known.items() if name in inspect.signature(create_app).parameters}
    served = {"tool": ToolEnv, "echo": EchoEnv, "broken": broken}[kind]
    types = (CallToolAction, CallToolObservation) if kind == "tool" else (EchoAction, EchoObservation)
    uvicorn.run(create_app(served, *types, **options), host="127.0.0.1", port=port, log_level="warning")


main()
