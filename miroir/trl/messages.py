"""What the model is told, and what was said, as datasets and records hold it. Pure but for the date."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from ..catalog import opening, prompt
from ..chat.form import recorded
from ..wire import Task, Tool, submits


def asked(task: Task, tools: Sequence[Tool]) -> str:
    """What a dataset's row asks of the model: all of the prompt that is known before a reset."""
    return prompt(task, datetime.now(UTC).date(), submit=submits(tools)).rpartition("\n\n")[0]


def added(task: Task, tools: Sequence[Tool], observation: Mapping[str, Any]) -> str:
    """What the first observation adds to it: the date, the world's own where it tells it, and what else there is."""
    return opening(task, tools, observation).removeprefix(asked(task, tools))


def encodable(text: str) -> str:
    """The text with a question mark for each lone surrogate, which UTF-8 lacks and no tokenizer takes."""
    return text.encode(errors="replace").decode()


def conversation(prompt: object, completion: object) -> list[dict[str, Any]]:
    """A trainer's messages as a record holds them: each tool call has an id, which its answer names.

    Empty for what is not made of messages.
    """
    if not isinstance(prompt, list) or not isinstance(completion, list):
        return []
    messages = [recorded(_written(cast("Mapping[str, Any]", message))) for message in (*prompt, *completion)]
    owed: list[str] = []
    count = 0
    for message in messages:
        if calls := message.get("tool_calls"):
            message["tool_calls"] = [{"id": f"call_{count + at}", **call} for at, call in enumerate(calls)]
            count += len(calls)
            owed = [call["id"] for call in message["tool_calls"]]
        elif message.get("role") == "tool" and owed:
            message.setdefault("tool_call_id", owed.pop(0))
    return messages


def _written(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message with the arguments of its calls as text, whatever a model's parser has made of them."""
    calls = message.get("tool_calls")
    return {**message, "tool_calls": [_written_call(call) for call in calls]} if calls else dict(message)


def _written_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function", call)
    arguments = function.get("arguments", {})
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {**call, "function": {"name": function["name"], "arguments": text}}
