"""What a model saw and wrote in one episode, made whole: the form that every format is written from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..chat.form import result_text
from ..records.shape import mapping
from .toolset import Toolset

Message = dict[str, Any]

_UNKNOWN_FORM = "messages in no known form"


class Unfit(Exception):
    """A record that cannot become training data; its text is the reason under which such records are counted."""


@dataclass(slots=True)
class Conversation:
    """Messages in chat form with arguments as objects, each call answered once right after its message.

    `opening` counts the messages before the assistant's first; `end` those up to the last one that trains: what
    follows the assistant's last message (the results of its calls) teaches nothing.
    """

    messages: list[Message]
    tools: Toolset
    opening: int
    end: int
    by_program: bool = False  # made from the steps of an episode that no model played
    invalid: set[int] = field(default_factory=set)  # messages with a call that is not valid
    failed: set[str] = field(default_factory=set)  # ids of the calls that the environment answered with an error

    @property
    def trained(self) -> list[Message]:
        """The messages up to the assistant's last."""
        return self.messages[: self.end]

    def calls(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Each call's tool and arguments, in order."""
        for message in self.messages:
            for call in message.get("tool_calls", ()):
                yield call["function"]["name"], call["function"]["arguments"]


def conversation(
    record: Mapping[str, Any], tools: Toolset, *, reasoning: bool = True, invalid_calls: bool = False
) -> Conversation:
    """The record's conversation; Unfit where it has none that is whole, or makes a call that is not valid.

    `reasoning` keeps what the model thought, `invalid_calls` also keeps conversations with calls that are not valid.
    """
    told = record.get("messages")
    demanded = mapping(record.get("input_schemas"))
    reader = _Reader(tools, demanded, reasoning=reasoning, invalid_calls=invalid_calls)
    for message in _objects(told) if told else _from_steps(record):
        reader.take(message)
    made = reader.conversation()
    made.by_program = not told
    made.failed = _failed(made.messages, record.get("steps"))
    return made


def _failed(messages: Sequence[Message], played: Any) -> set[str]:
    """The ids of the calls whose steps had an error; a call that was never made has no step."""
    steps = iter(_objects(played or []))
    step = next(steps, None)
    failed = set()
    for message in messages:
        for call in message.get("tool_calls", ()):
            function = call["function"]
            if step and step.get("tool") == function["name"] and _same(step.get("arguments"), function["arguments"]):
                if step.get("error"):
                    failed.add(call["id"])
                step = next(steps, None)
    return failed


def _same(sent: Any, written: Mapping[str, Any]) -> bool:
    """Whether a call was sent as it was written; a trainer may have shown arguments under other names."""
    return bool(sent == written) or (isinstance(sent, dict) and [*sent.values()] == [*written.values()])


class _Reader:
    """Reads messages one by one and keeps them whole."""

    def __init__(self, tools: Toolset, demanded: Mapping[str, Any], *, reasoning: bool, invalid_calls: bool) -> None:
        self._tools = tools
        self._demanded = demanded  # the environment's own schemas, where the model was shown less
        self._reasoning = reasoning
        self._invalid_calls = invalid_calls
        self._messages: list[Message] = []
        self._owed: list[tuple[str, str]] = []  # id and tool of each call that has no result yet
        self._ids: set[str] = set()
        self._clash = False
        self._opening = 0
        self._end = 0
        self._invalid: set[int] = set()

    def take(self, message: Mapping[str, Any]) -> None:
        role = message.get("role")
        if role == "tool":
            self._result(message)
            return
        if self._owed:
            raise Unfit("a tool call without its result")
        if role == "assistant":
            self._assistant(message)
        elif role in ("system", "user", "developer"):
            self._messages.append({"role": role, "content": _text(message)})
        else:
            raise Unfit(f"a message of the unknown role {role!r:.20}")

    def conversation(self) -> Conversation:
        if self._owed:
            raise Unfit("a tool call without its result")
        if not self._end:
            raise Unfit("no message of the assistant")
        if not self._opening:
            raise Unfit("no prompt before the assistant's first message")
        if self._clash:
            _renumber(self._messages)
        return Conversation(self._messages, self._tools, self._opening, self._end, invalid=self._invalid)

    def _assistant(self, message: Mapping[str, Any]) -> None:
        if not self._end:
            self._opening = len(self._messages)
        kept: Message = {"role": "assistant", "content": _text(message)}
        thought = message.get("reasoning_content")
        if self._reasoning and isinstance(thought, str) and thought:
            kept["reasoning_content"] = thought
        if calls := message.get("tool_calls"):
            if not isinstance(calls, list):
                raise Unfit(_UNKNOWN_FORM)
            kept["tool_calls"] = [self._call(call) for call in calls]
        self._messages.append(kept)
        self._end = len(self._messages)

    def _call(self, call: Any) -> dict[str, Any]:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            raise Unfit(_UNKNOWN_FORM)
        name, arguments, call_id = function.get("name"), function.get("arguments"), call.get("id") or ""
        if not isinstance(call_id, str):
            raise Unfit(_UNKNOWN_FORM)
        if call.get("arguments_error") or not isinstance(arguments, dict):
            raise Unfit("arguments that are no JSON object")
        if not isinstance(name, str):
            raise Unfit("a call that names no tool")
        fault = self._tools.fault(name, arguments, self._demanded.get(name))
        if fault:
            if not self._invalid_calls:
                raise Unfit(fault)
            self._invalid.add(len(self._messages))
        self._clash = self._clash or not call_id or call_id in self._ids
        self._ids.add(call_id)
        self._owed.append((call_id, name))
        return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}

    def _result(self, message: Mapping[str, Any]) -> None:
        call_id = message.get("tool_call_id") or ""
        owed = next((each for each in self._owed if each[0] == call_id), None)
        if owed is None:
            raise Unfit("a tool result without its call")
        self._owed.remove(owed)
        self._messages.append({"role": "tool", "tool_call_id": call_id, "name": owed[1], "content": _text(message)})


def _objects(values: Any) -> Sequence[Mapping[str, Any]]:
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise Unfit(_UNKNOWN_FORM)
    return values


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if content is None:
        return ""
    if not isinstance(content, str):
        raise Unfit("content that is not text")
    return content


def _renumber(messages: Sequence[Message]) -> None:
    """Give every call an id of its own, where a model used one twice."""
    count = 0
    owed: list[tuple[str, str]] = []
    for message in messages:
        for call in message.get("tool_calls", ()):
            owed.append((call["id"], f"call_{count}"))
            call["id"] = f"call_{count}"
            count += 1
        if message["role"] == "tool":
            answered = next(each for each in owed if each[0] == message["tool_call_id"])
            owed.remove(answered)
            message["tool_call_id"] = answered[1]


def _from_steps(record: Mapping[str, Any]) -> Iterator[Message]:
    """The conversation that a model would have had: the prompt, then one call and its result for each step."""
    prompt = record.get("prompt") or mapping(record.get("task")).get("instruction")
    if not prompt:
        raise Unfit("no messages, and no prompt to make them from")
    yield {"role": "user", "content": prompt}
    for number, step in enumerate(_objects(record.get("steps") or [])):
        if "action" in step:
            raise Unfit("raw actions, which are no tool calls")
        call_id = f"call_{number}"
        function = {"name": step.get("tool"), "arguments": step.get("arguments")}
        yield {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": call_id, "type": "function", "function": function}],
        }
        yield {"role": "tool", "tool_call_id": call_id, "content": result_text(step)}
