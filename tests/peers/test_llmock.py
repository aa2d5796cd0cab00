"""The chat client and agent against llmock, a server that breaks on demand and judges how its client took it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import requests
from peers.grid import MOVE, Grid
from peers.servers import serving
from peers.venvs import venv
from ports import free_ports

from miroir import catalog
from miroir.agents import ChatAgent
from miroir.chat import ChatClient
from miroir.chat.form import chat_tools
from miroir.episode import Ended, Setting, play
from miroir.errors import ContextFull, ModelError
from miroir.fleet import Fleet
from miroir.serve import running

pytestmark = pytest.mark.peers

HELLO = [{"role": "user", "content": "hello"}]
RIGHT = {"name": "move", "arguments": {"direction": "right"}}


@dataclass
class Llmock:
    """A running llmock, and the clients that were made for it."""

    root: str
    clients: list[ChatClient] = field(default_factory=list)

    def client(self, **options: Any) -> ChatClient:
        """A client of its OpenAI endpoint; closed with the test."""
        self.clients.append(ChatClient(f"{self.root}/v1", "gpt-4o", "sk-test", **options))
        return self.clients[-1]

    def script(self, *behaviors: dict[str, Any]) -> None:
        """Queue what it does to the next requests."""
        answer = requests.post(f"{self.root}/_llmock/scenario", json={"behaviors": behaviors}, timeout=10)
        assert answer.status_code == 201, answer.text

    def attempts(self) -> int:
        """How many requests came in."""
        count: int = requests.get(f"{self.root}/_llmock/requests", timeout=10).json()["count"]
        return count

    def findings(self) -> list[str]:
        """What its verdict finds wrong with the client, warnings included."""
        verdict = requests.get(f"{self.root}/_llmock/verdict", timeout=10).json()
        return [f"{finding['code']}: {finding['title']}" for finding in verdict["findings"]]


@pytest.fixture(scope="module")
def root() -> Iterator[str]:
    """The root URL of a running llmock."""
    port = free_ports()
    command = [
        str(venv("llmock") / "bin" / "llmock"),
        "serve",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--stream-chunk-delay-ms",
        "30",  # a stream that is all sent before its client stops reading counts as read
    ]
    with serving(command, f"http://127.0.0.1:{port}/health"):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def llmock(root: str) -> Iterator[Llmock]:
    """A llmock that has forgotten earlier tests; at the end its verdict must be clean."""
    requests.post(f"{root}/_llmock/reset", timeout=10).raise_for_status()
    mock = Llmock(root)
    yield mock
    for client in mock.clients:
        client.close()
    assert mock.findings() == []


def episode(llmock: Llmock, **params: Any) -> Ended:
    """One episode on the grid."""
    with running(Grid) as url, Fleet([url]) as fleet:
        setting, tasks = Setting(tools=catalog.tools(url)), catalog.tasks(url)
        return play(fleet.lease, ChatAgent(llmock.client(params=params)), tasks[0], setting)


def roles(ended: Ended) -> list[str]:
    """The roles of the record's messages, a call's name in place of the assistant's."""
    return [
        ",".join(call["function"]["name"] for call in message.get("tool_calls", [])) or message["role"]
        for message in ended.record["messages"]
    ]


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_waited_for(llmock: Llmock, status: int) -> None:
    """Twice refused, twice waited as asked, then answered."""
    llmock.script({"type": "fail", "status": status, "retry_after": 1, "times": 2})
    began = time.monotonic()
    assert llmock.client().complete(HELLO).message["content"]
    assert time.monotonic() - began >= 2.0
    assert llmock.attempts() == 3


def test_a_refused_key_is_not_tried_again(llmock: Llmock) -> None:
    """One request, one error."""
    llmock.script({"type": "fail", "status": 401, "times": None})
    with pytest.raises(ModelError, match=r"HTTP 401: .*; check the API key"):
        llmock.client().complete(HELLO)
    assert llmock.attempts() == 1


def test_errors_without_a_wait_are_backed_off_from(llmock: Llmock) -> None:
    """Pauses that grow, and an end."""
    llmock.script({"type": "fail", "status": 502, "times": None})
    with pytest.raises(ModelError, match=r"4 attempts\): HTTP 502"):
        llmock.client(retries=3).complete(HELLO)
    assert llmock.attempts() == 4


