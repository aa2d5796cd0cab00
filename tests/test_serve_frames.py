"""What a frame must hold: everything else is refused with a code and a reason, and the session lives."""

from __future__ import annotations

import json
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
        (
            '{"type":"step","data":{"tool_name":"say","arguments":{"text":[NaN]}}}',
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
