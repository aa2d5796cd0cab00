"""What a record is: its version, the keys that tools need, and the numbers in it.

A record is one graded episode, a JSON object; its text is in `miroir/serve/PROTOCOL.md`, its shape `wire.Record`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def metrics(record: Mapping[str, Any]) -> dict[str, float]:
    """The record's numbers by name: success and harm (1.0 or 0.0), every diagnostic, episode_s in seconds."""
    metadata = record.get("metadata") or {}
    named = {**(record.get("diagnostics") or {}), "episode_s": (record.get("timings") or {}).get("episode_s")}
    numbers = {name: float(value) for name, value in named.items() if isinstance(value, int | float)}
    return {"success": float(bool(metadata.get("success"))), "harm": float(bool(metadata.get("harm"))), **numbers}


def voided(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The record itself, or a void copy of it where the reward is NaN or infinite."""
    reward = record.get("reward")
    if not isinstance(reward, float) or math.isfinite(reward):
        return record
    reason = f"the reward was {reward}, which is not a finite number"
    metadata = {**(record.get("metadata") or {}), "success": False, "void_reason": reason}
    return {**record, "reward": None, "metadata": metadata}


def not_finite(value: Any, at: str = "") -> str | None:
    """Where in a JSON value the first NaN or infinite number is (`steps[3].seconds`), or None."""
    if isinstance(value, float):
        return None if math.isfinite(value) else at
    if isinstance(value, Mapping):
        places = (not_finite(item, f"{at}.{key}" if at else str(key)) for key, item in value.items())
    elif isinstance(value, list | tuple):
        places = (not_finite(item, f"{at}[{index}]") for index, item in enumerate(value))
    else:
        return None
    return next((place for place in places if place is not None), None)