def test_an_episode_of_plain_answers_is_graded(llmock: Llmock) -> None:
    """A call, then text, which is nudged, then the call that ends it."""
    llmock.script({"type": "reply", "tool_calls": [RIGHT]})
    ended = episode(llmock)
    assert roles(ended) == ["user", "move", "tool", "assistant", "user", "submit", "tool"]
    assert ended.record["metadata"]["ended_by"] == "submit"
    assert ended.record["reward"] is not None


def test_an_unknown_tool_is_answered_as_a_tools_error(llmock: Llmock) -> None:
    """By the environment, and the episode goes on."""
    llmock.script({"type": "tool_fault", "kind": "unknown_tool"})
    ended = episode(llmock)
    assert roles(ended)[1:3] == ["llmock_unknown_tool", "tool"]
    assert ended.record["messages"][2]["content"].startswith("tool_not_found: ")
    assert ended.record["diagnostics"]["tool_errors"] == 1
    assert ended.record["reward"] is not None


def test_malformed_arguments_are_answered_as_a_tools_error(llmock: Llmock) -> None:
    """Without asking the environment."""
    llmock.script({"type": "tool_fault", "kind": "malformed_arguments"})
    ended = episode(llmock)
    call = ended.record["messages"][1]["tool_calls"][0]
    assert isinstance(call["function"]["arguments"], str)
    assert call["arguments_error"] is True
    assert ended.record["messages"][2]["content"].startswith("invalid_args: nothing was called")
    assert [step["tool"] for step in ended.record["steps"]] == ["submit"]
    assert ended.record["reward"] is not None


def test_parallel_calls_are_made_in_order(llmock: Llmock) -> None:
    """Both in one message, both answered, and the task is solved."""
    llmock.script(
        {"type": "reply", "tool_calls": [RIGHT, {"name": "move", "arguments": {"direction": "left"}}]},
        {"type": "reply", "tool_calls": [RIGHT, {"name": "submit", "arguments": {}}]},
    )
    ended = episode(llmock)
    assert roles(ended) == ["user", "move,move", "tool", "tool", "move,submit", "tool", "tool"]
    assert [message["content"] for message in ended.record["messages"] if message["role"] == "tool"][:3] == [
        '{"at":1}',
        '{"at":0}',
        '{"at":1}',
    ]
    assert ended.record["metadata"]["success"] is True


def test_null_tool_calls_are_none(llmock: Llmock) -> None:
    """An empty answer is text, which is nudged and then submitted."""
    llmock.script({"type": "reply", "text": "", "times": 2})
    ended = episode(llmock)
    assert roles(ended) == ["user", "assistant", "user", "assistant"]
    assert ended.record["reward"] is not None


@pytest.mark.parametrize("kind", ["stall", "truncate", "disconnect", "malformed"])
def test_a_broken_stream_is_given_up_and_asked_for_anew(llmock: Llmock, kind: str) -> None:
    """A stall ends at the deadline, long before the server would go on; half an answer is never taken."""
    llmock.script({"type": "stream_fault", "kind": kind, "after_chunks": 2, "stall_seconds": 30.0})
    began = time.monotonic()
    completion = llmock.client(params={"stream": True}, timeout_s=1.5).complete(HELLO)
    assert time.monotonic() - began < 20.0
    assert completion.finish_reason == "stop"
    assert completion.message["content"]
    assert llmock.attempts() == 2


def test_streamed_and_whole_answers_are_the_same(llmock: Llmock) -> None:
    """Text and calls, put together from the stream."""
    for tools in ([], chat_tools([MOVE])):
        whole, streamed = (llmock.client(params={"stream": stream}).complete(HELLO, tools) for stream in (False, True))
        for completion in (whole, streamed):
            for call in completion.message.get("tool_calls", []):
                call["id"] = "any"
        assert whole.message == streamed.message
        assert whole.finish_reason == streamed.finish_reason


def test_a_context_that_is_full_is_told_apart(llmock: Llmock) -> None:
    """And not tried again."""
    llmock.script({"type": "fail", "status": 400, "code": "context_length_exceeded", "times": None})
    with pytest.raises(ContextFull):
        llmock.client().complete(HELLO)
    assert llmock.attempts() == 1
