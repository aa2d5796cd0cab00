"""Tools as a trainer takes them: the methods that it calls, and what it shows the model of them."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..chat.form import chat_tools
from ..records.shape import rows
from ..wire import Tool
from .method import method_of, renames

Describe = Callable[[Callable[..., str]], dict[str, Any]]


class Toolbox:
    """The tools of a factory, in the environment's order.

    The methods are numbered, so that a trainer, which sorts them, shows the tools in that order.
    """

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.names = frozenset(tool["name"] for tool in tools)
        self.methods = {f"tool_{number:03}": method_of(tool, _call) for number, tool in enumerate(tools)}
        self._own = chat_tools(tools)
        self._demanded = {tool["name"]: tool["inputSchema"] for tool in tools if not renames(tool)}
        self._described: list[dict[str, Any]] | None = None

    def told(self, record: Mapping[str, Any], *, spoken: bool) -> dict[str, Any]:
        """What a record says of its tools where a trainer can have shown them; empty where none can.

        `tools` is how transformers describes the methods; `input_schemas` is what the environment demands of those
        that were called, which says more. Without the conversation (not `spoken`) a record has but steps, which go by
        the environment's names: there a tool whose arguments are shown under others keeps the environment's form.
        """
        describe: Describe | None = getattr(sys.modules.get("transformers.utils"), "get_json_schema", None)
        if describe is None:
            return {}
        if self._described is None:
            self._described = [
                _shown(describe, method) or own for method, own in zip(self.methods.values(), self._own, strict=True)
            ]
        pairs = zip(self._own, self._described, strict=True)
        tools = [shown if spoken or own["function"]["name"] in self._demanded else own for own, shown in pairs]
        called = [step.get("tool") for step in rows(record.get("steps"))]
        return {
            "tools": tools,
            "input_schemas": {name: self._demanded[name] for name in self._demanded if name in called},
        }


@functools.cache
def toolbox_of(tools: Sequence[str]) -> Toolbox:
    """The toolbox of these tools (each as JSON): one in a process, so that all is made once."""
    return Toolbox([json.loads(tool) for tool in tools])


def _call(environment: Any, tool: str, arguments: dict[str, Any]) -> str:
    text: str = environment._rollout.call(tool, arguments)
    return text


def _shown(describe: Describe, method: Callable[..., str]) -> dict[str, Any] | None:
    try:
        return describe(method)
    except Exception:  # whatever its kind: the trainer says it when it shows the tool
        return None
