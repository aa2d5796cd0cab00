"""The JSON schemas that `/schema` answers, in OpenEnv's shape: its tool actions and observations, and our state."""

from __future__ import annotations

from typing import Any


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


_TEXT = {"type": "string"}
_OBJECT = {"type": "object"}

SCHEMA: dict[str, Any] = {
    "action": {
        **_object(
            {
                "type": {"type": "string", "const": "call_tool", "default": "call_tool"},
                "tool_name": _TEXT,
                "arguments": _OBJECT,
                "metadata": _OBJECT,
            },
            "tool_name",
        ),
        "title": "CallToolAction",
        "additionalProperties": False,
    },
    "observation": {
        **_object(
            {
                "tool_name": _TEXT,
                "result": _or_null(_OBJECT),
                "error": _or_null(_object({"error_type": _TEXT, "message": _TEXT}, "error_type", "message")),
            },
            "tool_name",
        ),
        "title": "CallToolObservation",
    },
    "state": {
        **_object(
            {
                "episode_id": _or_null(_TEXT),
                "task_id": _or_null(_TEXT),
                "step_count": {"type": "integer", "minimum": 0},
                "done": {"type": "boolean"},
                "ended_by": _or_null(_TEXT),
                "wanted_s": _or_null({"type": "number", "minimum": 0}),
            },
            "episode_id",
            "step_count",
        ),
        "title": "State",
    },
    "reset_observation": {**_OBJECT, "title": "Observation"},
}
