"""Whether values keep a JSON schema."""

from __future__ import annotations

from typing import Any

import pytest

from miroir.derive.schema import compiled

TREE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"left": {"$ref": "#/$defs/node"}, "right": {"$ref": "#/$defs/node"}},
            "additionalProperties": False,
        }
    },
}


@pytest.mark.parametrize(
    ("schema", "kept", "broken"),
    [
        ({"type": "string"}, ["", "a"], [1, None, True, []]),
        ({"type": "integer"}, [0, -3, 2.0], [1.5, "1", True, None]),
        ({"type": "number"}, [0, 1.5], ["1", False]),
        ({"type": "boolean"}, [True, False], [0, 1, "true"]),
        ({"type": "null"}, [None], [0, ""]),
        ({"type": ["string", "null"]}, ["a", None], [0]),
        ({"type": "string", "nullable": True}, ["a", None], [0]),
        ({"anyOf": [{"type": "string"}, {"type": "array"}], "nullable": True}, ["a", [], None], [0]),
        ({"type": "string", "nullable": False}, ["a"], [None]),
        ({"enum": ["a", 1]}, ["a", 1], ["b", True, 2]),
        ({"const": 1}, [1], [True, 2]),
        ({"required": ["a"]}, [{"a": 1}, "text"], [{}, {"b": 1}]),
        ({"properties": {"a": {"type": "string"}}}, [{}, {"a": ""}, {"b": 1}], [{"a": 1}]),
        ({"properties": {"a": {}}, "additionalProperties": False}, [{}, {"a": 1}], [{"b": 1}]),
        ({"additionalProperties": {"type": "integer"}}, [{"a": 1}], [{"a": "x"}]),
        ({"items": {"type": "string"}}, [[], ["a"], "a"], [["a", 1]]),
        ({"prefixItems": [{"type": "string"}], "items": False}, [[], ["a"]], [[1], ["a", "b"]]),
        ({"minItems": 1, "maxItems": 2}, [[1], [1, 2], "x"], [[], [1, 2, 3]]),
        ({"minimum": 1, "maximum": 3}, [1, 3, "0"], [0, 3.5]),
        ({"exclusiveMinimum": 1, "exclusiveMaximum": 3}, [2], [1, 3]),
        ({"minLength": 1, "maxLength": 2}, ["a", "ab", 7], ["", "abc"]),
        ({"pattern": "^a"}, ["ab", 3], ["ba"]),
        ({"anyOf": [{"type": "string"}, {"minimum": 3}]}, ["", 3], [2]),
        ({"oneOf": [{"type": "integer"}, {"minimum": 3}]}, [1, 3.5], [4]),
        ({"allOf": [{"type": "integer"}, {"minimum": 3}]}, [3], [2, 3.5]),
        ({"not": {"type": "string"}}, [1], ["a"]),
        (TREE, [{}, {"left": {"right": {}}}], [1, {"left": {"middle": {}}}]),
        (True, [1, None], []),
        (False, [], [1, None]),
        ({"pattern": "(?<no"}, ["anything"], []),
        ({"format": "uuid", "x-hint": 3}, ["anything"], []),
        ({"$ref": "#"}, [1], []),
        ({"$ref": "https://example.com/schema"}, [1], []),
        ({"$ref": "#/$defs/missing"}, [1], []),
        ({"type": "whatever"}, [1], []),
        ({"type": 3}, [1], []),
        ({"type": []}, [1], []),
        ({"type": [["string"], "null"]}, [1, None], []),
        ({"type": "object", "properties": [1], "required": True}, [{}], [1]),
        ({"properties": None, "required": ["a", ["b"], 3]}, [{"a": 1}], [{}]),
        ({"prefixItems": 3, "items": {"type": "string"}}, [["a"]], [[1]]),
    ],
)
def test_a_schema_tells_what_keeps_it(schema: Any, kept: list[Any], broken: list[Any]) -> None:
    """Each keyword allows and refuses what the standard says; what is not known allows all."""
    check = compiled(schema)

    assert [value for value in kept if not check(value)] == []
    assert [value for value in broken if check(value)] == []
