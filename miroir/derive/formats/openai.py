"""OpenAI's fine-tuning format: arguments as JSON text, and a weight for each message of the assistant.

https://platform.openai.com/docs/api-reference/fine-tuning/chat-input (FineTuneChatRequestInput). Axolotl's
`chat_template` loads the same rows.
"""

from __future__ import annotations

import re

from ...wire import encode
from ..conversation import Message, Unfit
from .form import Column, Example, Format, Kind, Row

_MOST_TOOLS = 128
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")

_RECIPE = """\
# OpenAI: upload {file} with purpose "fine-tune".
# Axolotl:
datasets:
  - path: {file}
    ds_type: json
    type: chat_template
    message_field_training: weight
"""


def _rows(example: Example) -> list[Row]:
    tools = example.spoken.tools
    if len(tools.definitions) > _MOST_TOOLS:
        raise Unfit(f"more than {_MOST_TOOLS} tools")
    if not all(_NAME.fullmatch(name) for name in tools.names):
        raise Unfit("a tool whose name OpenAI does not take")
    messages = [_message(message, at in example.masked) for at, message in enumerate(example.messages)]
    if not tools.definitions:  # an empty list is refused
        return [{"messages": messages}]
    parallel = any(len(message.get("tool_calls", ())) > 1 for message in example.messages)
    return [{"messages": messages, "tools": tools.definitions, "parallel_tool_calls": parallel}]


def _message(message: Message, masked: bool) -> Message:
    if message["role"] == "tool":
        return {"role": "tool", "tool_call_id": message["tool_call_id"], "content": message["content"]}
    if message["role"] != "assistant":
        return message
    written: Message = {"role": "assistant", "content": message["content"]}
    if "tool_calls" in message:
        written["tool_calls"] = [_call(call) for call in message["tool_calls"]]
    return {**written, "weight": 0 if masked else 1}


def _call(call: Message) -> Message:
    function = call["function"]
    return {**call, "function": {"name": function["name"], "arguments": encode(function["arguments"])}}


OPENAI = Format(
    name="openai",
    about="OpenAI's fine-tuning rows, which Axolotl loads too",
    kind=Kind.EPISODES,
    columns={"messages": Column.MESSAGES, "tools": Column.MESSAGES, "parallel_tool_calls": Column.BOOLEAN},
    rows=_rows,
    cuts=True,
    masks=True,
    thoughts=False,
    recipe=_RECIPE,
)
