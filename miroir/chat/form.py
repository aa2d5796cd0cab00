"""OpenAI's chat form, as records keep it and as endpoints take it: tools, tool calls, and results as text. Pure.

In a record a tool call's arguments are an object; what no object could be read from stays the model's own text, with
`arguments_error`. On the wire arguments are text, and such text becomes "{}": some servers fail on any history that
holds broken arguments, and the tool message says what was wrong with them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..wire import Tool

_UNSENDABLE = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64
_NOT_FOR_MODELS = frozenset({"metadata", "tool_name", "error"})


def chat_tools(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """Tools as MCP lists them, in chat form."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool["name"],
                "description": tool.get("description") or "",
                "parameters": tool.get("inputSchema") or {"type": "object", "properties": {}},
            },
        }
        for tool in tools
    ]


def recorded(message: Mapping[str, Any]) -> dict[str, Any]:
    """An assistant message in the record's form, from one whose calls hold arguments as text."""
    kept = dict(message)
    if calls := message.get("tool_calls"):
        kept["tool_calls"] = [_recorded_call(call) for call in calls]
    return kept


def sent(messages: Sequence[Mapping[str, Any]], offered: Collection[str]) -> list[dict[str, Any]]:
    """Messages of a record as an endpoint takes them back; `offered` are the names of its tools.

    Reasoning is left out: not every endpoint takes it back. A name that the model made up is spelt so that the
    endpoint's own check of names lets it pass.
    """
    return [_sent(message, offered) for message in messages]


def arguments_of(text: str) -> dict[str, Any]:
    """The arguments object in the model's text, {} for none; ValueError says why it is not one."""
    arguments = finite_json(text) if text.strip() else {}
    if not isinstance(arguments, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - one kind for all that a model can get wrong
    return arguments


def finite_json(text: str) -> Any:
    """The JSON value in the text; ValueError also for what a record cannot hold: NaN, Infinity, 1e999."""
    try:
        return json.loads(text, parse_constant=_not_finite, parse_float=_finite)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def result_text(observation: Mapping[str, Any]) -> str:
    """What a model is shown of a tool's observation: the error, the text blocks, or the result as compact JSON."""
    if error := observation.get("error"):
        if not isinstance(error, Mapping):
            return str(error)
        return f"{error.get('error_type') or 'error'}: {error.get('message') or _compact(error)}"
    if "result" not in observation:
        return _compact({key: value for key, value in observation.items() if key not in _NOT_FOR_MODELS})
    result = observation["result"]
    if not isinstance(result, Mapping) or not isinstance(result.get("content"), list):
        return result if isinstance(result, str) else _compact(result)
    text = "\n".join(filter(None, map(_block, result["content"])))
    structured = result.get("structured_content") or result.get("structuredContent")
    return text or (_compact(structured) if structured else "")


def _recorded_call(call: Mapping[str, Any]) -> dict[str, Any]:
    text = call["function"]["arguments"]
    try:
        arguments = arguments_of(text)
    except ValueError:
        return {**call, "arguments_error": True}
    return {**call, "function": {**call["function"], "arguments": arguments}}


def _sent(message: Mapping[str, Any], offered: Collection[str]) -> dict[str, Any]:
    kept = {key: value for key, value in message.items() if key != "reasoning_content"}
    if calls := message.get("tool_calls"):
        kept["tool_calls"] = [_sent_call(call, offered) for call in calls]
    if message.get("role") == "tool":
        kept["name"] = _sendable(message["name"], offered)
    return kept


def _sent_call(call: Mapping[str, Any], offered: Collection[str]) -> dict[str, Any]:
    function = call["function"]
    arguments = {} if call.get("arguments_error") else function["arguments"]
    name = _sendable(function["name"], offered)
    return {"id": call["id"], "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def _sendable(name: str, offered: Collection[str]) -> str:
    return name if name in offered else _UNSENDABLE.sub("_", name)[:_LONGEST_NAME] or "unnamed"


def _block(block: object) -> str:
    """The text of a content block; of any other kind, that it is there."""
    if not isinstance(block, Mapping):
        return str(block)
    text = block.get("text")
    return text if isinstance(text, str) else f"[{block.get('type') or 'content'}]"


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large")
    return number


def _not_finite(text: str) -> float:
    raise ValueError(f"{text} is not JSON")
