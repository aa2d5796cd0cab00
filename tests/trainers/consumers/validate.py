"""validate.py KIND FILE: print the numbers of the rows in a JSON lines file that a consumer's own models take.

KIND is `atif` (the package of that name), `anthropic` (the SDK's parameter types), or a JSON schema's file. Why the
others are not taken goes to standard error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

kind, file = sys.argv[1:]


def atif() -> Callable[[Any], Any]:
    """The validator of trajectories."""
    from atif import Trajectory

    return Trajectory.model_validate


def anthropic() -> Callable[[Any], Any]:
    """The validator of requests: messages, blocks and tools as the SDK types them."""
    from anthropic import types
    from pydantic import ConfigDict, TypeAdapter, with_config

    def strict(name: str) -> TypeAdapter[Any]:
        return TypeAdapter(with_config(ConfigDict(extra="forbid"))(getattr(types, name)))

    message, tool, text = strict("MessageParam"), strict("ToolParam"), TypeAdapter(str)
    blocks = {
        ("user", "text"): strict("TextBlockParam"),
        ("assistant", "text"): strict("TextBlockParam"),
        ("assistant", "tool_use"): strict("ToolUseBlockParam"),
        ("user", "tool_result"): strict("ToolResultBlockParam"),
    }

    def validate(row: dict[str, Any]) -> None:
        text.validate_python(row["system"], strict=True)
        for one in row["tools"]:
            tool.validate_python(one)
        for one in row["messages"]:
            message.validate_python(one)
            for block in one["content"]:  # the SDK's type of content is lazy: pydantic looks at no block in it
                blocks[one["role"], block["type"]].validate_python(block)
        if row.keys() != {"system", "messages", "tools"}:
            raise ValueError(f"unknown keys: {row.keys()}")

    return validate


def schema() -> Callable[[Any], Any]:
    """The validator of a JSON schema."""
    from jsonschema import Draft202012Validator

    return Draft202012Validator(json.loads(Path(kind).read_text())).validate


validator = {"atif": atif, "anthropic": anthropic}.get(kind, schema)()
for number, line in enumerate(Path(file).read_text().splitlines()):
    try:
        validator(json.loads(line))
    except Exception as error:
        print(f"row {number}: {error}", file=sys.stderr)
    else:
        print(number)
