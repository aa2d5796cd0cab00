"""What plays on peers: `peers.players:adds`, and others."""

from __future__ import annotations

from typing import Any


def adds(session: Any, task: Any, tools: Any, **_: Any) -> None:
    """Call two tools that the session listed, the second of which ends the episode."""
    assert {tool["name"] for tool in tools} == {"add", "lookup"}
    session.step("lookup", {"key": task["id"]})
    session.step("add", {"a": 99, "b": 1})


def echoes(session: Any, task: Any, tools: Any, **_: Any) -> None:
    """Act twice, the second time to win."""
    assert tools == []
    session.act({"message": "hello"})
    session.act({"message": "win"})


def answers(session: Any, task: Any, tools: Any, *, observation: Any, trial: int, **_: Any) -> None:
    """Answer a sum, rightly on even trials."""
    number = int(observation["prompt"].removeprefix("Solve ").split("+")[0])
    session.step("add", {"a": number, "b": number})
    session.step("answer", {"text": str(2 * number + trial % 2)})
