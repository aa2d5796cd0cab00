"""Answers of every server brought to one shape."""

from __future__ import annotations

import json
from typing import Any

import pytest
import quirks
from modelserver import answer, chunks, events

from miroir import sse
from miroir.chat.completion import Completion, Fault, refused, streamed, whole


def read(body: Any) -> Completion:
    """The completion in a whole answer, or in the same answer's stream."""
    return whole(json.dumps(body).encode())


def read_stream(body: bytes) -> Completion:
    """The completion in a stream."""
    return streamed(sse.events([body]))


def calls(completion: Completion) -> list[tuple[str, str]]:
    """The names and the arguments that were called."""
    return [
        (call["function"]["name"], call["function"]["arguments"]) for call in completion.message.get("tool_calls", [])
    ]


CALLS = {
    "llama.cpp": (quirks.LLAMA_CPP_CALL, [("move", '{\n    "direction": "up"\n}')]),
    "llama.cpp, no arguments": (quirks.LLAMA_CPP_CALL_WITHOUT_ARGUMENTS, [("look", "{\n    }")]),
    "llama-cpp-python": (quirks.LLAMA_CPP_PYTHON_CALL, [("move", '{"direction": "up"}')]),
    "llama-cpp-python, cut": (quirks.LLAMA_CPP_PYTHON_CUT_CALL, [("move", '{"direction": "')]),
    "llama.cpp, cut": (quirks.LLAMA_CPP_CUT_CALL, []),
    "llama.cpp, choice none": (quirks.LLAMA_CPP_NO_CHOICE, []),
    "llama.cpp, choice required": (quirks.LLAMA_CPP_REQUIRED, []),
    "llama.cpp, other tool": (quirks.LLAMA_CPP_OTHER_TOOL, [("move", '{"direction":"up"}')]),
    "llmock, null calls": (quirks.LLMOCK_TEXT, []),
}


@pytest.mark.parametrize(("body", "expected"), CALLS.values(), ids=CALLS.keys())
def test_calls_are_those_of_tool_calls_alone(body: Any, expected: list[tuple[str, str]]) -> None:
    """The legacy function_call is ignored, null is none, markup in the text is text, arguments stay as written."""
    completion = read(body)
    assert calls(completion) == expected
    assert isinstance(completion.message["content"], str)
    assert ("tool_calls" in completion.message) == bool(expected)


def test_a_call_is_brought_to_one_shape() -> None:
    """Id, type, name and arguments are there in one order, whatever the server's."""
    assert read(quirks.LLAMA_CPP_CALL) == Completion(
        message={
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "id": "uXtxAGIVOaPetRkvNGewAhARz0NBkGYG",
                    "type": "function",
                    "function": {"name": "move", "arguments": '{\n    "direction": "up"\n}'},
                }
            ],
        },
        finish_reason="tool_calls",
        usage={"prompt_tokens": 223, "completion_tokens": 19},
        model="/models/SmolLM2-135M-Instruct.Q4_1.gguf",
    )


def test_an_answer_that_was_cut_keeps_its_text_and_says_length() -> None:
    """The prompt fits the context and the answer does not: still an answer."""
    completion = read(quirks.LLAMA_CPP_ANSWER_CUT)
    assert (completion.message["content"], completion.finish_reason) == ("and then", "length")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, ""),
        ("hello", "hello"),
        ([{"type": "text", "text": "he"}, {"type": "text", "text": "llo"}, {"type": "image_url"}, "?"], "hello"),
        (7, ""),
    ],
)
def test_content_is_always_text(given: Any, expected: str) -> None:
    """Null, parts and what no one expects become text."""
    assert read(answer(given)).message["content"] == expected


def test_a_refusal_stands_in_for_missing_content() -> None:
    """What the model would not do is what it said."""
    body = answer(None)
    body["choices"][0]["message"]["refusal"] = "I will not."
    assert read(body).message == {"role": "assistant", "content": "I will not."}


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_reasoning_is_kept_beside_the_content(key: str) -> None:
    """Servers name it in two ways; a record has one."""
    body = answer("42")
    body["choices"][0]["message"][key] = "six times seven"
    assert read(body).message == {"role": "assistant", "content": "42", "reasoning_content": "six times seven"}


