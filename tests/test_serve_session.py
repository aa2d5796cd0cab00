"""A session's frames over real sockets: every reply, every error code, and how episodes end."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator

import pytest
from puppet import Puppet
from serveclient import Client, error, leased

from miroir.serve import running, session


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


def test_writes_the_whole_record(client: Client) -> None:
    """The record of a graded episode is version 1, key for key, submit last and not counted."""
    client.reset(episode_id="e1")
    client.call("say", text="a")
    final = client.call("submit")["data"]
    assert (final["reward"], final["done"]) == (0.5, True)
    record = client.record()
    timings, steps = record.pop("timings"), record.pop("steps")
    assert record == {
        "schema": 1,
        "episode_id": "e1",
        "task_id": "plain",
        "split": "train",
        "env": {"name": "puppet", "version": "7"},
        "reward": 0.5,
        "metadata": {
            "task_hash": "h1",
            "success": True,
            "harm": False,
            "ended_by": "submit",
            "void_reason": None,
            "checks": [{"name": "half", "passed": True, "detail": "seen"}],
            "harms": [],
        },
        "diagnostics": {"steps": 1, "tool_errors": 0, "moves": 2.0},
    }
    assert set(timings) == {"started_at", "episode_s", "env_s"}
    assert timings["started_at"].endswith("+00:00")
    assert 0 <= timings["env_s"] <= timings["episode_s"]
    assert [(step["tool"], step["reward"], step["done"]) for step in steps] == [
        ("say", None, False),
        ("submit", 0.5, True),
    ]
    assert set(steps[0]) == {"tool", "arguments", "result", "error", "reward", "done", "at_s", "seconds"}
    assert (steps[0]["arguments"], steps[0]["result"]) == ({"text": "a"}, "a")


def test_names_harms(client: Client) -> None:
    """Harm is whether there are harms."""
    client.reset()
    client.call("grade_as", how="harm")
    client.call("submit")
    metadata = client.record()["metadata"]
    assert (metadata["harm"], metadata["harms"]) == (True, [{"name": "mail", "detail": "sent to all"}])


def test_copies_what_the_author_goes_on_changing(client: Client) -> None:
    """The record holds results and arguments as they were when they crossed the wire."""
    client.reset()
    client.call("keep", moves=[1, 2])
    client.call("keep", moves=[3])
    client.call("submit")
    first, second, _ = client.record()["steps"]
    assert (first["arguments"], first["result"]) == ({"moves": [1, 2]}, {"moves": [2]})
    assert second["result"] == {"moves": [2, 3]}


def test_gives_results_the_form_of_json(client: Client) -> None:
    """Tuples and number keys come back as JSON holds them."""
    client.reset()
    assert client.call("object", kind="keys")["data"]["observation"]["result"]["data"] == {"1": [2, 3]}


def test_ends_at_max_steps(client: Client) -> None:
    """Tool call number max_steps replies done with the grade."""
    client.reset("short")
    assert not client.call("nope")["data"]["done"]
    last = client.call("say", text="b")["data"]
    assert (last["done"], last["reward"]) == (True, 0.5)
    assert last["observation"]["result"]["data"] == "b"
    record = client.record()
    assert (record["metadata"]["ended_by"], record["steps"][-1]["reward"]) == ("max_steps", 0.5)
    assert "max_steps" in error(client.call("say", text="c"), "EPISODE_OVER")["message"]
    error(client.call("submit"), "EPISODE_OVER")


def test_ends_when_the_environment_says_so(client: Client) -> None:
    """A result that is done ends the episode, graded."""
    client.reset()
    assert client.call("end")["data"]["reward"] == 0.5
    assert client.record()["metadata"]["ended_by"] == "done"


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("boom", {}, "boom failed: RuntimeError: a pipe burst"),
        ("leave", {}, "leave failed: SystemExit: gone"),
        ("object", {"kind": "nan"}, "object failed: ValueError: Out of range float values are not JSON compliant"),
        ("object", {"kind": "set"}, "object failed: TypeError: Object of type set is not JSON serializable"),
        (
            "object",
            {"kind": "list"},
            "object failed: TypeError: a call must return text, a JSON object or a ToolResult",
        ),
        (
            "object",
            {"kind": "none"},
            "object failed: TypeError: a call must return text, a JSON object or a ToolResult",
        ),
        ("give", {"value": "nan"}, "give failed: ValueError: the reward of a call is not a finite number: nan"),
    ],
)
def test_a_failing_environment_voids_the_episode(client: Client, tool: str, arguments: dict, says: str) -> None:
    """What the environment breaks is EXECUTION_ERROR; the episode is void, the session lives."""
    client.reset()
    assert error(client.call(tool, **arguments), "EXECUTION_ERROR")["message"].startswith(says)
    error(client.call("say", text="a"), "EPISODE_OVER")
    record = client.record()
    assert record["reward"] is None
    assert record["metadata"]["ended_by"] == "env_error"
    assert record["metadata"]["void_reason"].startswith(says)
    assert record["metadata"]["success"] is False
    assert record["steps"][-1]["error"]["message"].startswith(says)
    client.reset()


@pytest.mark.parametrize(
    ("how", "ended_by", "says"),
    [
        ("raise", "env_error", "grading failed: RuntimeError: no grader today"),
        ("odd", "env_error", "grading failed: TypeError: grade must return a Grade, not int"),
        ("nan", "env_error", "the reward is not a finite number: nan"),
        ("none", "submit", "the environment gave no reward"),
    ],
)
def test_a_failing_grader_voids_the_episode(client: Client, how: str, ended_by: str, says: str) -> None:
    """An episode without a usable grade is done and void, with the reason."""
    client.reset()
    client.call("grade_as", how=how)
    final = client.call("submit")["data"]
    assert (final["reward"], final["done"]) == (None, True)
    record = client.record()
    assert record["reward"] is None
    assert (record["metadata"]["ended_by"], record["metadata"]["void_reason"]) == (ended_by, says)
    assert record["metadata"]["success"] is False


def test_an_episode_ends_at_its_deadline(client: Client) -> None:
    """Without any frame the episode is graded when its time is up; a step after it is EPISODE_OVER."""
    client.reset(max_seconds=0.2)
    time.sleep(0.4)
    assert client.ask("state")["data"]["ended_by"] == "deadline"
    assert "deadline" in error(client.call("say", text="late"), "EPISODE_OVER")["message"]
    record = client.record()
    assert (record["reward"], record["metadata"]["void_reason"]) == (0.5, None)
    assert record["timings"]["episode_s"] < 0.4


def test_a_call_at_the_deadline_is_waited_for(client: Client) -> None:
    """A call that ends within the grace after the deadline counts, and the episode is graded as it stands."""
    client.reset(max_seconds=0.2)
    data = client.call("sleep", seconds=0.4)["data"]
    assert (data["observation"]["result"]["data"], data["done"], data["reward"]) == ("slept", True, 0.5)
    assert client.record()["metadata"]["ended_by"] == "deadline"


def test_a_call_that_outlives_the_grace_voids_the_episode(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that still runs after the grace is answered without it; the session answers, but cannot begin again."""
    monkeypatch.setattr(session, "GRACE_S", 0.1)
    client.reset(max_seconds=0.2)
    data = client.call("sleep", seconds=1)["data"]
    assert (data["done"], data["reward"]) == (True, None)
    assert data["observation"]["error"]["error_type"] == "timeout"
    record = client.record()
    assert record["metadata"]["ended_by"] == "deadline"
    assert record["metadata"]["void_reason"].startswith("sleep still ran")
    refused = error(client.ask("reset", {"task_id": "plain"}), "EXECUTION_ERROR")
    assert (
        refused["message"] == "reset: an earlier call is still running; close this session and lease another container"
    )
    time.sleep(1)
    client.reset()


