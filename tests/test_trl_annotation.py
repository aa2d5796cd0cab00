"""Type hints from JSON schemas, and what they cannot hold."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from miroir.trl.annotation import hint_of, inlined


@pytest.mark.parametrize(
    ("schema", "hint"),
    [
        ({"type": "string"}, str),
        ({"type": "integer", "title": "N", "description": "how many"}, int),
        ({"type": "number"}, float),
        ({"type": "boolean"}, bool),
        ({"type": "null"}, type(None)),
        ({"type": "array"}, list),
        ({"type": "array", "items": {"type": "string"}}, list[str]),
        ({"type": "array", "items": {"type": "array", "items": {"enum": [1, 2]}}}, list[list[Literal[1, 2]]]),
        ({"type": "object"}, dict),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, dict[str, int]),
        ({"type": "string", "enum": ["a", "b"]}, Literal["a", "b"]),
        ({"enum": ["a", None]}, Literal["a", None]),
        ({"const": 3}, Literal[3]),
        ({"type": ["string", "null"]}, str | None),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, int | None),
        ({"type": "integer", "nullable": True}, int | None),
        ({"type": "integer", "nullable": False}, int),
        ({"type": "array", "items": {"type": "string", "nullable": True}}, list[str | None]),
        ({"nullable": True}, Any | None),
        ({"oneOf": [{"type": "integer"}, {"type": "array", "items": {"type": "string"}}]}, int | list[str]),
        ({}, Any),
        (True, Any),
    ],
)
def test_a_hint_holds_the_whole_schema(schema: Any, hint: Any) -> None:
    """Basic types, enumerations, unions, lists and maps become hints, and nothing is left to say."""
    assert hint_of(schema) == (hint, {})


@pytest.mark.parametrize(
    ("schema", "hint", "rest"),
    [
        ({"type": "integer", "minimum": 1, "default": 2}, int, {"minimum": 1, "default": 2}),
        ({"type": "string", "enum": ["a"], "default": "a"}, Literal["a"], {"default": "a"}),
        ({"enum": [{"a": 1}]}, Any, {"enum": [{"a": 1}]}),
        ({"type": "string", "enum": ["half \ud83d"]}, str, {"enum": ["half \ud83d"]}),
        ({"const": "\ud83d"}, Any, {"const": "\ud83d"}),
        ({"type": "array", "items": {"type": "string", "minLength": 1}}, list[str], None),
        ({"type": "array", "items": {"type": "string", "description": "a name"}}, list[str], None),
        ({"type": "array", "items": False, "maxItems": 0}, list, None),
        ({"type": "object", "properties": {"a": {}}, "required": ["a"]}, dict, None),
        ({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}, dict, None),
        ({"type": ["string", "integer"], "minimum": 1}, str | int, {"minimum": 1}),
        ({"anyOf": [{"type": "string", "format": "uri"}, {"type": "null"}]}, str | None, None),
        ({"type": "date"}, Any, {"type": "date"}),
        ({"allOf": [{"type": "string"}]}, Any, {"allOf": [{"type": "string"}]}),
        ({"anyOf": "either"}, Any, {"anyOf": "either"}),
        (False, Any, {"not": {}}),
    ],
)
def test_what_a_hint_cannot_hold_is_left(schema: Any, hint: Any, rest: dict[str, Any] | None) -> None:
    """Bounds, defaults, formats and the properties of objects stay as keywords (None: all but the type)."""
    left = {key: value for key, value in schema.items() if key != "type"} if rest is None else rest

    assert hint_of(schema) == (hint, left)


def test_local_references_are_written_out() -> None:
    """A definition stands where it is referred to, with what stands beside the reference; one to itself stays."""
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/a~1b"}}}
    root = {"$defs": {"a/b": node, "loose": "text"}}

    assert inlined({"$ref": "#/$defs/a~1b", "description": "d"}, root) == {**node, "description": "d"}
    for unknown in ("#/$defs/none", "#/$defs/loose", "http://x/y", "#/$defs/a~1b/type/no"):
        assert inlined([{"$ref": unknown}], root) == [{"$ref": unknown}]


def test_references_do_not_blow_up() -> None:
    """Definitions that double at every level are written out a few levels deep."""
    pair = {f"d{n}": {"type": "array", "prefixItems": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}

    assert len(str(inlined({"$ref": "#/$defs/d0"}, {"$defs": pair}))) < 10_000


def test_definitions_that_refer_to_all_the_others_fill_no_context() -> None:
    """Blocks of thirty kinds that hold one another are written out as deep as a page holds, at least once."""
    names = [f"d{n}" for n in range(30)]
    blocks = {name: {"properties": {other: {"$ref": f"#/$defs/{other}"} for other in names}} for name in names}

    written = inlined({"$ref": "#/$defs/d0"}, {"$defs": blocks})

    assert list(written["properties"]) == names
    assert len(str(written)) < 10_000
