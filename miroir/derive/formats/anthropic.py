"""Anthropic's Messages format: system apart, calls as tool_use blocks, results first in the user's next message.

https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from ..conversation import Message, Unfit
from .form import Column, Example, Format, Kind, Row

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_ID = re.compile(r"[a-zA-Z0-9_-]+")

Block = dict[str, Any]


def _rows(example: Example) -> list[Row]:
    tools = example.spoken.tools
    if not all(_NAME.fullmatch(name) for name in tools.names):
        raise Unfit("a tool whose name Anthropic does not take")
    messages = example.messages
    spoken = [message for message in messages if message["role"] not in ("system", "developer")]
    if messages[len(messages) - len(spoken) :] != spoken:
        raise Unfit("a system message that is not the first")
    if spoken[0]["role"] != "user":
        raise Unfit("a conversation that does not begin with the user")
    system = "\n\n".join(message["content"] for message in messages[: len(messages) - len(spoken)])
    writer = _Writer(example.spoken.failed)
    return [
        {"system": system, "messages": writer.messages(spoken), "tools": [_tool(tool) for tool in tools.definitions]}
    ]


def _tool(tool: Mapping[str, Any]) -> Row:
    function = tool["function"]
    return {
        "name": function["name"],
        "description": function.get("description") or "",
        "input_schema": function.get("parameters") or {"type": "object", "properties": {}},
    }


class _Writer:
    """Writes one conversation; ids that Anthropic does not take are replaced by others of its own."""

    def __init__(self, failed: set[str]) -> None:
        self._failed = failed
        self._replaced: dict[str, str] = {}

    def messages(self, spoken: Sequence[Message]) -> list[Row]:
        turns = []
        for assistant, group in groupby(spoken, key=lambda message: message["role"] == "assistant"):
            blocks = [block for message in group for block in self._blocks(message)]
            if not blocks:
                raise Unfit("a message without text or call")
            turns.append({"role": "assistant" if assistant else "user", "content": blocks})
        return turns

    def _blocks(self, message: Message) -> Iterator[Block]:
        if message["role"] == "tool":
            yield self._result(message)
            return
        if message["content"].strip():
            yield {"type": "text", "text": message["content"]}
        for call in message.get("tool_calls", ()):
            function = call["function"]
            yield {
                "type": "tool_use",
                "id": self._id(call["id"]),
                "name": function["name"],
                "input": function["arguments"],
            }

    def _result(self, message: Message) -> Block:
        call_id = message["tool_call_id"]
        return {
            "type": "tool_result",
            "tool_use_id": self._id(call_id),
            "content": message["content"],
            "is_error": call_id in self._failed,
        }

    def _id(self, call_id: str) -> str:
        if _ID.fullmatch(call_id):
            return call_id
        return self._replaced.setdefault(call_id, f"toolu_{len(self._replaced)}")


ANTHROPIC = Format(
    name="anthropic",
    about="Anthropic's messages: tool_use and tool_result blocks",
    kind=Kind.EPISODES,
    columns={"system": Column.TEXT, "messages": Column.MESSAGES, "tools": Column.MESSAGES},
    rows=_rows,
    cuts=True,
    thoughts=False,
)
