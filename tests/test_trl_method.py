"""Tools as methods: names, signatures and docstrings that a trainer reads, and calls that arrive as they were made."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
from mcptools import CALLS, TOOLS, tool

from miroir.trl.method import method_of

SECTION = re.compile(r"Args:|Returns:|Raises:")


def bound(one: Any, made: list[Any] | None = None) -> Any:
    """The tool as a method of an object, whose calls are kept."""
    calls = [] if made is None else made
    return type("Holder", (), {"tool": method_of(one, lambda self, *call: str(calls.append(call)))})().tool


def described(method: Any) -> dict[str, str]:
    """What the docstring says of each argument."""
    block = inspect.getdoc(method).partition("\n\nArgs:\n")[2].partition("\n\nReturns:")[0]
    return dict(re.fullmatch(r"    (\w+): (.+)", line).groups() for line in block.splitlines())  # type: ignore[union-attr]


@pytest.mark.parametrize(("one", "arguments"), CALLS, ids=[one["name"] for one in TOOLS])
def test_real_tools_are_offered_and_called(one: Any, arguments: dict[str, Any]) -> None:
    """Each is offered under its own name with all its arguments, and called with exactly what was passed."""
    made: list[Any] = []
    method = bound(one, made)

    parameters = inspect.signature(method).parameters
    properties = {**one["inputSchema"].get("properties", {}), **dict.fromkeys(one["inputSchema"].get("required", ()))}
    method(**arguments)

    assert method.__name__ == one["name"]
    assert made == [(one["name"], arguments)]
    assert sorted(parameters) == sorted(method.__annotations__) == sorted(described(method))
    assert len(parameters) == len(properties)
    assert len(SECTION.findall(method.__doc__)) == (2 if parameters else 1)


def test_required_arguments_come_first_and_have_no_default() -> None:
    """Who must be given and who may be left out shows in the signature."""
    method = bound(tool("t", "d", {"a": {"type": "string"}, "b": {"type": "integer"}}, ("b",)))

    assert str(inspect.signature(method)) == "(*, b: int, a: str = None)"


def test_names_that_python_cannot_hold_are_shown_under_others() -> None:
    """Keywords, hyphens, and heads of sections get names of their own, which the docstring explains."""
    names = ["from", "user-id", "user_id", "3d", "", "self", "myArgs"]
    made: list[Any] = []
    method = bound(tool("t", "d", {name: {} for name in names}), made)

    shown = list(inspect.signature(method).parameters)
    method(**{name: at for at, name in enumerate(shown)})

    assert shown == ["from_", "user_id_", "user_id", "arg_3d", "arg_", "self_", "myArgs_"]
    assert made == [("t", dict(zip(names, range(7), strict=True)))]
    assert described(method)["user_id_"] == 'user id (sent as "user-id")'


@pytest.mark.parametrize("name", ["नाम", "ชื่อ", "paral·lel"])
def test_names_that_a_docstring_cannot_hold_are_shown_under_others(name: str) -> None:
    """Python takes combining marks in a name; who reads the docstring takes letters, digits and underscores alone."""
    made: list[Any] = []
    method = bound(tool("t", "d", {name: {}}, (name,)), made)

    [shown] = described(method)
    method(**{shown: 1})

    assert made == [("t", {name: 1})]
    assert re.fullmatch(r"\w+", shown)


def test_half_a_character_is_replaced() -> None:
    """No tokenizer takes a lone surrogate."""
    method = bound(tool("t", "Do \ud83d.", {"a": {"description": "smile \ud83d", "default": "\ude00"}}))

    assert described(method) == {"a": 'smile ? (JSON schema: {"default":"?"})'}
    assert inspect.getdoc(method).startswith("Do ?.")


def test_what_a_signature_cannot_hold_is_said() -> None:
    """Bounds and nested properties stand in the argument's description, rules of the whole in the tool's."""
    count = {"type": "integer", "minimum": 1, "description": "how\n  many"}
    method = bound(tool("t", "Do.", {"count": count}, anyOf=[{"required": ["count"]}], additionalProperties=False))

    assert described(method) == {"count": 'how many (JSON schema: {"minimum":1})'}
    assert inspect.getdoc(method).startswith('Do.\n\n(JSON schema: {"anyOf":[{"required":["count"]}]})\n\nArgs:')


def test_a_description_keeps_its_lines() -> None:
    """Indented lines, tool names and blank lines stay as they are; what looks like a section is defused."""
    text = "First.\n\n    indented\n  Args:\n    x: y"

    assert inspect.getdoc(bound(tool("t", text, {}))).startswith(
        "First.\n\n    indented\n  Args :\n    x: y\n\nReturns:"
    )


@pytest.mark.parametrize("description", [None, "", "  \n"])
def test_a_missing_description_is_the_name(description: Any) -> None:
    """A trainer refuses a tool without a description, so its name stands there."""
    assert inspect.getdoc(bound({**tool("t", "", {}), "description": description})).startswith("t\n\nReturns:")


def test_rules_of_the_whole_are_said_and_nonsense_is_passed_over() -> None:
    """Whatever a schema says beside its arguments stands in the description; a list of required names is a list."""
    schema = {"oneOf": [{"type": "object"}], "properties": [1], "required": True, "title": "T", "$schema": "x"}
    method = bound({"name": "t", "description": "Do.", "inputSchema": schema})

    assert inspect.getdoc(method).startswith('Do.\n\n(JSON schema: {"oneOf":[{"type":"object"}]})\n\nReturns:')
    assert str(inspect.signature(method)) == "()"
