"""The frames of `/ws`: what a request must hold, and how replies and errors are built."""

from __future__ import annotations

import math
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..wire import INVALID_JSON, UNKNOWN_TYPE, VALIDATION_ERROR, decode

MAX_SECONDS = 365 * 24 * 3600
# Of each type of request: whether it has `data`, and whether it must.
_DATA = {
    "reset": (True, True),
    "step": (True, True),
    "coworker_reply": (True, True),
    "mcp": (True, True),
    "record": (True, False),
    "state": (False, False),
    "coworkers": (False, False),
    "close": (False, False),
}
_EPISODE_ID_LENGTH = 200
_LEVELS = 100


class Refusal(Exception):
    """A request that is answered with an error frame: `code`, `message`, and details in `errors`."""

    def __init__(self, code: str, message: str, errors: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.errors = errors

    def frame(self, **more: Any) -> dict[str, Any]:
        """The error frame, its data with `more` keys."""
        errors = {"errors": list(self.errors)} if self.errors else {}
        return {"type": "error", "data": {"code": self.code, "message": self.message, **errors, **more}}


@dataclass(frozen=True)
class Reset:
    """A valid reset; `options` are the free ones."""

    task_id: str
    episode_id: str
    max_seconds: float | None
    coworkers: bool
    surface: str | None
    seed: int | None
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Action:
    """A valid call of a tool; `episode_id` is the episode that the client means."""

    tool: str
    arguments: dict[str, Any]
    episode_id: str | None


def request(message: Mapping[str, Any]) -> tuple[str, Any]:
    """The type and the data of a received message; Refusal when it is no request."""
    text = message.get("text")
    if text is None:
        raise Refusal(INVALID_JSON, "a binary frame; send JSON text")
    try:
        frame = decode(text)
    except RecursionError:
        raise Refusal(INVALID_JSON, "the JSON is nested too deeply") from None
    except ValueError as error:
        raise Refusal(INVALID_JSON, f"not a JSON object: {error}") from None
    kind = frame.get("type")
    if not isinstance(kind, str) or kind not in _DATA:
        known = ", ".join(_DATA)
        raise Refusal(UNKNOWN_TYPE, f"Unknown message type: {str(kind)[:100]}; known are {known}")
    takes_data, needs_data = _DATA[kind]
    _no_others(frame, {"type", "data"} if takes_data else {"type"}, ())
    data = frame.get("data")
    if needs_data or data is not None:
        _want(isinstance(data, dict), "an object", "data")
    return kind, data


def reset(data: Mapping[str, Any], options: Collection[str] | None) -> Reset:
    """The reset that `data` asks for; `options` names the environment's free ones, None: it takes any."""
    fixed = {"task_id", "episode_id", "max_seconds", "coworkers", "surface", "seed"}
    if options is not None:
        _no_others(data, fixed | set(options), ("data",))
    _want("task" not in data, "left out: a task is named by task_id", "data", "task")
    episode_id = data.get("episode_id")
    max_seconds, seed = data.get("max_seconds"), data.get("seed")
    surface, coworkers = data.get("surface"), data.get("coworkers", False)
    _want(isinstance(data.get("task_id"), str), "text", "data", "task_id")
    fits = episode_id is None or (isinstance(episode_id, str) and 0 < len(episode_id) <= _EPISODE_ID_LENGTH)
    _want(fits, f"text of 1 to {_EPISODE_ID_LENGTH} characters", "data", "episode_id")
    _want(max_seconds is None or _is_duration(max_seconds), "a positive number or null", "data", "max_seconds")
    _want(isinstance(coworkers, bool), "true or false", "data", "coworkers")
    _want(surface is None or isinstance(surface, str), "text", "data", "surface")
    _want(seed is None or (isinstance(seed, int) and not isinstance(seed, bool)), "a whole number", "data", "seed")
    free = {name: value for name, value in data.items() if name not in fixed}
    return Reset(data["task_id"], episode_id or uuid.uuid4().hex, max_seconds, coworkers, surface, seed, free)


def action(data: Mapping[str, Any]) -> Action | None:
    """The tool call of a step; None when it asks for the list of tools."""
    kind = data.get("type", "call_tool")
    _want(kind in ("call_tool", "list_tools"), "call_tool or list_tools", "data", "type")
    metadata = data.get("metadata") or {}
    _want(isinstance(metadata, dict), "an object", "data", "metadata")
    episode_id = metadata.get("episode_id")
    _want(episode_id is None or isinstance(episode_id, str), "text", "data", "metadata", "episode_id")
    if kind == "list_tools":
        _no_others(data, {"type", "metadata"}, ("data",))
        return None
    _no_others(data, {"type", "tool_name", "arguments", "metadata"}, ("data",))
    _want(isinstance(data.get("tool_name"), str), "text", "data", "tool_name")
    arguments = data.get("arguments", {})
    _want(isinstance(arguments, dict), "an object", "data", "arguments")
    fits = _recordable(arguments, _LEVELS)
    _want(fits, f"an object of finite numbers, at most {_LEVELS} levels deep", "data", "arguments")
    return Action(data["tool_name"], arguments, episode_id)


def record(data: Mapping[str, Any] | None) -> str | None:
    """The episode whose record is asked for; None for the last one."""
    episode_id = (data or {}).get("episode_id")
    _no_others(data or {}, {"episode_id"}, ("data",))
    _want(episode_id is None or isinstance(episode_id, str), "text", "data", "episode_id")
    return episode_id


def coworker_reply(data: Mapping[str, Any]) -> tuple[str, str]:
    """The coworker and the text of the reply."""
    _no_others(data, {"coworker", "text"}, ("data",))
    _want(isinstance(data.get("coworker"), str), "text", "data", "coworker")
    _want(isinstance(data.get("text"), str), "text", "data", "text")
    return data["coworker"], data["text"]


def observation(content: Mapping[str, Any], reward: float | None, done: bool) -> dict[str, Any]:
    """The reply to a reset or a step."""
    return {"type": "observation", "data": {"observation": content, "reward": reward, "done": done}}


def _is_duration(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MAX_SECONDS


def _recordable(value: Any, levels: int) -> bool:
    """Whether JSON can hold the value: 1e999 can be read, yet not written, nor can what is nested too deeply."""
    if isinstance(value, dict):
        return levels > 0 and all(_recordable(inner, levels - 1) for inner in value.values())
    if isinstance(value, list):
        return levels > 0 and all(_recordable(inner, levels - 1) for inner in value)
    return not isinstance(value, float) or math.isfinite(value)


def _want(met: bool, wanted: str, *where: str) -> None:
    if not met:
        raise invalid(f"{where[-1]} must be {wanted}", where)


def _no_others(data: Mapping[str, Any], known: Collection[str], where: tuple[str, ...]) -> None:
    others = sorted(set(data) - set(known))
    if others:
        names = ", ".join(name[:100] for name in others[:5])
        raise invalid(f"unknown: {names}; known are {', '.join(sorted(known))}", (*where, others[0][:100]))


def invalid(message: str, where: Sequence[str]) -> Refusal:
    """The refusal of a request for what stands at the path `where` in it."""
    return Refusal(VALIDATION_ERROR, message, [{"loc": list(where), "msg": message, "type": "value_error"}])
