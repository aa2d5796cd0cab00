"""What agents may call, from one table of operations: a tool each (`api`) or a tool for each app (`mcp`)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from ...serve.environment import ToolError
from ...wire import Tool
from . import listing
from .calendars import Calendar
from .chat import Chat
from .directory import Directory
from .files import Files
from .mail import Mail
from .operation import Answer, App, Operation
from .tickets import Tickets
from .world import World

APPS: tuple[type[App], ...] = (Directory, Mail, Chat, Calendar, Tickets, Files)


@cache
def by_tool() -> Mapping[str, Operation]:
    """Every operation by the name of its own tool."""
    return {each.tool: each for app in APPS for each in app.operations.values()}


def api_tools() -> list[Tool]:
    """One tool for each operation."""
    return [
        {"name": name, "description": each.description, "inputSchema": each.schema()}
        for name, each in by_tool().items()
    ]


def mcp_tools() -> list[Tool]:
    """One tool for each app; `action` names the operation, whose arguments stand beside it."""
    return [_grouped(app) for app in APPS]


def _grouped(app: type[App]) -> Tool:
    actions = app.operations
    lines = [f"{app.summary[0].upper()}{app.summary[1:]}. Actions:"]
    properties: dict[str, Any] = {"action": {"type": "string", "enum": list(actions)}}
    for action, each in actions.items():
        takes = ", ".join(name if name in each.required else f"[{name}]" for name in each.parameters)
        lines.append(f"- {action}({takes}): {each.description}")
        properties |= each.parameters
    schema = {"type": "object", "properties": properties, "required": ["action"], "additionalProperties": False}
    return {"name": app.name, "description": "\n".join(lines), "inputSchema": schema}


class Desk:
    """The apps as one person uses them: it runs operations and counts which of them read and which wrote."""

    def __init__(self, world: World, me: str) -> None:
        self._apps = {app.name: app(world, me) for app in APPS}
        self.reads = 0
        self.writes = 0

    def call_api(self, tool: str, arguments: Mapping[str, Any]) -> Answer:
        """Run the operation that the tool of this name stands for; ToolError when there is none."""
        known = by_tool()
        if tool not in known:
            raise ToolError(f"there is no tool {tool!r}; nearest: {listing.nearest(tool, known)}", "tool_not_found")
        return self._run(known[tool], arguments)

    def call_mcp(self, tool: str, arguments: Mapping[str, Any]) -> Answer:
        """Run the operation that `action` names in the app that the tool stands for."""
        if tool not in self._apps:
            raise ToolError(f"there is no tool {tool!r}; tools: {', '.join(self._apps)}", "tool_not_found")
        known = self._apps[tool].operations
        action = arguments.get("action")
        if not isinstance(action, str) or action not in known:
            raise ToolError(f"{tool} needs an action, one of {', '.join(known)}; not {action!r}", "invalid_args")
        return self._run(known[action], {name: value for name, value in arguments.items() if name != "action"})

    def _run(self, operation: Operation, arguments: Mapping[str, Any]) -> Answer:
        checked = operation.checked(arguments)
        answer: Answer = getattr(self._apps[operation.app], operation.action)(**checked)
        if operation.writes:
            self.writes += 1
        else:
            self.reads += 1
        return answer
