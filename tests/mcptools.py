"""Tools in the shapes that real MCP servers list them, each with a call's arguments."""

from __future__ import annotations

from typing import Any

STRING = {"type": "string"}


def tool(name: str, description: str, properties: dict[str, Any], required: tuple[str, ...] = (), **more: Any) -> Any:
    """A tool as `tools/list` has it."""
    schema = {"type": "object", "properties": properties, **({"required": list(required)} if required else {}), **more}
    return {"name": name, "description": description, "inputSchema": schema}


ENTITY = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "The name of the entity"},
        "entityType": {"type": "string", "description": "The type of the entity"},
        "observations": {"type": "array", "items": STRING, "description": "What is known of it"},
    },
    "required": ["name", "entityType", "observations"],
    "additionalProperties": False,
}
LOCATION = {"type": "object", "properties": {"latitude": {"type": "number"}, "longitude": {"type": "number"}}}

CALLS: list[tuple[Any, dict[str, Any]]] = [
    (
        tool(
            "read_text_file",
            "Read the complete contents of a file from the file system as text. Handles various text encodings.\n"
            "Use 'head' to read only the first N lines, or 'tail' for the last N lines.\n"
            "    Only works within allowed directories.",
            {
                "path": STRING,
                "tail": {"type": "number", "description": "If provided, returns only the last N lines of the file"},
                "head": {"type": "number", "description": "If provided, returns only the first N lines of the file"},
            },
            ("path",),
            additionalProperties=False,
            **{"$schema": "http://json-schema.org/draft-07/schema#"},
        ),
        {"path": "/etc/hosts", "head": 3},
    ),
    (
        tool(
            "edit_file",
            "Make line-based edits to a text file. Returns: a git-style diff.",
            {
                "path": STRING,
                "edits": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "oldText": {"type": "string", "description": "Text to search for - must match exactly"},
                            "newText": {"type": "string", "description": "Text to replace with"},
                        },
                        "required": ["oldText", "newText"],
                    },
                },
                "dryRun": {"type": "boolean", "default": False, "description": "Preview changes"},
            },
            ("path", "edits"),
        ),
        {"path": "a.txt", "edits": [{"oldText": "a", "newText": "b"}], "dryRun": True},
    ),
    (
        tool(
            "create_entities",
            "Create multiple new entities in the knowledge graph",
            {"entities": {"type": "array", "items": ENTITY}},
            ("entities",),
        ),
        {"entities": [{"name": "Ann", "entityType": "person", "observations": ["tall"]}]},
    ),
    (
        tool(
            "fetch",
            "Fetches a URL from the internet and optionally extracts its contents as markdown.",
            {
                "url": {
                    "description": "URL to fetch",
                    "format": "uri",
                    "minLength": 1,
                    "title": "Url",
                    "type": "string",
                },
                "max_length": {
                    "default": 5000,
                    "description": "Maximum number of characters to return.",
                    "exclusiveMaximum": 1000000,
                    "exclusiveMinimum": 0,
                    "title": "Max Length",
                    "type": "integer",
                },
                "raw": {"default": False, "title": "Raw", "type": "boolean"},
            },
            ("url",),
            title="Fetch",
        ),
        {"url": "http://127.0.0.1/", "max_length": 10},
    ),
    (
        tool(
            "git_log",
            "Shows the commit logs",
            {
                "repo_path": {"title": "Repo Path", "type": "string"},
                "max_count": {"default": 10, "title": "Max Count", "type": "integer"},
                "start_timestamp": {
                    "anyOf": [{"type": "string"}, {"type": "null"}],
                    "default": None,
                    "description": "Start timestamp for filtering commits (choices: ISO 8601, relative)",
                    "title": "Start Timestamp",
                },
            },
            ("repo_path",),
        ),
        {"repo_path": "/repo", "start_timestamp": None},
    ),
    (
        tool(
            "create_issue",
            "Create a new issue in a GitHub repository",
            {
                "owner": STRING,
                "repo": STRING,
                "title": STRING,
                "body": STRING,
                "assignees": {"type": "array", "items": STRING},
                "milestone": {"type": "number"},
                "labels": {"type": "array", "items": STRING},
            },
            ("owner", "repo", "title"),
        ),
        {"owner": "o", "repo": "r", "title": "t", "labels": ["bug"], "milestone": 2.0},
    ),
    (
        tool(
            "list_issues",
            "List issues in a GitHub repository with filtering options",
            {
                "state": {"type": "string", "enum": ["open", "closed", "all"]},
                "per_page": {"type": "integer", "minimum": 1, "maximum": 100},
                "since": {"type": ["string", "null"], "format": "date-time"},
            },
        ),
        {"state": "open", "per_page": 5, "since": None},
    ),
    (
        tool(
            "API-post-search",
            "Notion | Search by title",
            {
                "query": {"type": "string", "description": "The text that the API compares page titles against."},
                "sort": {
                    "type": "object",
                    "properties": {"direction": {"type": "string"}, "timestamp": {"type": "string"}},
                    "additionalProperties": True,
                },
                "filter": {"type": "object", "additionalProperties": {"type": "string"}},
            },
        ),
        {"query": "x", "sort": {"direction": "ascending"}, "filter": {"value": "page"}},
    ),
    (
        tool(
            "maps_distance_matrix",
            "Calculate travel distance and time for multiple origins and destinations",
            {
                "origins": {"type": "array", "items": STRING, "description": "Array of origin addresses"},
                "mode": {
                    "type": "string",
                    "description": "Travel mode (driving, walking, bicycling, transit)",
                    "enum": ["driving", "walking", "bicycling", "transit"],
                },
                "near": LOCATION,
            },
            ("origins",),
        ),
        {"origins": ["Berlin"], "mode": "walking", "near": {"latitude": 1.5, "longitude": 2}},
    ),
    (
        tool(
            "send-message",
            "Send a message.",
            {
                "from": {"type": "string", "description": "the sender"},
                "user-id": {"type": "string", "description": "whom to"},
                "class": {"type": "integer"},
                "self": {"type": "boolean"},
            },
            ("from", "user-id"),
        ),
        {"from": "a", "user-id": "b", "class": 2, "self": True},
    ),
    (
        tool(
            "run_query",
            "Run it.\n\nArgs:\n    sql: not this one\n\nReturns:\n    rows\n\nRaises:\n    an error",
            {"sql": {"type": "string", "description": "the query\n    timeout: 3\nArgs:\n    other: x (choices: [1)"}},
            ("sql",),
        ),
        {"sql": "select 1"},
    ),
    (
        tool(
            "convert_time",
            "Convert time between timezones",
            {
                "source_timezone": {"type": "string", "description": "IANA timezone name (e.g., 'Europe/London')."},
                "time": {"type": "string", "pattern": "^[0-2][0-9]:[0-5][0-9]$", "description": "Time (HH:MM)"},
            },
            ("source_timezone", "time"),
        ),
        {"source_timezone": "UTC", "time": "10:00"},
    ),
    (tool("reset", "Reset the browser.", {"hard": {"type": "boolean"}}), {"hard": True}),
    (tool("get_reward", "", {}), {}),
    (
        tool(
            "sequentialthinking",
            "A detailed tool for problem-solving.\n\tWhen to use: always.",
            {
                "thought": {"type": "string", "description": "Your current thinking step"},
                "thoughtNumber": {"type": "integer", "minimum": 1, "description": "Current number (e.g., 1, 2, 3)"},
                "Returns": {"type": "boolean", "description": ""},
            },
            ("thought", "thoughtNumber"),
        ),
        {"thought": "hm", "thoughtNumber": 1, "Returns": False},
    ),
    (
        tool(
            "update_node",
            "Update a node of the tree.",
            {
                "node": {"$ref": "#/$defs/Node"},
                "level": {"$ref": "#/$defs/Level"},
            },
            ("node",),
            **{
                "$defs": {
                    "Level": {"type": "string", "enum": ["low", "high"]},
                    "Node": {
                        "type": "object",
                        "properties": {
                            "value": {"type": "integer"},
                            "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
                        },
                    },
                }
            },
        ),
        {"node": {"value": 1, "children": [{"value": 2}]}, "level": "low"},
    ),
    (
        tool(
            "set_value",
            "Set a value.",
            {
                "value": {"oneOf": [{"type": "string"}, {"type": "number"}, {"type": "array", "items": STRING}]},
                "unit": {"const": "px"},
                "scale": {"enum": [1, 2, None]},
                "shape": {"enum": [{"a": 1}, [2]]},
                "anything": True,
            },
            ("value",),
        ),
        {"value": ["a"], "unit": "px", "scale": 2, "shape": {"a": 1}, "anything": [None]},
    ),
    (
        tool(
            "kubectl_get",
            "Get resources.",
            {"resourceType": STRING, "labels": {"type": "object", "additionalProperties": STRING}},
            ("resourceType", "namespace"),
            anyOf=[{"required": ["name"]}, {"required": ["labels"]}],
            additionalProperties=True,
        ),
        {"resourceType": "pods", "labels": {"app": "x"}, "namespace": "default", "name": "web"},
    ),
    (
        tool(
            "browser.click",
            "Click on an element.",
            {
                "élément": {"type": "string", "description": "Élément à cliquer : « bouton »"},
                "ref": {"type": ["string", "integer"], "description": "Exact target"},
                "modifiers": {"type": "array", "items": {"type": "string", "enum": ["Alt", "Shift"]}},
            },
            ("élément", "ref"),
        ),
        {"élément": "b", "ref": 7, "modifiers": ["Alt"]},
    ),
    ({"name": "noop", "description": "", "inputSchema": {"type": "object"}}, {}),
]
TOOLS = [one for one, _ in CALLS]
