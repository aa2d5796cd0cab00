"""What is wrong with a tool call before it is made."""

from __future__ import annotations

import pytest

from miroir.serve.tools import Toolbox

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}, "m": {}}, "required": ["n"]}


def box(schema: dict) -> Toolbox:
    """A toolbox with one tool of that schema."""
    return Toolbox([{"name": "add", "description": "", "inputSchema": schema}])


@pytest.mark.parametrize(
    ("schema", "arguments", "message"),
    [
        (NUMBER, {"n": 1}, None),
        (NUMBER, {"n": "one", "m": None}, None),
        (NUMBER, {"m": 1}, "add misses n"),
        (NUMBER, {"n": 1, "k": 1, "l": 1}, "add has no k, l; it takes n, m"),
        ({"type": "object", "properties": {}}, {"k": 1}, "add has no k; it takes nothing"),
        ({"type": "object"}, {"k": 1}, None),
        ({}, {"k": 1}, None),
        ({"properties": None, "required": None}, {"k": 1}, None),
        ({**NUMBER, "additionalProperties": {"type": "string"}}, {"n": 1, "k": "x"}, None),
        ({**NUMBER, "additionalProperties": False}, {"n": 1, "k": "x"}, "add has no k; it takes n, m"),
        ({**NUMBER, "patternProperties": {"^k": {}}}, {"n": 1, "k": 1}, None),
        ({**NUMBER, "oneOf": [{"required": ["k"]}]}, {"n": 1, "k": 1}, None),
    ],
)
def test_checks_names_of_arguments(schema: dict, arguments: dict, message: str | None) -> None:
    """Required ones must be there, and names that a closed schema does not have must not."""
    fault = box(schema).fault("add", arguments)
    assert (fault and fault.message) == message
    assert fault is None or fault.error_type == "invalid_args"


def test_submit_is_added_where_there_is_none() -> None:
    """The kit's submit is the last tool, and an environment's own stays the only one."""
    ours = box(NUMBER)
    assert [tool["name"] for tool in ours.listing()] == ["add", "submit"]
    assert ours.submits
    own = Toolbox([{"name": "submit", "description": "own", "inputSchema": {}}])
    assert [tool["description"] for tool in own.listing()] == ["own"]
    assert not own.submits


def test_narrowing_keeps_submit() -> None:
    """A task that names its tools need not name submit."""
    assert [tool["name"] for tool in box(NUMBER).narrowed(["add"]).listing()] == ["add", "submit"]
    none = box(NUMBER).narrowed([])
    assert [tool["name"] for tool in none.listing()] == ["submit"]
    assert none.submits
    assert none.fault("add", {"n": 1}).message == "Unknown tool: 'add'; the tools are submit"