@pytest.mark.parametrize(
    ("given", "expected"), [({"a": 1}, '{"a": 1}'), (None, ""), ("", ""), ("{}", "{}"), ([1], "[1]")]
)
def test_arguments_are_always_text(given: Any, expected: str) -> None:
    """Some servers give an object in place of its text."""
    body = answer(calls=[("move", {})])
    body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = given
    assert calls(read(body)) == [("move", expected)]


def test_every_call_has_an_id_of_its_own() -> None:
    """A missing id and a repeated one are replaced, so that each result has its call."""
    body = answer(calls=[("a", {}), ("b", {}), ("c", {})])
    made = body["choices"][0]["message"]["tool_calls"]
    made[1]["id"] = made[0]["id"]
    del made[2]["id"]
    ids = [call["id"] for call in read(body).message["tool_calls"]]
    assert ids[0] == "call_0"
    assert len(set(ids)) == 3
    assert all(ids)


def test_a_call_without_a_function_is_a_call_of_no_name() -> None:
    """What is malformed is told to the model, not a crash."""
    body = answer(calls=[("a", {})])
    body["choices"][0]["message"]["tool_calls"] = [{"id": "x"}, "?", {"id": "y", "function": "look"}]
    assert calls(read(body)) == [("", ""), ("", "")]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        ({}, None),
        ({"prompt_tokens": None, "completion_tokens": "5"}, None),
        ({"prompt_tokens": 7, "total_tokens": 9}, {"prompt_tokens": 7}),
    ],
)
def test_usage_is_what_was_counted(given: Any, expected: dict[str, int] | None) -> None:
    """Missing and malformed counts are left out, not made zero."""
    assert read({**answer("x"), "usage": given}).usage == expected


@pytest.mark.parametrize("given", [None, "", 7])
def test_a_missing_finish_reason_is_read_from_the_message(given: Any) -> None:
    """A whole answer is whole without it."""
    for body, expected in ((answer("x"), "stop"), (answer(calls=[("a", {})]), "tool_calls")):
        body["choices"][0]["finish_reason"] = given
        assert read(body).finish_reason == expected


NOT_COMPLETIONS = {
    "an error in a 200": (
        b'{"error":{"message":"Provider returned error","code":502}}',
        "Provider returned error",
        502,
    ),
    "an error in text": (b'{"error":"out of memory"}', "out of memory", 200),
    "an error in the choice": (b'{"choices":[{"error":{"code":429,"message":"slow down"}}]}', "slow down", 429),
    "a finish reason of error": (
        b'{"choices":[{"finish_reason":"error","message":{}}]}',
        "the model failed without a word",
        200,
    ),
    "no choices": (b'{"choices":[]}', "the answer holds no message", 200),
    "null choices": (b'{"choices":null}', "the answer holds no message", 200),
    "null message": (b'{"choices":[{"message":null}]}', "the answer holds no message", 200),
    "not JSON": (b"<html>", "the answer is not JSON", 200),
    "empty": (b"", "the answer is not JSON", 200),
    "a list": (b"[]", "the answer is not a JSON object", 200),
    "nested without end": (b"[" * 100_000, "the answer is not JSON", 200),
}


@pytest.mark.parametrize(("content", "why", "status"), NOT_COMPLETIONS.values(), ids=NOT_COMPLETIONS.keys())
def test_what_is_no_completion_is_a_fault(content: bytes, why: str, status: int) -> None:
    """The fault says why, and takes the status of an error that a 200 wraps."""
    with pytest.raises(Fault) as caught:
        whole(content)
    assert (caught.value.why, caught.value.status) == (why, status)


REFUSALS = {
    "an error object": (quirks.LLAMA_CPP_BAD_KEY, "Invalid API Key", {"authentication_error", "401"}),
    "a detail": (quirks.LLAMA_CPP_PYTHON_BAD_KEY, "Invalid API key", set()),
    "an empty message": (quirks.LLAMA_CPP_PYTHON_NAMELESS, "internal_server_error", {"internal_server_error"}),
    "plain text": (quirks.LLAMA_CPP_PYTHON_BAD_BODY, "Internal Server Error", set()),
    "two lines": (
        quirks.LLAMA_CPP_BAD_SCHEMA,
        "Unable to generate parser for this template. JSON schema conversion failed: unrecognized type objekt",
        {"invalid_request_error", "400"},
    ),
}


