"""What a server can do: learnt by its greeting or its routes, once; actions checked; a server's faults told apart."""

from __future__ import annotations

from typing import Any

import pytest
from openenvstub import OWN_SCHEMA, TOOL_SCHEMA, openenv_stub

from miroir.errors import InvalidArgument
from miroir.session.capability import Capability, asked, capability, cut, reaped, speaks_ours

PLAIN: dict[str, Any] = {"type": "state", "data": {"episode_id": None, "step_count": 0}}
OURS: dict[str, Any] = {"type": "state", "data": {"episode_id": None, "step_count": 0, "wanted_s": None}}


def test_a_server_of_ours_is_known_by_its_greeting() -> None:
    """Nothing is asked of its routes."""
    with openenv_stub({}) as stub:
        assert not capability(stub.url, None, OURS).plain
        assert not stub.asked


def test_a_plain_server_is_asked_once() -> None:
    """What was learnt is kept for its URL."""
    with openenv_stub({"schema": TOOL_SCHEMA, "metadata": {"name": "peer", "version": "1", "author": None}}) as stub:
        first = capability(stub.url, None, PLAIN)
        assert capability(stub.url, None, PLAIN) is first
        assert (first.plain, first.actions, first.env) == (True, None, {"name": "peer", "version": "1"})
        assert stub.asked == {"health": 1, "schema": 1, "metadata": 1}


def test_another_kind_of_server_in_its_place_is_learnt_anew() -> None:
    """A URL may come to serve something else."""
    with openenv_stub({"schema": TOOL_SCHEMA}) as stub:
        assert capability(stub.url, None, PLAIN).plain
        assert not capability(stub.url, None, OURS).plain
        assert capability(stub.url, None, PLAIN).plain


def test_a_server_that_cannot_be_asked_now_is_asked_again() -> None:
    """It counts as a plain one with tools until then, and its environment has no name."""
    with openenv_stub({"schema": 500}) as stub:
        unknown = capability(stub.url, None, PLAIN)
        assert (unknown.plain, unknown.actions) == (True, None)
        assert unknown.env == {"name": "unknown", "version": "unknown"}
        stub.answers["schema"] = OWN_SCHEMA
        assert capability(stub.url, None, PLAIN).actions == OWN_SCHEMA["action"]


def test_the_health_of_a_superset_names_our_protocol() -> None:
    """Whatever its states look like."""
    with openenv_stub({"health": {"status": "healthy", "protocol": "miroir/1"}}) as stub:
        assert not asked(stub.url, None).plain


def test_a_newer_protocol_is_refused() -> None:
    """What it means by its frames cannot be known."""
    health = {"status": "healthy", "protocol": "miroir/2"}
    with openenv_stub({"health": health}) as stub, pytest.raises(InvalidArgument, match="speaks miroir/2, and this"):
        asked(stub.url, None)


@pytest.mark.parametrize("properties", [{"metadata": {}}, {"type": {}, "metadata": {}}, {"tool_name": {}, "x": {}}])
def test_general_action_types_take_tool_calls(properties: dict[str, Any]) -> None:
    """Only a type with properties of its own is one of the environment's."""
    with openenv_stub({"schema": {"action": {"title": "Action", "properties": properties}}}) as stub:
        assert asked(stub.url, None).actions is None


@pytest.mark.parametrize(
    ("action", "flaws"),
    [
        ({"to": "left", "steps": 2, "force": 1, "hard": True, "kind": "move", "via": None, "metadata": {}}, []),
        ({"to": "left", "steps": 2.0, "force": 0.5}, []),
        ({}, ["to is missing"]),
        ({"to": "up"}, ["to is 'up'; it must be ['left', 'right']"]),
        ({"to": "left", "steps": True}, ["steps is True; it must be integer"]),
        ({"to": "left", "steps": 1.5}, ["steps is 1.5; it must be integer"]),
        ({"to": "left", "kind": "stay"}, ["kind is 'stay'; it must be move"]),
        (
            {"to": "left", "too": 1},
            ["too is unknown; there are metadata, to, steps, force, hard, kind, via"],
        ),
    ],
)
def test_an_action_is_held_to_the_servers_schema(action: dict[str, Any], flaws: list[str]) -> None:
    """What is missing, unknown, or of another type; unions are left to the server."""
    assert Capability("u", None, plain=True, actions=OWN_SCHEMA["action"]).flaws(action) == flaws
    assert Capability("u", None, plain=True).flaws(action) == []


@pytest.mark.parametrize(
    ("error", "gone", "broken_off"),
    [
        (None, False, ""),
        ({"error_type": "execution_error", "message": "db exploded"}, False, ""),
        ({"error_type": "execution_error", "message": "MCP client is not available; environment is closed"}, True, ""),
        ({"error_type": "timeout", "message": "timed out after 30.0 seconds"}, False, "timed out after 30.0 seconds"),
        ({"error_type": "transport_error", "message": "broken pipe"}, False, "broken pipe"),
        ("a text", False, ""),
    ],
)
def test_faults_of_a_server_are_told_from_a_models(error: Any, gone: bool, broken_off: str) -> None:
    """A world that was reaped, and a call that the server broke off."""
    assert reaped({"error": error}) is gone
    assert cut({"error": error}) == (f"the server broke off the call: {broken_off}" if broken_off else "")


@pytest.mark.parametrize(
    "greeting", [{}, {"type": "error", "data": {"code": "EXECUTION_ERROR"}}, {"data": None}, PLAIN]
)
def test_whatever_is_not_our_state_is_not_ours(greeting: dict[str, Any]) -> None:
    """An error before the first reset proves a lease, and says nothing of the protocol."""
    assert not speaks_ours(greeting)


@pytest.mark.parametrize("action", [{"properties": None}, {"properties": ["x"]}, {"title": "A"}, ["properties"], "x"])
def test_a_schema_that_is_none_tells_of_no_actions(action: Any) -> None:
    """Then its actions are taken for tool calls, which it may refuse itself."""
    with openenv_stub({"schema": {"action": action}}) as stub:
        assert asked(stub.url, None).actions is None


@pytest.mark.parametrize("schema", [{"required": None}, {"required": "x"}, {"required": 5, "title": None}])
def test_what_a_schema_says_in_odd_words_is_no_flaw(schema: dict[str, Any]) -> None:
    """A property may be `true`, which is everything, and what is no schema is the server's to judge."""
    with openenv_stub({"schema": {"action": {"properties": {"move": True, "other": "x"}, **schema}}}) as stub:
        known = asked(stub.url, None)

    assert known.actions is not None
    assert known.flaws({"move": 1, "other": [2]}) == []
