"""A session's frames over real sockets: what each request is answered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from puppet import Puppet
from serveclient import Client, error, leased

from miroir.serve import running


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server that all tests of this module use, one after the other."""
    with running(Puppet, max_sessions=2) as base:
        yield base


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    """A session of its own."""
    with leased(url) as one:
        yield one


def test_resets_with_what_the_client_said(client: Client) -> None:
    """A reset passes options on, chooses the first surface, and its first observation comes back."""
    given = client.reset(seed=3, max_seconds=60, coworkers=True, mood="fine", surface="mcp")
    assert given == {"seed": 3, "max_seconds": 60, "coworkers": True, "surface": "mcp", "mood": "fine"}
    assert client.reset() == {"seed": None, "max_seconds": None, "coworkers": False, "surface": "api", "mood": "good"}


def test_rounds_the_authors_seconds_up(client: Client) -> None:
    """A fraction of a second is kept for the deadline, and is a whole one for the author."""
    assert client.reset(max_seconds=59.5)["max_seconds"] == 60


def test_keeps_the_clients_episode_id(client: Client) -> None:
    """The episode has the id that the client gave, or one of its own."""
    client.reset(episode_id="e1")
    assert client.ask("state")["data"]["episode_id"] == "e1"
    client.reset()
    assert len(client.ask("state")["data"]["episode_id"]) == 32


def test_finds_tasks_of_every_split(client: Client) -> None:
    """A task is found by its id alone."""
    client.reset("held-out")
    client.call("submit")
    assert client.record()["split"] == "eval"


def test_says_its_state(client: Client) -> None:
    """State has its keys before, during and after an episode."""
    before = {"episode_id": None, "task_id": None, "step_count": 0, "done": False, "ended_by": None, "wanted_s": None}
    assert client.ask("state") == {"type": "state", "data": before}
    client.reset(episode_id="e1")
    client.call("say", text="a")
    running_state = {**before, "episode_id": "e1", "task_id": "plain", "step_count": 1}
    assert client.ask("state")["data"] == running_state
    client.call("submit")
    assert client.ask("state")["data"] == {**running_state, "done": True, "ended_by": "submit"}


def test_answers_in_openenvs_shape(client: Client) -> None:
    """Text and objects come back as a CallToolResult."""
    client.reset()
    result = {"content": [{"type": "text", "text": "hi"}], "structured_content": None, "data": "hi"}
    assert client.call("say", text="hi") == {
        "type": "observation",
        "data": {
            "observation": {"tool_name": "say", "result": {**result, "is_error": False, "meta": None}, "error": None},
            "reward": None,
            "done": False,
        },
    }
    given = client.call("give", value=0.25, wrong=True)["data"]
    assert given["reward"] == 0.25
    assert given["observation"]["result"] == {
        "content": [{"type": "text", "text": '{"value":0.25}'}],
        "structured_content": {"value": 0.25},
        "data": {"value": 0.25},
        "is_error": True,
        "meta": None,
    }


@pytest.mark.parametrize(
    ("tool", "arguments", "error_type", "message"),
    [
        ("nope", {}, "tool_not_found", "Unknown tool: 'nope'; the tools are say, end"),
        ("say", {}, "invalid_args", "say misses text"),
        ("say", {"text": "a", "volume": 3}, "invalid_args", "say has no volume; it takes text, loud"),
        ("refuse", {}, "out_of_office", "not today"),
    ],
)
def test_tells_the_model_of_its_mistakes(
    client: Client, tool: str, arguments: dict, error_type: str, message: str
) -> None:
    """A tool's error is an observation, counts as a step, and stands in the record."""
    client.reset()
    data = client.call(tool, **arguments)["data"]
    assert data["observation"]["result"] is None
    assert data["observation"]["error"]["error_type"] == error_type
    assert data["observation"]["error"]["message"].startswith(message)
    assert not data["done"]
    assert client.ask("state")["data"]["step_count"] == 1
    client.call("submit")
    record = client.record()
    assert record["diagnostics"]["tool_errors"] == 1
    assert (record["steps"][0]["result"], record["steps"][0]["error"]) == ("", data["observation"]["error"])


def test_narrows_the_tools_to_the_tasks(client: Client) -> None:
    """A task's `tools` are all that is listed and can be called; submit stays."""
    client.reset("narrow")
    listed = client.ask("step", {"type": "list_tools"})["data"]["observation"]["tools"]
    assert [tool["name"] for tool in listed] == ["say", "submit"]
    assert client.call("end")["data"]["observation"]["error"]["error_type"] == "tool_not_found"


