"""Harbor's Agent Trajectory Interchange Format, version 1.8: records to trajectories, and back.

https://github.com/harbor-framework/harbor/blob/main/rfcs/0001-trajectory-format.md. What a trajectory has no place for
stands in its `extra`, and what a record has no place for in its `atif`, so that neither way loses anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from ...errors import RecordError
from ...records.shape import mapping, rows
from ...wire import RECORD_SCHEMA
from ..conversation import Message
from .form import Column, Example, Format, Kind, Row

VERSION = "ATIF-v1.8"
_SOURCES = {"system": "system", "developer": "system", "user": "user", "assistant": "agent"}
_ROLES = {"system": "system", "user": "user", "agent": "assistant"}
_HELD = ("messages", "tools", "steps", "atif")  # what a trajectory's own fields hold
_PRIVATE = "container"


def _rows(example: Example) -> list[Row]:
    record, spoken = example.record, example.spoken
    trajectory = _trajectory(record, spoken.messages, spoken.tools.definitions, by_program=spoken.by_program)
    kept = mapping(record.get("atif"))
    extras = [*rows(kept.get("steps")), *[{}] * len(trajectory["steps"])]
    steps = [_merged(step, extra) for step, extra in zip(trajectory["steps"], extras, strict=False)]
    return [_merged(trajectory, {**mapping(kept.get("root")), "steps": steps})]


def _merged(row: Row, changes: Mapping[str, Any]) -> Row:
    return {key: value for key, value in {**row, **changes}.items() if value is not None}


def _trajectory(record: Mapping[str, Any], messages: list[Message], tools: list[Any], *, by_program: bool) -> Row:
    agent, usage = mapping(record.get("agent")), mapping(record.get("usage"))
    steps = list(_steps(messages, by_program=by_program))
    who = {"name": agent.get("name") or "unknown", "version": "unknown", "model_name": agent.get("model")}
    metrics = {
        "total_prompt_tokens": usage.get("prompt_tokens"),
        "total_completion_tokens": usage.get("completion_tokens"),
        "total_steps": len(steps),
    }
    return {
        "schema_version": VERSION,
        "session_id": record.get("episode_id"),
        "trajectory_id": record.get("episode_id"),
        "agent": _merged(who, {"tool_definitions": tools or None}),
        "steps": steps,
        "final_metrics": _merged(metrics, {}),
        "extra": {"miroir": {key: value for key, value in record.items() if key not in (*_HELD, _PRIVATE)}},
    }


def _steps(messages: list[Message], *, by_program: bool) -> Iterator[Row]:
    """Each message as a step; results stand with the calls that they answer."""
    step: Row = {}
    numbers = count(1)
    for message in messages:
        if message["role"] == "tool":
            result = {"source_call_id": message["tool_call_id"], "content": message["content"]}
            step.setdefault("observation", {"results": []})["results"].append(result)
            continue
        if step:
            yield step
        step = {
            "step_id": next(numbers),
            "source": _SOURCES[message["role"]],
            "message": message["content"],
        }
        if "reasoning_content" in message:
            step["reasoning_content"] = message["reasoning_content"]
        if "tool_calls" in message:
            step["tool_calls"] = [_call(call) for call in message["tool_calls"]]
        if by_program and step["source"] == "agent":
            step["llm_call_count"] = 0
    yield step


def _call(call: Message) -> Row:
    function = call["function"]
    return {"tool_call_id": call["id"], "function_name": function["name"], "arguments": function["arguments"]}


def record_from_atif(trajectory: Mapping[str, Any]) -> dict[str, Any]:
    """The trajectory as a record; void where it holds no grade. RecordError for what is no text trajectory."""
    version = str(trajectory.get("schema_version"))
    if not version.startswith("ATIF-v1.") or not trajectory.get("steps"):
        raise RecordError(f"not a trajectory in ATIF: its schema_version is {version!r:.40}; give one of version 1")
    agent = trajectory.get("agent") or {}
    episode_id = str(trajectory.get("trajectory_id") or trajectory.get("session_id"))
    known = (trajectory.get("extra") or {}).get("miroir") or _ungraded(episode_id, agent)
    messages = [message for step in trajectory["steps"] for message in _messages(step)]
    tools = agent.get("tool_definitions") or []
    ours = _trajectory(known, messages, tools, by_program=False)
    steps = [_changes(one, other) for one, other in zip(ours["steps"], trajectory["steps"], strict=True)]
    root = {**_changes(ours, trajectory), "steps": None}
    return {**known, "messages": messages, "tools": tools, "steps": [], "atif": {"root": root, "steps": steps}}


def _changes(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Row:
    """What turns our writing into theirs; null for a key that theirs has not."""
    keys = sorted(ours.keys() | theirs.keys())
    return {key: theirs.get(key) for key in keys if ours.get(key) != theirs.get(key)}


def _ungraded(episode_id: str, agent: Mapping[str, Any]) -> dict[str, Any]:
    reason = "the trajectory holds no grade"
    return {
        "schema": RECORD_SCHEMA,
        "episode_id": episode_id,
        "task_id": episode_id,
        "split": None,
        "reward": None,
        "metadata": {"task_hash": "", "success": False, "harm": False, "ended_by": "done", "void_reason": reason},
        "agent": {"name": agent.get("name"), "model": agent.get("model_name"), "params": {}},
    }


def _messages(step: Mapping[str, Any]) -> Iterator[Message]:
    content = step.get("message")
    if step.get("source") not in _ROLES or not isinstance(content, str):
        raise RecordError(f"step {step.get('step_id')} of the trajectory is not text; only text can become a record")
    message: Message = {"role": _ROLES[step["source"]], "content": content}
    if step.get("reasoning_content"):
        message["reasoning_content"] = step["reasoning_content"]
    calls = step.get("tool_calls") or []
    if calls:
        message["tool_calls"] = [
            {
                "id": call["tool_call_id"],
                "type": "function",
                "function": {"name": call["function_name"], "arguments": call["arguments"]},
            }
            for call in calls
        ]
    yield message
    names = {call["tool_call_id"]: call["function_name"] for call in calls}
    for result in (step.get("observation") or {}).get("results", ()):
        call_id = result.get("source_call_id")
        if call_id not in names or not isinstance(result.get("content"), str):
            raise RecordError(f"step {step.get('step_id')} of the trajectory has a result that is no call's text")
        yield {"role": "tool", "tool_call_id": call_id, "name": names[call_id], "content": result["content"]}


ATIF = Format(
    name="atif",
    about="trajectories in Harbor's interchange format, version 1.8",
    kind=Kind.EPISODES,
    columns=dict.fromkeys(("agent", "final_metrics", "extra"), Column.OBJECT)
    | {"schema_version": Column.TEXT, "session_id": Column.TEXT, "trajectory_id": Column.TEXT}
    | {"steps": Column.MESSAGES},
    rows=_rows,
    whole=True,
)
