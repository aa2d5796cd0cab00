"""What a server can do: ours keep the whole protocol, a plain OpenEnv server is learnt about once per URL."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from .. import rest
from ..errors import InvalidArgument, MiroirError
from ..urls import endpoint
from ..wire import PROTOCOL, Tool

CLOSED = ("environment is closed", "mcp client is not available")  # what a session says whose world was reaped
CUT = frozenset({"timeout", "transport_error"})  # tool errors that the server is to blame for
_ANY_ACTIONS = frozenset({"metadata", "type"})  # properties; a type with no more takes tool calls
_FAMILY = f"{PROTOCOL.partition('/')[0]}/"
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}


class Capability:
    """What is known of the server at one URL.

    `plain`: it speaks OpenEnv's protocol and no more; `actions` is then the JSON schema of its own type of action, None
    where its actions are tool calls. `tools` are those that a session of it has listed. `unknown` holds the requests
    that it does not know.
    """

    def __init__(self, url: str, token: str | None, *, plain: bool, actions: dict[str, Any] | None = None) -> None:
        self._url = url
        self._token = token
        self.plain = plain
        self.actions = actions
        self.tools: list[Tool] | None = None
        self.unknown: set[str] = set()

    @cached_property
    def env(self) -> dict[str, str]:
        """Name and version as `/metadata` has them. A plain server makes an environment for it, which may fail."""
        said: Any = None
        with contextlib.suppress(MiroirError):
            said = rest.get(endpoint(self._url, "metadata"), token=self._token)
        found = said if isinstance(said, dict) else {}
        return {key: str(found.get(key, "unknown")) for key in ("name", "version")}

    @property
    def form(self) -> str:
        """The form of the server's own actions, in words."""
        schema = self.actions or {}
        return f"its type {schema.get('title', 'Action')} ({', '.join(schema.get('properties', {}))})"

    def flaws(self, action: Mapping[str, Any]) -> list[str]:
        """What is wrong with an action of the server's own type; nothing where that cannot be said."""
        if self.actions is None:
            return []
        return list(_flaws(action, self.actions))


_known: dict[str, Capability] = {}
_lock = threading.Lock()  # guards _known


def capability(url: str, token: str | None, greeting: Mapping[str, Any]) -> Capability:
    """What the server at `url` can do; `greeting` is the first frame that it sent."""
    ours = speaks_ours(greeting)
    with _lock:
        known = _known.get(url)
    if known is not None and known.plain is not ours:
        return known
    return _kept(url, Capability(url, token, plain=False)) if ours else asked(url, token)


def asked(url: str, token: str | None) -> Capability:
    """What the server at `url` can do, by its routes; a plain one with tools where they cannot be asked.

    InvalidArgument when it speaks a newer protocol of ours.
    """
    try:
        health = rest.get(endpoint(url, "health"), token=token, timeout_s=rest.HEALTH_TIMEOUT_S)
        spoken = str(health.get("protocol")) if isinstance(health, dict) else ""
        schema = None if spoken.startswith(_FAMILY) else rest.get(endpoint(url, "schema"), token=token)
    except MiroirError:
        return Capability(url, token, plain=True)
    if spoken.startswith(_FAMILY):
        if spoken != PROTOCOL:
            raise InvalidArgument(f"{url} speaks {spoken}, and this miroir {PROTOCOL}; update the older of them")
        return _kept(url, Capability(url, token, plain=False))
    action = schema.get("action") if isinstance(schema, dict) else None
    properties = action.get("properties") if isinstance(action, dict) else None
    own = isinstance(properties, dict) and bool(properties.keys() - _ANY_ACTIONS) and "tool_name" not in properties
    return _kept(url, Capability(url, token, plain=True, actions=action if own else None))


def _kept(url: str, learnt: Capability) -> Capability:
    with _lock:
        _known[url] = learnt
    return learnt


def speaks_ours(greeting: Mapping[str, Any]) -> bool:
    """Whether a server's first answer to `state` has what only our protocol has."""
    data = greeting.get("data")
    return isinstance(data, dict) and "wanted_s" in data


def reaped(observation: Mapping[str, Any]) -> bool:
    """Whether the world behind the session is gone: its server gave it up for idle, and left the connection open."""
    error = observation.get("error")
    said = str(error.get("message")).lower() if isinstance(error, dict) else ""
    return any(words in said for words in CLOSED)


def cut(observation: Mapping[str, Any]) -> str:
    """Why the server itself broke off a tool call, "" where it did not: that is no mistake of a model."""
    error = observation.get("error")
    if not isinstance(error, dict) or error.get("error_type") not in CUT:
        return ""
    return f"the server broke off the call: {error.get('message')}"


def _flaws(action: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterable[str]:
    properties, required = schema["properties"], schema.get("required")
    for name in required if isinstance(required, list) else ():
        if name not in action:
            yield f"{name} is missing"
    for name, value in action.items():
        known = properties.get(name)
        if known is None:
            if schema.get("additionalProperties") is False:
                yield f"{name} is unknown; there are {', '.join(properties)}"
        elif isinstance(known, dict) and not _fits(value, known):
            yield f"{name} is {value!r:.100}; it must be {known.get('const', known.get('enum', known.get('type')))}"


def _fits(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether the value is what the schema says directly; references and combinations are the server's to judge."""
    if "const" in schema and value != schema["const"]:
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    kind = schema.get("type")
    if not isinstance(kind, str) or kind not in _TYPES:
        return True
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES[kind]) or (kind == "integer" and isinstance(value, float) and value.is_integer())
