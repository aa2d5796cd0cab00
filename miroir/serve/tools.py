"""The tools of a surface: their listing, and what is wrong with a call before it is made."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from ..wire import SUBMIT, Tool

SUBMIT_TOOL: Tool = {
    "name": SUBMIT,
    "description": "End the episode: call it once, when the task is done. Nothing can be changed after it.",
    "inputSchema": {"type": "object", "properties": {}, "required": []},
}
# What makes a schema take arguments that its own properties do not name.
_OPEN = ("additionalProperties", "patternProperties", "allOf", "anyOf", "oneOf", "$ref")


class Fault(NamedTuple):
    """Why a tool call failed, in OpenEnv's terms: tool_not_found, invalid_args, execution_error, timeout."""

    error_type: str
    message: str


class Toolbox:
    """The tools that an episode shows. `submit` is the kit's unless the environment has one of its own."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = {tool["name"]: tool for tool in tools}
        self.submits = SUBMIT not in self._tools
        if self.submits:
            self._tools[SUBMIT] = SUBMIT_TOOL

    def narrowed(self, names: Collection[str]) -> Toolbox:
        """The same without the tools that `names` leaves out; `submit` stays."""
        kept = {*names} if self.submits else {*names, SUBMIT}
        return Toolbox([tool for name, tool in self._tools.items() if name in kept])

    def listing(self) -> list[Tool]:
        """The tools as MCP lists them."""
        return list(self._tools.values())

    def fault(self, name: str, arguments: Mapping[str, Any]) -> Fault | None:
        """What is wrong with a call: an unknown tool, a missing argument, or one that the tool does not have."""
        tool = self._tools.get(name)
        if tool is None:
            return Fault("tool_not_found", f"Unknown tool: {name!r}; the tools are {', '.join(self._tools)}")
        schema = tool["inputSchema"]
        missing = [key for key in schema.get("required") or () if key not in arguments]
        if missing:
            return Fault("invalid_args", f"{name} misses {', '.join(missing)}")
        known = schema.get("properties")
        if known is None or any(schema.get(key) for key in _OPEN):
            return None
        unknown = [key for key in arguments if key not in known]
        if unknown:
            return Fault(
                "invalid_args", f"{name} has no {', '.join(unknown)}; it takes {', '.join(known) or 'nothing'}"
            )
        return None
