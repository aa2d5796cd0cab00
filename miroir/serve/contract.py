"""What an author's methods returned, checked, and copied as JSON holds it; TypeError or ValueError where it cannot."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..wire import CoworkerTurn, Task, encode
from .environment import Check, Grade, Harm, ToolResult
from .episode import Answer
from .tools import Toolbox

# What a task may leave out. Without a number of steps a model that is lost would go on for ever.
TASK_DEFAULTS: Mapping[str, Any] = {
    "persona": {"name": "", "description": ""},
    "coworkers": [],
    "coworkers_scripted": False,
    "max_steps": 50,
    "tags": [],
}
_OPTIONAL = frozenset({*TASK_DEFAULTS, "split", "tools"})


def splits(returned: Mapping[str, str]) -> dict[str, str]:
    """The splits, each with its type."""
    return {str(name): str(kind) for name, kind in returned.items()}


def tasks(split: str, returned: Sequence[Task]) -> list[Task]:
    """The tasks of a split, with what they left out, or left null."""
    listed: list[Task] = []
    for number, row in enumerate(returned):
        for key in ("id", "task_hash", "instruction"):
            if not isinstance(row.get(key), str):
                raise TypeError(f"task {number} of split {split!r} has no {key}, which must be text")
        given = {key: value for key, value in row.items() if value is not None or key not in _OPTIONAL}
        task = {**TASK_DEFAULTS, "split": split, **given}
        most, tools = task["max_steps"], task.get("tools", [])
        if not (isinstance(most, int) and most > 0):
            raise TypeError(f"max_steps of task {number} of split {split!r} must be a whole number above 0")
        if not (isinstance(tools, list | tuple) and all(isinstance(name, str) for name in tools)):
            raise TypeError(f"tools of task {number} of split {split!r} must be a list of names")
        listed.append(_copy(task))
    return listed


def toolbox(returned: Sequence[Any]) -> Toolbox:
    """The tools of a surface."""
    for tool in returned:
        if not isinstance(tool.get("name"), str) or not _is_schema(tool.get("inputSchema")):
            raise TypeError(f"a tool needs a name and an inputSchema: {tool!r}")
    return Toolbox(_copy([{"description": "", **tool} for tool in returned]))


def _is_schema(found: object) -> bool:
    """Whether it is a JSON schema of arguments, as far as calls are checked by it."""
    if not isinstance(found, dict):
        return False
    return isinstance(found.get("required") or [], list | tuple) and isinstance(found.get("properties") or {}, dict)


def first_observation(returned: Mapping[str, Any]) -> dict[str, Any]:
    """What a reset showed."""
    content: dict[str, Any] = _copy(dict(returned))
    return content


def answer(returned: str | Mapping[str, Any] | ToolResult) -> Answer:
    """What a tool call came to."""
    result = returned if isinstance(returned, ToolResult) else ToolResult(returned)
    text, structured = _content(result.content)
    reward = None if result.reward is None else float(result.reward)
    if reward is not None and not math.isfinite(reward):
        raise ValueError(f"the reward of a call is not a finite number: {reward}")
    return Answer(text, structured, is_error=bool(result.is_error), done=bool(result.done), reward=reward)


def _content(content: object) -> tuple[str, dict[str, Any] | None]:
    if isinstance(content, str):
        return content, None
    if not isinstance(content, Mapping):
        raise TypeError(f"a call must return text, a JSON object or a ToolResult, not {type(content).__name__}")
    text = encode(dict(content))
    return text, json.loads(text)


def turns(returned: Sequence[CoworkerTurn]) -> list[CoworkerTurn]:
    """Who owes a reply."""
    listed: list[CoworkerTurn] = _copy([{"coworker": t["coworker"], "messages": t["messages"]} for t in returned])
    return listed


def grade(returned: Grade) -> Grade:
    """The grade, its numbers and names as JSON holds them; its reward may still be missing or not finite."""
    if not isinstance(returned, Grade):
        raise TypeError(f"grade must return a Grade, not {type(returned).__name__}")
    diagnostics = {str(name): float(value) for name, value in returned.diagnostics.items()}
    for name, value in diagnostics.items():
        if not math.isfinite(value):
            raise ValueError(f"the diagnostic {name} is not a finite number: {value}")
    return Grade(
        reward=None if returned.reward is None else float(returned.reward),
        success=bool(returned.success),
        checks=[Check(str(c.name), bool(c.passed), str(c.detail)) for c in returned.checks],
        harms=[Harm(str(h.name), str(h.detail)) for h in returned.harms],
        diagnostics=diagnostics,
    )


def _copy(value: Any) -> Any:
    """A copy as JSON holds it, which the author's later changes do not reach."""
    return json.loads(encode(value))
