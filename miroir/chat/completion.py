"""What a chat endpoint answered, whole or streamed, brought to one shape. Pure.

OpenAI's chat completions are the form; servers differ in every corner of it, and nothing here trusts a key to be
there or to have its type. The legacy `function_call`, which some send beside `tool_calls` and unlike it, is ignored.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..sse import Event

_SHOWN = 500  # characters of a server's own words that a message repeats


@dataclass(frozen=True)
class Completion:
    """One answer of a model.

    `message` is an assistant message: `content` is text, never null; `tool_calls`, there only when some were made,
    have an `id` of their own and `arguments` as the text that the model wrote; `reasoning_content` where it is told.
    `usage` has what the server counted of `prompt_tokens` and `completion_tokens`; `model` is the server's word.
    """

    message: dict[str, Any]
    finish_reason: str
    usage: dict[str, int] | None
    model: str | None


class Fault(Exception):
    """An answer that is no completion: why, its HTTP `status` (None: no answer), and its error's type and code."""

    def __init__(self, why: str, status: int | None = None, kinds: Iterable[object] = ()) -> None:
        super().__init__(why)
        self.why = why
        self.status = status
        self.kinds = frozenset(str(kind) for kind in kinds if kind)
        self.wait_s: float | None = None  # how long the server asks to wait before another attempt


def refused(status: int, content: bytes) -> Fault:
    """The fault that an HTTP error's body tells, in any of the forms that servers give it."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        return Fault(_line(content.decode(errors="replace")) or "(no body)", status)
    return _told(body.get("error") or body.get("detail") or body, status)


def whole(content: bytes) -> Completion:
    """The completion in an answer's body; Fault when it holds none."""
    body = _object(content, "the answer")
    choice = _choice(body)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise Fault("the answer holds no message", 200)
    return _completion(message, choice.get("finish_reason"), body.get("usage"), body.get("model"))


def streamed(events: Iterable[Event]) -> Completion:
    """The completion that a stream's events make together; Fault unless it came to a finish reason."""
    parts = _Parts()
    for event in events:
        if event.data.strip() == "[DONE]":
            break
        parts.add(_object(event.data, "a chunk of the stream"))
    return parts.completion()


class _Parts:
    """A message in the making, from the deltas of a stream."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._calls: list[dict[str, Any]] = []
        self._open: dict[str, dict[str, Any]] = {}  # the call that a delta's `index` means
        self._finish_reason: object = None
        self._usage: object = None
        self._model: object = None
        self._chunks = 0

    def add(self, chunk: Mapping[str, Any]) -> None:
        """Take in one chunk; Fault when it tells an error."""
        self._chunks += 1
        self._usage = chunk.get("usage") or self._usage
        self._model = chunk.get("model") or self._model
        choice = _choice(chunk)
        self._finish_reason = choice.get("finish_reason") or self._finish_reason
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            return
        for key in ("content", "refusal", "reasoning_content", "reasoning"):
            if text := _text(delta.get(key)):
                self._texts[key] = self._texts.get(key, "") + text
        for call in _dicts(delta.get("tool_calls")):
            self._add_call(call)

    def _add_call(self, delta: Mapping[str, Any]) -> None:
        """Ids and names may come once or with every delta, so the first stands; only arguments grow."""
        index, call_id = str(delta.get("index")), delta.get("id")
        call = self._open.get(index)
        if call is None or (call_id and call["id"] and call["id"] != call_id):
            call = {"id": None, "function": {"name": None, "arguments": ""}}
            self._open[index] = call
            self._calls.append(call)
        given = delta.get("function")
        function = given if isinstance(given, dict) else {}
        call["id"] = call["id"] or call_id
        call["function"]["name"] = call["function"]["name"] or function.get("name")
        call["function"]["arguments"] += _arguments(function.get("arguments"))

    def completion(self) -> Completion:
        """The message as it stands at the stream's end."""
        if not self._chunks:
            raise Fault("the stream was empty", 200)
        if not self._finish_reason:
            raise Fault("the stream ended without a finish reason", 200)
        message = {**self._texts, "tool_calls": self._calls}
        return _completion(message, self._finish_reason, self._usage, self._model)


def _completion(message: Mapping[str, Any], finish_reason: object, usage: object, model: object) -> Completion:
    content = _text(message.get("content")) or _text(message.get("refusal"))
    said: dict[str, Any] = {"role": "assistant", "content": content}
    if reasoning := _text(message.get("reasoning_content")) or _text(message.get("reasoning")):
        said["reasoning_content"] = reasoning
    if calls := _calls(message.get("tool_calls")):
        said["tool_calls"] = calls
    if not isinstance(finish_reason, str) or not finish_reason:
        finish_reason = "tool_calls" if calls else "stop"
    return Completion(said, finish_reason, _usage(usage), model if isinstance(model, str) else None)


def _calls(given: object) -> list[dict[str, Any]]:
    """The calls with an id each: a missing or repeated one would leave a result without its call."""
    calls: dict[str, dict[str, Any]] = {}
    for call in _dicts(given):
        named = call.get("function")
        function = named if isinstance(named, dict) else {}
        call_id = str(call.get("id") or "")
        if not call_id or call_id in calls:
            call_id = f"call_{uuid.uuid4().hex}"
        name = str(function.get("name") or "")
        arguments = _arguments(function.get("arguments"))
        calls[call_id] = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return list(calls.values())


def _arguments(given: object) -> str:
    if given is None:
        return ""
    return given if isinstance(given, str) else json.dumps(given)


def _text(given: object) -> str:
    """Text that is given as such or as a list of parts."""
    if isinstance(given, list):
        return "".join(part["text"] for part in _dicts(given) if isinstance(part.get("text"), str))
    return given if isinstance(given, str) else ""


def _usage(given: object) -> dict[str, int] | None:
    counted = given if isinstance(given, dict) else {}
    counts = {key: counted.get(key) for key in ("prompt_tokens", "completion_tokens")}
    return {key: count for key, count in counts.items() if type(count) is int} or None


def _choice(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The first choice, {} when there is none; Fault when the body or the choice tells an error in place of one."""
    choice = next(iter(_dicts(body.get("choices"))), {})
    error = body.get("error") or choice.get("error")
    if error or choice.get("finish_reason") == "error":
        raise _told(error or "the model failed without a word", 200)
    return choice


def _told(error: object, status: int) -> Fault:
    """The fault in an error's own words; the status is the error's where a 200 wraps one."""
    if not isinstance(error, dict):
        return Fault(_line(error if isinstance(error, str) else json.dumps(error)), status)
    code = error.get("code")
    if status == 200 and isinstance(code, int) and 400 <= code <= 599:
        status = code
    kinds = (error.get("type"), code)
    words = error.get("message") or next((kind for kind in kinds if kind), None) or json.dumps(error)
    return Fault(_line(str(words)), status, kinds)


def _object(data: str | bytes, what: str) -> dict[str, Any]:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Fault(f"{what} is not JSON", 200) from error
    if not isinstance(body, dict):
        raise Fault(f"{what} is not a JSON object", 200)
    return body


def _dicts(given: object) -> list[dict[str, Any]]:
    return [item for item in given if isinstance(item, dict)] if isinstance(given, list) else []


def _line(text: str) -> str:
    return " ".join(text.split())[:_SHOWN]
