"""The chat client over real HTTP: what it sends, what it tries again and when it gives up."""

from __future__ import annotations

import logging
import os
import pickle
import socket
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from typing import Any

import pytest
import quirks
from modelserver import Reply, answer, chunks, events, serving, stream_reply, tool_then_submit

from miroir.chat import ChatClient
from miroir.chat.client import Clock, retry_after
from miroir.errors import ContextFull, InvalidArgument, ModelError

KEY = "sk-very-secret-42"
HELLO = [{"role": "user", "content": "hello"}]
TOOL = {"type": "function", "function": {"name": "move", "description": "", "parameters": {"type": "object"}}}
OK = Reply(answer("hi"))


class Still(Clock):
    """A clock on which only sleeping takes time, and nothing is left to chance."""

    def __init__(self, chance: float = 0.0) -> None:
        self.now = 1000.0
        self.slept: list[float] = []
        self.chance = chance

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now

    def random(self) -> float:
        return self.chance

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock() -> Still:
    """A still clock."""
    return Still()


@pytest.fixture
def client(clock: Still) -> Iterator[Callable[..., ChatClient]]:
    """Makes clients with a key on the still clock, and closes them."""
    made: list[ChatClient] = []

    def make(base_url: str, **options: Any) -> ChatClient:
        made.append(ChatClient(base_url, "m", KEY, **{"clock": clock, **options}))
        return made[-1]

    yield make
    for one in made:
        one.close()


Make = Callable[..., ChatClient]


# ---- what is sent


def test_a_request_holds_the_model_the_messages_and_the_parameters(client: Make) -> None:
    """Parameters go as given; the key goes in its header; the path is under the base URL, however that ends."""
    with serving([OK]) as server:
        chat = client(f"{server.base_url}/", params={"temperature": 0.5, "max_completion_tokens": 9})
        completion = chat.complete(HELLO)
    assert completion.message == {"role": "assistant", "content": "hi"}
    assert server.asked[0].path == "/v1/chat/completions"
    assert server.asked[0].headers["Authorization"] == f"Bearer {KEY}"
    assert server.bodies == [{"model": "m", "messages": HELLO, "temperature": 0.5, "max_completion_tokens": 9}]


def test_tools_are_sent_with_a_choice_of_auto(client: Make) -> None:
    """Some servers ignore tools that come without a choice."""
    with serving([OK]) as server:
        client(server.base_url).complete(HELLO, [TOOL])
    assert server.bodies[0]["tools"] == [TOOL]
    assert server.bodies[0]["tool_choice"] == "auto"


def test_a_parameter_overrides_and_null_leaves_out(client: Make) -> None:
    """The user's word on a field wins."""
    with serving([OK]) as server:
        client(server.base_url, params={"tool_choice": "required"}).complete(HELLO, [TOOL])
        client(server.base_url, params={"tool_choice": None}).complete(HELLO, [TOOL])
    assert server.bodies[0]["tool_choice"] == "required"
    assert "tool_choice" not in server.bodies[1]


def test_no_key_no_authorization(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a key nothing is sent, not even what .netrc holds for the host."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login someone password else\n")
    monkeypatch.setenv("NETRC", str(netrc))
    with serving([OK]) as server, ChatClient(server.base_url, "m") as chat:
        chat.complete(HELLO)
    assert "Authorization" not in server.asked[0].headers


