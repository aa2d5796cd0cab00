"""Reading records that may be of any shape: what is not of the expected type counts as absent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def mapping(value: Any) -> Mapping[str, Any]:
    """The value where it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def rows(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list; empty where it is none."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def text(value: Any) -> str:
    """The value where it is a string, else empty."""
    return value if isinstance(value, str) else ""


def number(value: Any) -> float | None:
    """The value where it is a number, else None."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def count(value: Any) -> int:
    """The value where it is an integer, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
