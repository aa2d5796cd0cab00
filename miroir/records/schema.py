"""What a record is: its version, the keys that tools need, and the numbers in it.

A record is one graded episode, a JSON object; its text is in `miroir/serve/PROTOCOL.md`, its shape `wire.Record`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ..errors import RecordError
from ..wire import RECORD_SCHEMA
from .shape import mapping, text

Needs = list[tuple[str, str, bool, tuple[type, ...] | None]]  # dotted key, name, whether in metadata, and types

_MISSING = object()
_EMPTY: dict[str, Any] = {}
_NULL = type(None)
_TYPES: dict[str, tuple[type, ...]] = {
    "task_id": (str,),
    "reward": (float, int, _NULL),
    "metadata.task_hash": (str,),
    "metadata.success": (bool,),
    "metadata.harm": (bool,),
}
GRADE_KEYS = tuple(_TYPES)  # what tools need of a record that read its grade


def required(record: Mapping[str, Any], where: object, keys: Sequence[str]) -> None:
    """RecordError, naming `where`, unless the record has each of the dotted keys, of its type."""
    refuse_newer(record, where)
    reason = fault(record, needs(keys))
    if reason:
        raise RecordError(f"{where}: {reason}; is it a record of another tool or version?")


def needs(keys: Sequence[str]) -> Needs:
    """The dotted keys made ready for `fault`."""
    return [(key, key.rpartition(".")[2], key.startswith("metadata."), _TYPES.get(key)) for key in keys]


def fault(record: Mapping[str, Any], wanted: Needs) -> str | None:
    """Why this is no record of which a tool could use what it needs; None where it is one."""
    schema = record.get("schema", RECORD_SCHEMA)
    if type(schema) is not int:
        return f"not a record: its schema is {schema!r}"
    metadata = record.get("metadata", _EMPTY)
    if not isinstance(metadata, Mapping):
        return "not a record: its metadata is no object"
    for key, name, inside, types in wanted:
        value = (metadata if inside else record).get(name, _MISSING)
        if value is _MISSING:
            return f"not a record: it has no {key}"
        if types and type(value) not in types:
            return f"not a record: its {key} is {value!r:.60}"
    return None


def refuse_newer(record: Mapping[str, Any], where: object) -> None:
    """RecordError, naming `where`, for a record of a schema that this version cannot know."""
    schema = record.get("schema", RECORD_SCHEMA)
    if type(schema) is int and schema > RECORD_SCHEMA:
        raise RecordError(
            f"{where}: a record of schema {schema}, where this miroir reads up to {RECORD_SCHEMA}; upgrade miroir"
        )


def metrics(record: Mapping[str, Any]) -> dict[str, float]:
    """The record's numbers by name: success and harm (1.0 or 0.0), every diagnostic, episode_s in seconds."""
    metadata = record.get("metadata") or {}
    named = {**(record.get("diagnostics") or {}), "episode_s": (record.get("timings") or {}).get("episode_s")}
    numbers = {
        name: float(value) for name, value in named.items() if isinstance(value, int | float) and _is_finite(value)
    }
    return {"success": float(bool(metadata.get("success"))), "harm": float(bool(metadata.get("harm"))), **numbers}


def started(record: Mapping[str, Any]) -> str:
    """When the record's episode began, as text in UTC that sorts by time; "" where it does not say."""
    at = moment(record)
    return at.isoformat(timespec="microseconds") if at else ""


def moment(record: Mapping[str, Any]) -> datetime | None:
    """When the record's episode began, in UTC; None where it does not say."""
    try:
        at = datetime.fromisoformat(text(mapping(record.get("timings")).get("started_at")))
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def voided(record: dict[str, Any]) -> dict[str, Any]:
    """The record itself, or a void copy of it where the reward is NaN or infinite."""
    reward = record.get("reward")
    if not isinstance(reward, int | float) or _is_finite(reward):
        return record
    reason = f"the reward was {reward}, which is not a finite number"
    metadata = {**(record.get("metadata") or {}), "success": False, "void_reason": reason}
    return {**record, "reward": None, "metadata": metadata}


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # an integer beyond the floats
        return False


def not_finite(value: Any) -> str | None:
    """Where in a JSON value a NaN or infinite number is (`steps[3].seconds`), or None."""
    waiting = [("", value)]
    while waiting:
        at, one = waiting.pop()
        if isinstance(one, float):
            if not math.isfinite(one):
                return at
        elif isinstance(one, Mapping):
            waiting += ((f"{at}.{key}" if at else str(key), item) for key, item in one.items())
        elif isinstance(one, list | tuple):
            waiting += ((f"{at}[{index}]", item) for index, item in enumerate(one))
    return None
