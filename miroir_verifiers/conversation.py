"""A rollout's messages and tokens as records keep them, from the objects of either major."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from miroir.chat.form import recorded


def messages(said: Iterable[Any]) -> list[dict[str, Any]]:
    """Messages in the record's form; each is a dict or a pydantic model, its calls flat or in OpenAI's form."""
    names: dict[str, str] = {}
    return [_message(_plain(message), names) for message in said]


def _message(message: Mapping[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """One message; `names` collects what each call is a call of, for its answer."""
    kept: dict[str, Any] = {"role": message["role"], "content": _text(message.get("content"))}
    if reasoning := message.get("reasoning_content"):
        kept["reasoning_content"] = reasoning
    if calls := [_call(_plain(call)) for call in message.get("tool_calls") or []]:
        kept["tool_calls"] = calls
        names |= {call["id"]: call["function"]["name"] for call in calls}
    if message["role"] == "tool":
        call_id = message["tool_call_id"]
        kept |= {"tool_call_id": call_id, "name": names.get(call_id, "")}
    return recorded(kept)


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function") or call
    named = {"name": function["name"], "arguments": function["arguments"]}
    return {"id": call["id"], "type": "function", "function": named}


def _text(content: Any) -> str:
    """The text of a message's content; of other parts, that they are there."""
    if not isinstance(content, list):
        return content or ""
    parts = [_plain(part) for part in content]
    return "\n".join(part.get("text") or f"[{part.get('type') or 'content'}]" for part in parts)


def _plain(thing: Any) -> Mapping[str, Any]:
    plain: Mapping[str, Any] = thing if isinstance(thing, Mapping) else thing.model_dump(exclude_none=True)
    return plain