def test_a_call_without_a_deadline_is_cut(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without max_seconds a single call has a limit of its own, which ends the episode."""
    monkeypatch.setattr(session, "CALL_LIMIT_S", 0.1)
    client.reset()
    data = client.call("sleep", seconds=0.3)["data"]
    assert (data["done"], data["reward"]) == (True, 0.5)
    assert client.record()["metadata"]["ended_by"] == "deadline"


def test_a_reset_abandons_the_running_episode(client: Client) -> None:
    """An episode that a reset cuts short is void; one that could not begin leaves its record."""
    client.reset(episode_id="e1")
    failed = client.ask("reset", {"task_id": "plain", "mood": "broken"})
    assert error(failed, "EXECUTION_ERROR")["message"] == "reset failed: RuntimeError: no world today"
    record = client.record()
    assert (record["episode_id"], record["metadata"]["ended_by"], record["reward"]) == ("e1", "abandoned", None)
    client.reset(episode_id="e2")
    assert error(client.ask("record", {"episode_id": "e1"}), "STALE_EPISODE")["message"].endswith("that is e2")


def test_a_refused_reset_leaves_the_episode(client: Client) -> None:
    """A reset that says something impossible changes nothing."""
    client.reset(episode_id="e1")
    error(client.ask("reset", {"task_id": "nowhere"}), "UNKNOWN_TASK")
    error(client.ask("reset", {"task_id": "plain", "seed": "x"}), "VALIDATION_ERROR")
    assert client.call("say", text="a")["type"] == "observation"


@pytest.mark.parametrize(
    ("data", "code", "says"),
    [
        ({"task_id": "nowhere"}, "UNKNOWN_TASK", "no task 'nowhere'"),
        ({"task_id": "gone"}, "UNKNOWN_TASK", "the task is gone"),
        ({"task_id": "plain", "mood": "bad"}, "VALIDATION_ERROR", "mood must not be bad"),
        (
            {"task_id": "plain", "colour": 1},
            "VALIDATION_ERROR",
            "unknown: colour; known are coworkers, episode_id, max",
        ),
        ({"task_id": "plain", "surface": "code"}, "VALIDATION_ERROR", "no surface 'code'; the surfaces are api, mcp"),
        ({}, "VALIDATION_ERROR", "task_id must be text"),
        ({"task_id": 3}, "VALIDATION_ERROR", "task_id must be text"),
        ({"task_id": "plain", "max_seconds": 0}, "VALIDATION_ERROR", "max_seconds must be a positive number or null"),
        ({"task_id": "plain", "max_seconds": 10**400}, "VALIDATION_ERROR", "max_seconds must be a positive number"),
        (
            {"task_id": "plain", "max_seconds": True},
            "VALIDATION_ERROR",
            "max_seconds must be a positive number or null",
        ),
        ({"task_id": "plain", "seed": 1.5}, "VALIDATION_ERROR", "seed must be a whole number"),
        ({"task_id": "plain", "coworkers": "yes"}, "VALIDATION_ERROR", "coworkers must be true or false"),
        ({"task_id": "plain", "episode_id": ""}, "VALIDATION_ERROR", "episode_id must be text of 1 to 200 characters"),
        ({"task_id": "plain", "task": {}}, "VALIDATION_ERROR", "unknown: task"),
    ],
)
def test_refuses_impossible_resets(client: Client, data: dict, code: str, says: str) -> None:
    """A reset that cannot be is refused with its reason, and the session lives."""
    assert error(client.ask("reset", data), code)["message"].startswith(says)
    assert client.ask("state")["data"]["episode_id"] is None


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("{", "INVALID_JSON", "not a JSON object: "),
        ("[1]", "INVALID_JSON", "not a JSON object: a frame must be a JSON object, not list"),
        ("[" * 100_000, "INVALID_JSON", "the JSON is nested too deeply"),
        (b"\x00\xff", "INVALID_JSON", "a binary frame; send JSON text"),
        ("{}", "UNKNOWN_TYPE", "Unknown message type: None"),
        ('{"type":["reset"]}', "UNKNOWN_TYPE", "Unknown message type: ['reset']"),
        ('{"type":"dance"}', "UNKNOWN_TYPE", "Unknown message type: dance; known are reset, step"),
        ('{"type":"state","data":{}}', "VALIDATION_ERROR", "unknown: data; known are type"),
        ('{"type":"state","id":7}', "VALIDATION_ERROR", "unknown: id; known are type"),
        ('{"type":"reset"}', "VALIDATION_ERROR", "data must be an object"),
        ('{"type":"step","data":[]}', "VALIDATION_ERROR", "data must be an object"),
        ('{"type":"step","data":{"type":"walk"}}', "VALIDATION_ERROR", "type must be call_tool or list_tools"),
        ('{"type":"step","data":{"tool_name":3}}', "VALIDATION_ERROR", "tool_name must be text"),
        ('{"type":"step","data":{"tool_name":"say","x":1}}', "VALIDATION_ERROR", "unknown: x; known are arguments"),
        ('{"type":"step","data":{"tool_name":"say","metadata":7}}', "VALIDATION_ERROR", "metadata must be an object"),
        (
            '{"type":"step","data":{"tool_name":"say","arguments":[]}}',
            "VALIDATION_ERROR",
            "arguments must be an object",
        ),
        (
            '{"type":"step","data":{"tool_name":"say","arguments":{"text":1e999}}}',
            "VALIDATION_ERROR",
            "arguments must be an object of finite numbers",
        ),
        ('{"type":"coworker_reply","data":{"coworker":"Ann"}}', "VALIDATION_ERROR", "text must be text"),
        ('{"type":"record","data":{"episode_id":3}}', "VALIDATION_ERROR", "episode_id must be text"),
        ('{"type":"mcp","data":"ping"}', "VALIDATION_ERROR", "data must be an object"),
    ],
)
def test_refuses_malformed_frames(client: Client, text: str | bytes, code: str, says: str) -> None:
    """A frame that is none is refused with code and reason, and the session lives."""
    data = error(client.ask_text(text), code)
    assert data["message"].startswith(says)
    assert bool(data.get("errors")) == (code == "VALIDATION_ERROR")
    assert client.ask("state")["type"] == "state"


def test_says_where_a_frame_is_wrong(client: Client) -> None:
    """The errors of a VALIDATION_ERROR have the path to the fault."""
    data = error(client.ask("reset", {"task_id": "plain", "seed": "x"}), "VALIDATION_ERROR")
    says = "seed must be a whole number"
    assert data["errors"] == [{"loc": ["data", "seed"], "msg": says, "type": "value_error"}]


def test_arguments_may_be_nested_to_a_stated_depth(client: Client) -> None:
    """Arguments up to the limit are recorded; deeper ones are refused, while a client can still read the record."""
    client.reset()
    for depth, kind in ((99, "observation"), (100, "error"), (900, "error")):
        nested = "[" * depth + "]" * depth
        step = '{"type":"step","data":{"tool_name":"nope","arguments":{"a":NESTED}}}'
        assert client.ask_text(step.replace("NESTED", nested))["type"] == kind, depth
    client.call("submit")
    assert client.record()["diagnostics"]["steps"] == 1


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


def test_passes_an_environments_own_submit_through() -> None:
    """A submit of the environment's own is called, ends the episode when it says so, and is not counted."""

    class Gateway(Puppet):
        surfaces = ("api",)

        def tools(self, surface: str) -> list:
            return [{"name": "submit", "description": "Hand in.", "inputSchema": {"type": "object"}}]

        def call(self, tool: str, arguments: dict) -> object:
            return self.end() if arguments.get("answer") == 42 else "try again"

    with running(Gateway) as url, leased(url) as client:
        client.reset()
        listed = client.ask("step", {"type": "list_tools"})["data"]["observation"]["tools"]
        assert [tool["description"] for tool in listed] == ["Hand in."]
        assert not client.call("submit", answer=1)["data"]["done"]
        assert client.call("submit", answer=42)["data"]["done"]
        record = client.record()
        assert (record["metadata"]["ended_by"], record["diagnostics"]["steps"]) == ("submit", 1)


def test_answers_pipelined_frames_in_order(client: Client) -> None:
    """Frames that are sent ahead are answered one by one, in their order."""
    client.reset()
    for number in range(40):
        step = {"tool_name": "say", "arguments": {"text": str(number)}}
        client.socket.send(json.dumps({"type": "step", "data": step}))
    said = [client.receive()["data"]["observation"]["result"]["data"] for _ in range(40)]
    assert said == [str(number) for number in range(40)]


def test_text_of_any_kind_crosses_the_wire(client: Client) -> None:
    """Lone surrogates, controls and astral characters survive the round trip."""
    client.reset()
    text = 'a\x00\u2028\U0001f600\ud800"'
    assert client.call("say", text=text)["data"]["observation"]["result"]["data"] == text
    client.call("submit")
    assert client.record()["steps"][0]["result"] == text


def test_numbers_of_a_record_are_finite(client: Client) -> None:
    """No record that leaves the server holds NaN."""
    client.reset()
    client.call("grade_as", how="nan")
    client.call("submit")
    numbers = [value for value in client.record()["diagnostics"].values() if not math.isfinite(value)]
    assert numbers == []