@pytest.mark.parametrize(("reply", "why", "kinds"), REFUSALS.values(), ids=REFUSALS.keys())
def test_an_http_error_is_told_in_the_servers_words(reply: Any, why: str, kinds: set[str]) -> None:
    """The message is found in each of the forms of an error's body."""
    content = reply.body.encode() if isinstance(reply.body, str) else json.dumps(reply.body).encode()
    fault = refused(reply.status, content)
    assert (fault.why, fault.status, fault.kinds) == (why, reply.status, kinds)


def test_an_http_error_may_have_no_body() -> None:
    """Then its status is all that is known."""
    assert refused(502, b"").why == "(no body)"
    assert refused(422, b'{"detail":[{"msg":"Field required"}]}').why == '[{"msg": "Field required"}]'


STREAMS = {
    "llama.cpp": (quirks.LLAMA_CPP_STREAM, {"prompt_tokens": 223, "completion_tokens": 19}),
    "llama-cpp-python": (quirks.LLAMA_CPP_PYTHON_STREAM, None),
}


@pytest.mark.parametrize(("reply", "usage"), STREAMS.values(), ids=STREAMS.keys())
def test_a_streamed_call_is_put_together(reply: Any, usage: dict[str, int] | None) -> None:
    """Arguments grow; ids and names stand as first told, though some servers repeat them in every delta."""
    completion = read_stream(reply.body)
    assert calls(completion) == [("move", '{"direction": "up"}')]
    assert (completion.finish_reason, completion.usage) == ("tool_calls", usage)
    assert completion.message["content"] == ""


def test_a_stream_says_what_the_whole_answer_says() -> None:
    """Text, reasoning, parallel calls and usage come out the same."""
    body = answer("I will.", [("move", {"to": "up"}), ("look", {})])
    body["choices"][0]["message"]["reasoning_content"] = "hm"
    assert read_stream(events(chunks(body))) == read(body)


def test_two_streamed_calls_at_one_index_are_two() -> None:
    """Some servers give every call of a message the index 0, or none."""
    for index in (0, None):
        deltas = [
            {"tool_calls": [{"index": index, "id": name, "function": {"name": name, "arguments": part}}]}
            for name in ("a", "b")
            for part in ('{"x":', "1}")
        ]
        stream = [{"choices": [{"delta": delta}]} for delta in deltas]
        stream.append({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]})
        assert calls(read_stream(events(stream))) == [("a", '{"x":1}'), ("b", '{"x":1}')]


@pytest.mark.parametrize("index", [[], {"of": 1}, "0", 1.5])
def test_a_streamed_call_whose_index_is_no_number_is_taken(index: Any) -> None:
    """It means no other call than its deltas of the same index."""
    stream: list[dict[str, Any]] = [
        {"choices": [{"delta": {"tool_calls": [{"index": index, "function": {"name": "a", "arguments": "{}"}}]}}]},
        {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]},
    ]
    assert calls(read_stream(events(stream))) == [("a", "{}")]


def test_a_stream_needs_no_done_after_its_finish_reason() -> None:
    """The finish reason says that the message is whole."""
    assert read_stream(events(chunks(answer("hi")), done=False)).message["content"] == "hi"


BROKEN_STREAMS = {
    "empty": (quirks.LLAMA_CPP_PYTHON_EMPTY_STREAM.body, "the stream was empty"),
    "only done": (b"data: [DONE]\n\n", "the stream was empty"),
    "cut": (events(chunks(answer("half"))[:1], done=False), "the stream ended without a finish reason"),
    "cut, yet done": (events(chunks(answer("half"))[:1]), "the stream ended without a finish reason"),
    "broken chunk": (b'data: {"choices":[{"de\n\n', "a chunk of the stream is not JSON"),
    "an error within": (b'data: {"error":{"message":"boom","type":"server_error"}}\n\n', "boom"),
}


@pytest.mark.parametrize(("body", "why"), BROKEN_STREAMS.values(), ids=BROKEN_STREAMS.keys())
def test_a_stream_that_does_not_finish_is_a_fault(body: bytes, why: str) -> None:
    """Half an answer is never taken for one."""
    with pytest.raises(Fault) as caught:
        read_stream(body)
    assert (caught.value.why, caught.value.status) == (why, 200)