def test_a_loopback_endpoint_is_asked_without_the_proxy(client: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy of the environment never sees a local model."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with serving([OK]) as server:
        assert client(server.base_url).complete(HELLO).message["content"] == "hi"


def test_connections_are_kept_alive_and_shared_by_threads(client: Make) -> None:
    """One after another goes over one connection; cookies that would tie clients to a server are not kept."""
    with serving([Reply(answer("hi"), headers={"Set-Cookie": "server=7"})]) as server:
        chat = client(server.base_url)
        for _ in range(3):
            chat.complete(HELLO)
        threads = [threading.Thread(target=chat.complete, args=(HELLO,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len({asked.port for asked in server.asked[:3]}) == 1
    assert len(server.asked) == 11
    assert not [asked for asked in server.asked if "Cookie" in asked.headers]


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_forked_child_opens_its_own_connection(client: Make) -> None:
    """Two processes never write into one socket."""
    with serving([OK]) as server:
        chat = client(server.base_url)
        chat.complete(HELLO)
        child = os.fork()
        if child == 0:
            os._exit(0 if chat.complete(HELLO).message["content"] == "hi" else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        chat.complete(HELLO)
    first, second, third = (asked.port for asked in server.asked)
    assert first == third != second


def test_a_client_pickles() -> None:
    """It may be sent to another process, and opens its connections there."""
    with serving([OK]) as server, ChatClient(server.base_url, "m", KEY, params={"temperature": 0}) as chat:
        chat.complete(HELLO)
        with pickle.loads(pickle.dumps(chat)) as other:
            other.complete(HELLO)
            assert other.params == {"temperature": 0}
    assert len({asked.port for asked in server.asked}) == 2


# ---- what is tried again


@pytest.mark.parametrize(
    "reply",
    [
        Reply("", 408),
        Reply("", 409),
        Reply("", 429),
        Reply("", 500),
        Reply("", 502),
        Reply("", 529),
        quirks.LLAMA_CPP_LOADING,
        Reply(answer("hi"), cut=True),
        Reply("<html>"),
        Reply({"error": {"message": "Provider returned error", "code": 502}}),
        quirks.LLAMA_CPP_PYTHON_EMPTY_STREAM,
    ],
    ids=lambda reply: f"{reply.status}{' cut' if reply.cut else ''} {str(reply.body)[:9]}",
)
def test_what_may_pass_is_tried_again(client: Make, clock: Still, reply: Reply) -> None:
    """Limits, server errors, cut connections and broken answers: the same request again, after a pause."""
    with serving([reply, OK]) as server:
        chat = client(server.base_url)
        assert not chat.answered
        assert chat.complete(HELLO).message["content"] == "hi"
    assert server.bodies == [server.bodies[0]] * 2
    assert clock.slept == [0.5]
    assert chat.answered


@pytest.mark.parametrize(
    ("reply", "advice"),
    [
        (Reply({"error": {"message": "No."}}, 400), "change what it names in the model's parameters, or the base URL"),
        (quirks.LLAMA_CPP_BAD_KEY, "check the API key and what it may use"),
        (quirks.LLAMA_CPP_PYTHON_BAD_KEY, "check the API key and what it may use"),
        (Reply("", 403), "check the API key and what it may use"),
        (quirks.LLAMA_CPP_NOT_FOUND, "check the model's name and the base URL, which often ends in /v1"),
        (quirks.LLAMA_CPP_PYTHON_NOT_FOUND, "check the model's name and the base URL, which often ends in /v1"),
        (quirks.LLAMA_CPP_PYTHON_NOT_ALLOWED, "change what it names in the model's parameters, or the base URL"),
        (quirks.LLAMA_CPP_BAD_SCHEMA, "change what it names in the model's parameters, or the base URL"),
        (quirks.LLAMA_CPP_TOO_MANY, "change what it names in the model's parameters, or the base URL"),
        (
            Reply("", 307, {"Location": "http://127.0.0.1:9/"}),
            "change what it names in the model's parameters, or the base URL",
        ),
        (
            Reply({"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}, 429),
            "run fewer episodes at once or raise the limit",
        ),
    ],
    ids=lambda value: f"{value.status} {str(value.body)[:20]}" if isinstance(value, Reply) else "",
)
def test_what_cannot_pass_is_not_tried_again(client: Make, clock: Still, reply: Reply, advice: str) -> None:
    """A refusal of the request or the key stands, and the error says what to do."""
    with serving([reply]) as server:
        with pytest.raises(ModelError) as caught:
            client(server.base_url).complete(HELLO)
        assert len(server.asked) == 1
    assert (caught.value.status, caught.value.retryable) == (reply.status, False)
    assert str(caught.value).startswith(f"MODEL: {server.base_url}/chat/completions (model m): HTTP {reply.status}: ")
    assert str(caught.value).endswith(f"; {advice}")
    assert not clock.slept


def test_a_missing_key_is_asked_for() -> None:
    """The advice on a 401 knows whether there was a key."""
    expected = pytest.raises(ModelError, match=r"\(model m\): HTTP 401: Invalid API Key; pass an API key$")
    with serving([quirks.LLAMA_CPP_BAD_KEY]) as server, ChatClient(server.base_url, "m") as chat, expected:
        chat.complete(HELLO)


def test_the_pauses_double_up_to_a_longest_one(client: Make, clock: Still) -> None:
    """Retries are capped in number, and the error counts the attempts."""
    with serving([Reply("", 503)]) as server:
        with pytest.raises(ModelError) as caught:
            client(server.base_url, retries=8).complete(HELLO)
        assert len(server.asked) == 9
    assert clock.slept == [0.5, 1, 2, 4, 8, 16, 30, 30]
    assert caught.value.retryable
    assert str(caught.value) == (
        f"MODEL: {server.base_url}/chat/completions (model m, 9 attempts): HTTP 503: (no body); "
        "see the endpoint's own log"
    )


def test_jitter_only_lengthens_a_pause(client: Make, clock: Still) -> None:
    """Clients that were refused together do not come back together, nor before they may."""
    clock.chance = 1.0
    with serving([Reply("", 503), quirks.LLMOCK_RATE_LIMIT, OK]) as server:
        client(server.base_url).complete(HELLO)
    assert clock.slept == [0.5 * 1.25, 1.0 * 1.25]


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (quirks.LLAMA_CPP_BAD_HISTORY, "HTTP 500: Failed to parse tool call arguments as JSON"),
        (quirks.LLAMA_CPP_PYTHON_NAMELESS, "HTTP 500: internal_server_error;"),
        (quirks.LLAMA_CPP_PYTHON_UNKNOWN_TOOL, "HTTP 500: Tool with name 'nope' not found in tools;"),
        (quirks.LLAMA_CPP_PYTHON_BAD_BODY, "HTTP 500: Internal Server Error;"),
        (quirks.LLAMA_CPP_PYTHON_EMPTY_STREAM, "the stream was empty; is this an OpenAI-compatible endpoint?"),
    ],
    ids=["history", "nameless", "tool", "body", "stream"],
)
def test_what_is_mostly_hopeless_is_tried_twice_more(client: Make, clock: Still, reply: Reply, why: str) -> None:
    """Servers report the request's own faults as 500 or as an empty stream: more retries would be wasted."""
    with serving([reply]) as server, pytest.raises(ModelError) as caught:
        client(server.base_url).complete(HELLO)
    assert len(server.asked) == 3
    assert f"(model m, 3 attempts): {why}" in str(caught.value)
    assert caught.value.retryable


def test_retry_after_is_kept(client: Make, clock: Still) -> None:
    """Milliseconds before seconds; never earlier than asked, nor earlier than the back-off."""
    replies = [quirks.LLMOCK_RATE_LIMIT, Reply("", 503, {"retry-after": "7"}), Reply("", 429, {"retry-after": "0"}), OK]
    with serving(replies) as server:
        client(server.base_url).complete(HELLO)
    assert clock.slept == [1.0, 7.0, 2.0]


def test_a_wait_longer_than_the_total_time_is_not_begun(client: Make, clock: Still) -> None:
    """The error says how long the endpoint asks to wait."""
    reply = Reply({"error": {"message": "Slow down."}}, 429, {"retry-after": "3600"})
    with serving([reply]) as server, pytest.raises(ModelError) as caught:
        client(server.base_url).complete(HELLO)
    assert str(caught.value).endswith(
        "(model m): HTTP 429: Slow down; it asks to wait 3600 s; run fewer episodes at once or raise the limit"
    )
    assert caught.value.retryable
    assert not clock.slept


def test_the_total_time_ends_the_retries(client: Make, clock: Still) -> None:
    """However many are left."""
    with serving([Reply("", 503)]) as server, pytest.raises(ModelError):
        client(server.base_url, retries=100, total_s=100.0).complete(HELLO)
    assert clock.slept == [0.5, 1, 2, 4, 8, 16, 30, 30]


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after-ms": "250", "retry-after": "2"}, 0.25),
        ({"retry-after-ms": "x", "retry-after": "2"}, 2.0),
        ({"retry-after": formatdate(1_000_030, usegmt=True)}, 30.0),
        ({"retry-after": formatdate(999_000, usegmt=True)}, 0.0),
        ({"retry-after": "Mon, 12 Jan 1970 13:47:10"}, 30.0),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers: dict[str, str], expected: float | None) -> None:
    """Seconds, milliseconds and dates; what is none of these is as if it were not there."""
    assert retry_after(headers, 1_000_000.0) == expected


# ---- connections


def test_a_dead_endpoint_is_tried_again_and_named(client: Make, clock: Still) -> None:
    """Nothing listens: retried as a passing fault, then told with the URL."""
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unheard.getsockname()[1]}"
        with pytest.raises(ModelError) as caught:
            client(url, retries=2).complete(HELLO)
    assert clock.slept == [0.5, 1.0]
    assert (caught.value.status, caught.value.retryable) == (None, True)
    assert str(caught.value) == (
        f"MODEL: {url}/chat/completions (model m, 3 attempts): connection refused; is the server running?"
    )


@pytest.mark.parametrize("streaming", [False, True])
def test_a_stalled_answer_is_bounded(client: Make, streaming: bool) -> None:
    """Bytes that come in drops do not keep a call alive beyond its deadline."""
    drops = [b" "] * 100 if not streaming else [b": ping\n\n"] * 100
    reply = Reply(
        drops, headers={"Content-Type": "text/event-stream" if streaming else "application/json"}, pause_s=0.1
    )
    with serving([reply]) as server:
        began = time.monotonic()
        with pytest.raises(ModelError, match="the answer did not end in time") as caught:
            client(server.base_url, timeout_s=0.5, retries=0, params={"stream": streaming}).complete(HELLO)
        assert time.monotonic() - began < 5.0
    assert caught.value.retryable


def test_a_silent_endpoint_is_bounded(client: Make) -> None:
    """No byte at all is a timeout."""
    reply = Reply([b"", b"x"], headers={"Content-Length": "9"}, pause_s=30.0)
    with serving([reply]) as server, pytest.raises(ModelError, match="the answer did not end in time"):
        client(server.base_url, timeout_s=0.3, retries=0).complete(HELLO)


def test_a_stall_is_tried_again(client: Make) -> None:
    """A stream that hangs half-way is given up and asked for anew."""
    half = stream_reply([events(chunks(answer("half"))[:1], done=False), b": late\n\n"], pause_s=30.0)
    with serving([half, OK]) as server:
        chat = client(server.base_url, timeout_s=0.3, params={"stream": True})
        assert chat.complete(HELLO).message["content"] == "hi"
    assert len(server.asked) == 2


# ---- the check before a run


def test_a_check_passes_where_something_answers(client: Make) -> None:
    """Whatever it says of its models: a real call tells the rest. No completion is asked for."""
    with serving([OK]) as server:
        client(server.base_url).check()
        client(server.base_url.removesuffix("/v1")).check()
        assert not server.asked


@pytest.mark.parametrize(
    ("models", "message"),
    [
        (quirks.LLAMA_CPP_BAD_KEY, "HTTP 401: Invalid API Key; check the API key and what it may use"),
        (Reply({"detail": "Not for you"}, 403), "HTTP 403: Not for you; check the API key and what it may use"),
    ],
)
def test_a_check_tells_a_refused_key(client: Make, models: Reply, message: str) -> None:
    """Before any episode is begun."""
    with serving([OK], models=models) as server, pytest.raises(ModelError) as caught:
        client(server.base_url).check()
    assert str(caught.value) == f"MODEL: {server.base_url}/chat/completions (model m): {message}"


def test_a_check_tells_that_nothing_answers(client: Make) -> None:
    """At once, without retries."""
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unheard.getsockname()[1]}"
        with pytest.raises(ModelError, match=r"\(model m\): connection refused; is the server running\?$"):
            client(url).check()


# ---- streams


def test_a_stream_is_asked_for_with_its_usage(client: Make) -> None:
    """The answer is the whole one's, usage included; a server that does not stream is understood too."""
    with serving(tool_then_submit) as server:
        completion = client(server.base_url, params={"stream": True}).complete(HELLO, [TOOL])
        whole = client(server.base_url).complete(HELLO, [TOOL])
    assert completion == whole
    assert completion.usage == {"prompt_tokens": 10, "completion_tokens": 5}
    assert (server.bodies[0]["stream"], server.bodies[0]["stream_options"]) == (True, {"include_usage": True})
    assert "stream" not in server.bodies[1]


@pytest.mark.parametrize("reply", [quirks.LLAMA_CPP_STREAM, quirks.LLAMA_CPP_PYTHON_STREAM, Reply(answer("hi"))])
def test_real_servers_streams_are_read(client: Make, reply: Reply) -> None:
    """Each to its finish reason."""
    with serving([reply]) as server:
        completion = client(server.base_url, params={"stream": True}).complete(HELLO)
    assert completion.finish_reason in {"tool_calls", "stop"}


# ---- the context's end


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "reply",
    [
        quirks.LLAMA_CPP_CONTEXT,
        quirks.LLAMA_CPP_PYTHON_CONTEXT,
        Reply(
            {
                "object": "error",
                "message": "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
                "type": "BadRequestError",
                "code": 400,
            },
            400,
        ),
        stream_reply(b'data: {"error":{"message":"too long","code":"context_length_exceeded"}}\n\n'),
    ],
    ids=["llama.cpp", "llama-cpp-python", "vllm", "within a stream"],
)
def test_a_full_context_is_an_outcome_of_its_own(client: Make, clock: Still, reply: Reply, stream: bool) -> None:
    """It is not tried again, and is told apart from every other refusal."""
    with serving([reply]) as server, pytest.raises(ContextFull) as caught:
        client(server.base_url, params={"stream": stream}).complete(HELLO)
    assert str(caught.value).startswith("MODEL_CONTEXT: ")
    assert str(caught.value).endswith("; the conversation is longer than the model's context")
    assert not caught.value.retryable
    assert len(server.asked) == 1


# ---- secrets and bad arguments


def test_the_key_is_in_no_text(client: Make, caplog: pytest.LogCaptureFixture) -> None:
    """Not in a repr, a log or an error, though the server repeats it."""
    caplog.set_level(logging.DEBUG)
    reply = Reply({"error": {"message": f"Incorrect API key provided: {KEY}."}}, 401)
    with serving([reply]) as server, pytest.raises(ModelError) as caught:
        client(server.base_url).complete(HELLO)
    assert "Incorrect API key provided: [api key]; check the API key" in str(caught.value)
    shown = caught.getrepr(style="long", chain=True)
    assert KEY not in f"{shown} {caught.value!r} {client(server.base_url)!r} {caplog.text}"


@pytest.mark.parametrize("key", ["sk-tést", "sk-a\nb", "sk-\x00"])
def test_a_key_that_no_header_can_carry_is_refused_without_showing_it(key: str) -> None:
    """A newline at its end is the file's, and is dropped."""
    with pytest.raises(InvalidArgument) as caught:
        ChatClient("http://127.0.0.1:9", "m", key)
    assert str(caught.value) == (
        "INVALID_ARGUMENT: the API key holds characters that no HTTP header can carry; copy it again"
    )
    with serving([OK]) as server, ChatClient(server.base_url, "m", f"{KEY}\n") as chat:
        chat.complete(HELLO)
    assert server.asked[0].headers["Authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"messages": [], "model": "x"}, "messages, model cannot be a parameter of the model; the agent fills it in"),
        ({"temperature": float("nan")}, "are not JSON"),
        ({"stop": {1}}, "are not JSON"),
    ],
)
def test_parameters_that_cannot_be_sent_are_refused(params: dict[str, Any], message: str) -> None:
    """Before anything is sent."""
    with pytest.raises(InvalidArgument, match=message):
        ChatClient("http://127.0.0.1:9", "m", params=params)


def test_a_base_url_must_be_one() -> None:
    """Its credentials, if any, are not repeated."""
    with pytest.raises(InvalidArgument, match="is not a base URL") as caught:
        ChatClient("http://user:secret@127.0.0.1:9", "m")
    assert "secret" not in str(caught.value)
