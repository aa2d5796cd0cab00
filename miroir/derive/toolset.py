"""The tools that a model saw in an episode, and which calls of them are valid."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from ..chat.form import chat_tools
from ..errors import InvalidArgument
from ..wire import encode
from .schema import Check, compiled

_KEPT = 8  # lists of tools that are remembered; a run has one, or one for each surface


class Toolset:
    """Tools in chat form."""

    def __init__(self, definitions: Sequence[Mapping[str, Any]]) -> None:
        self.definitions = list(definitions)
        self._checks: dict[str, Check] = {
            tool["function"]["name"]: compiled(tool["function"].get("parameters")) for tool in definitions
        }

    @cached_property
    def text(self) -> str:
        """The definitions as JSON."""
        return encode(self.definitions)

    @cached_property
    def digest(self) -> str:
        """The same for the same definitions."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def names(self) -> list[str]:
        """The tools' names."""
        return list(self._checks)

    def fault(self, name: str, arguments: Mapping[str, Any], demanded: Any = None) -> str | None:
        """What is wrong with a call, also by a schema that demands more than the list; None where nothing is."""
        check = self._checks.get(name)
        if check is None:
            return "a call of a tool that is not in the list"
        fits = check(arguments) and (demanded is None or _compiled(json.dumps(demanded))(arguments))
        return None if fits else "arguments that break the tool's schema"


class Toolsets:
    """Toolsets by their definitions, so that records with the same list share one."""

    def __init__(self, given: Toolset | None = None) -> None:
        self._given = given
        self._known: list[Toolset] = []
        self.seen = 0

    def of(self, record: Mapping[str, Any]) -> Toolset:
        """The tools of the record, or those that were given where it has none; ValueError for what is none."""
        listed = record.get("tools")
        if listed is None:
            return self._given or _NONE
        for known in self._known:
            if known.definitions == listed:
                return known
        made = _made(listed)
        self._known = [made, *self._known[: _KEPT - 1]]
        self.seen += 1
        return made


def read_tools(path: str | os.PathLike[str]) -> Toolset:
    """The tools of a file: a JSON list in chat form, or as MCP lists them."""
    try:
        listed = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"the tools {os.fspath(path)} cannot be read ({error}); name a JSON list") from error
    try:
        return _made(listed)
    except ValueError as error:
        raise InvalidArgument(
            f"{os.fspath(path)} is no list of tools; write them as MCP or OpenAI lists them"
        ) from error


def _made(listed: Any) -> Toolset:
    if not isinstance(listed, list) or not all(isinstance(tool, Mapping) for tool in listed):
        raise ValueError("tools that are no list of objects")
    try:
        return Toolset([tool if "function" in tool else chat_tools([tool])[0] for tool in listed])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("tools in no known form") from error


@lru_cache(256)
def _compiled(schema: str) -> Check:
    return compiled(json.loads(schema))


_NONE = Toolset([])