def test_a_tasks_own_tools_are_those_of_the_episode(monkeypatch: pytest.MonkeyPatch, client: Client) -> None:
    """They come with the reset, are listed in the session, and others are unknown; without any there is no word."""
    assert "tools" not in client.ask("reset", {"task_id": "plain"})["data"]
    own = [{"name": "end", "description": "End.", "inputSchema": {"type": "object"}}]
    monkeypatch.setattr(Puppet, "task_tools", lambda self: own)
    told = client.ask("reset", {"task_id": "plain"})["data"]["tools"]
    assert [tool["name"] for tool in told] == ["end", "submit"]
    listed = client.ask("step", {"type": "list_tools"})["data"]["observation"]["tools"]
    assert [tool["name"] for tool in listed] == ["end", "submit"]
    assert client.call("say", text="a")["data"]["observation"]["error"]["error_type"] == "tool_not_found"
    assert client.call("end")["data"]["done"]


def test_lists_tools_without_an_episode_or_a_step(client: Client) -> None:
    """list_tools needs no reset, counts as no step, and is in OpenEnv's shape."""
    reply = client.ask("step", {"type": "list_tools"})
    assert (reply["data"]["reward"], reply["data"]["done"]) == (None, False)
    first, *_, last = reply["data"]["observation"]["tools"]
    assert set(first) == {"name", "description", "input_schema"}
    assert last["name"] == "submit"
    client.reset()
    client.ask("step", {"type": "list_tools"})
    assert client.ask("state")["data"]["step_count"] == 0


def test_answers_mcp_frames(client: Client) -> None:
    """In a session MCP pings and lists tools, and no more."""
    assert client.ask("mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"})["data"]["result"] == {}
    listed = client.ask("mcp", {"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
    assert listed["type"] == "mcp"
    assert set(listed["data"]["result"]["tools"][0]) == {"name", "description", "inputSchema"}
    refused = client.ask("mcp", {"jsonrpc": "2.0", "id": 3, "method": "tools/call"})["data"]
    assert (refused["id"], refused["error"]["code"]) == (3, -32601)
    assert client.ask("mcp", {"id": 4})["data"]["error"]["code"] == -32600


def test_gives_results_the_form_of_json(client: Client) -> None:
    """Tuples and number keys come back as JSON holds them."""
    client.reset()
    assert client.call("object", kind="keys")["data"]["observation"]["result"]["data"] == {"1": [2, 3]}


def test_a_refused_reset_leaves_the_episode(client: Client) -> None:
    """A reset that says something impossible changes nothing."""
    client.reset(episode_id="e1")
    error(client.ask("reset", {"task_id": "nowhere"}), "UNKNOWN_TASK")
    error(client.ask("reset", {"task_id": "plain", "seed": "x"}), "VALIDATION_ERROR")
    assert client.call("say", text="a")["type"] == "observation"


def test_needs_an_episode(client: Client) -> None:
    """What concerns an episode is NO_EPISODE before the first reset."""
    for kind, data in (
        ("step", {"tool_name": "say"}),
        ("record", {}),
        ("coworkers", None),
        ("coworker_reply", {"coworker": "Ann", "text": "yes"}),
    ):
        assert error(client.ask(kind, data), "NO_EPISODE")["message"] == "no episode; send a reset first"


def test_knows_a_stale_episode(client: Client) -> None:
    """A step or record that names another episode is STALE_EPISODE; one that names none is taken."""
    client.reset(episode_id="e2")
    step = {"tool_name": "say", "arguments": {"text": "a"}}
    error(client.ask("step", {**step, "metadata": {"episode_id": "e1"}}), "STALE_EPISODE")
    assert client.ask("step", {**step, "metadata": {"episode_id": "e2"}})["type"] == "observation"
    assert error(client.ask("record"), "NOT_GRADED")["message"].endswith("end it with the tool submit")


def test_asks_coworkers(client: Client) -> None:
    """Who owes a reply is told with the chat to answer, and answers with the app's status."""
    client.reset()
    assert client.ask("coworkers") == {"type": "coworkers", "data": {"turns": []}}
    client.call("owe", coworker="Ann")
    turns = [{"coworker": "Ann", "messages": [{"role": "user", "content": "well?"}]}]
    assert client.ask("coworkers")["data"]["turns"] == turns
    refused = client.ask("coworker_reply", {"coworker": "Bob", "text": "yes"})
    assert error(refused, "UNKNOWN_COWORKER")["message"] == "Bob owes nothing"
    answered = client.ask("coworker_reply", {"coworker": "Ann", "text": "yes"})
    assert answered == {"type": "coworker_reply", "data": {"status": 200}}
    client.call("submit")
    assert client.ask("coworkers")["data"]["turns"] == []
    error(client.ask("coworker_reply", {"coworker": "Ann", "text": "yes"}), "EPISODE_OVER")


def test_coworkers_that_fail_void_the_episode(client: Client) -> None:
    """An environment that cannot tell who owes a reply has failed."""
    client.reset()
    client.call("owe", coworker="nobody")
    says = "coworkers failed: RuntimeError: the phone is dead"
    assert error(client.ask("coworkers"), "EXECUTION_ERROR")["message"] == says
    assert client.record()["metadata"]["void_reason"] == says
