"""A rule of the protocol: what it says, what a server without it lacks, and the test of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..wire import UNKNOWN_TYPE
from .subject import Subject


class Broken(Exception):
    """The server did not do what the rule says; the text says what was wanted."""


class NotOffered(Exception):
    """The server does not have what the rule is about; the text says what that costs."""


class NotReached(Exception):
    """The rule could not be tested; the text says why."""


@dataclass(frozen=True)
class Rule:
    """One rule. `without` says what a server costs that lacks it; `ours`: it is no part of OpenEnv's protocol."""

    name: str
    says: str
    test: Callable[[Subject], None]
    without: str
    ours: bool


def rule(says: str, without: str = "", *, ours: bool = False) -> Callable[[Callable[[Subject], None]], Rule]:
    """Make a rule of the function that tests it."""
    return lambda test: Rule(test.__name__.replace("_", "-"), says, test, without, ours)


def require(met: object, wanted: str) -> None:
    """Broken, with what was wanted, unless it is met."""
    if not met:
        raise Broken(wanted)


def require_keys(found: Any, wanted: Mapping[str, type | tuple[type, ...]], where: str) -> None:
    """Broken unless `found` is an object with these keys, each of such a type."""
    require(isinstance(found, dict), f"{where}: a JSON object")
    for key, kind in wanted.items():
        kinds = kind if isinstance(kind, tuple) else (kind,)
        right = isinstance(found.get(key), kinds) and (bool in kinds or not isinstance(found.get(key), bool))
        names = " or ".join("null" if each is type(None) else each.__name__ for each in kinds)
        require(key in found and right, f"{where}: {key} as {names}")


def data_of(subject: Subject, reply: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The data of a reply of that type; NotOffered where a plain server does not know the request."""
    data = reply.get("data")
    if subject.plain and code_of(reply) == UNKNOWN_TYPE:
        raise NotOffered
    require(reply.get("type") == kind and isinstance(data, dict), f"a frame of type {kind!r} with data")
    assert isinstance(data, dict)
    return data


def code_of(reply: Mapping[str, Any]) -> str | None:
    """The code of an error frame; None when it is none."""
    data = reply.get("data")
    return data.get("code") if reply.get("type") == "error" and isinstance(data, dict) else None


def require_error(reply: Mapping[str, Any], code: str, what: str) -> dict[str, Any]:
    """The data of an error frame of that code, which `what` must be answered by."""
    require(code_of(reply) == code, f"the error {code} for {what}")
    data: dict[str, Any] = reply["data"]
    require(isinstance(data.get("message"), str) and data["message"], f"a message in the error for {what}")
    return data
