"""A server's record, held to what a grade is before anybody counts it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import wire
from .journal import UNGRADED, is_finite

_METADATA = {"task_hash": str, "success": bool, "harm": bool, "ended_by": str}
_REWARDS = (int, float, type(None))
_OPTIONAL = {"split": str, "diagnostics": dict, "timings": dict, "steps": list}  # or null


def flaw(record: Mapping[str, Any], episode_id: str, task_id: str) -> str | None:
    """Why this is not the record of the episode, to be read after "a record"; None where it is."""
    metadata = record.get("metadata")
    if not isinstance(metadata, dict):
        return "without metadata"
    schema = record.get("schema", wire.RECORD_SCHEMA)
    if schema != wire.RECORD_SCHEMA:
        return f"of schema {schema!r:.60}, where this miroir knows {wire.RECORD_SCHEMA}"
    for key, played in (("episode_id", episode_id), ("task_id", task_id)):
        if record.get(key) != played:
            return f"whose {key} is {record.get(key)!r:.60}, where {played} was played"
    for name, kind in _METADATA.items():
        if type(metadata.get(name)) is not kind:
            return f"whose metadata.{name} is {metadata.get(name)!r:.60}"
    if "reward" not in record or type(record["reward"]) not in _REWARDS:
        return f"whose reward is {record.get('reward', 'missing')!r:.60}"
    for name, kind in _OPTIONAL.items():
        if not isinstance(record.get(name), kind | None):
            return f"whose {name} is {record[name]!r:.60}"
    return None


def settled(record: dict[str, Any]) -> dict[str, Any]:
    """The record itself, or where its reward is no finite number a void one; what is void is no success."""
    metadata = record["metadata"]
    if is_finite(record["reward"]):
        return record
    void = {"success": False, "void_reason": metadata.get("void_reason") or UNGRADED}
    return {**record, "reward": None, "metadata": {**metadata, **void}}
