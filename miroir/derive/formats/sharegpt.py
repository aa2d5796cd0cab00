"""LLaMA-Factory's ShareGPT format, for episodes whose messages alternate as it demands.

https://github.com/hiyouga/LLaMA-Factory/blob/main/data/README.md: human and observation stand at odd places, gpt and
function_call at even ones.
"""

from __future__ import annotations

from ...wire import encode
from ..conversation import Message, Unfit
from .form import Column, Example, Format, Kind, Row

_RECIPE = """\
# In the dataset_info.json beside {file}:
"miroir": {
  "file_name": "{file}",
  "formatting": "sharegpt",
  "columns": {"messages": "conversations", "system": "system", "tools": "tools"}
}
"""


def _rows(example: Example) -> list[Row]:
    messages = example.messages
    system = ""
    if messages[0]["role"] == "system":
        system, messages = messages[0]["content"], messages[1:]
    turns = [_turn(message) for message in messages]
    for place, turn in enumerate(turns):
        if (turn["from"] in ("human", "observation")) != (place % 2 == 0):
            raise Unfit("messages that do not alternate")
    functions = [tool["function"] for tool in example.spoken.tools.definitions]
    return [{"conversations": turns, "system": system, "tools": encode(functions) if functions else ""}]


def _turn(message: Message) -> Row:
    role, content = message["role"], message["content"]
    if role == "user":
        return {"from": "human", "value": content}
    if role == "tool":
        return {"from": "observation", "value": content}
    if role != "assistant":
        raise Unfit("a system message that is not the first")
    calls = message.get("tool_calls")
    if not calls:
        return {"from": "gpt", "value": content}
    if len(calls) > 1:
        raise Unfit("several calls in one message")
    if content.strip():
        raise Unfit("text beside a call")
    function = calls[0]["function"]
    return {"from": "function_call", "value": encode({"name": function["name"], "arguments": function["arguments"]})}


SHAREGPT = Format(
    name="sharegpt",
    about="LLaMA-Factory's ShareGPT; episodes that do not alternate as it demands are left out",
    kind=Kind.EPISODES,
    columns={"conversations": Column.MESSAGES, "system": Column.TEXT, "tools": Column.TEXT},
    rows=_rows,
    cuts=True,
    thoughts=False,
    recipe=_RECIPE,
)
