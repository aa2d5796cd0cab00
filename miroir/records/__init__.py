"""Trace files: records as JSON lines, saved one write each."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .schema import metrics, required
from .writer import save_record, writable

if TYPE_CHECKING:
    from .importers import KINDS, convert
    from .reader import Report, load

__all__ = ["KINDS", "Report", "convert", "load", "metrics", "required", "save_record", "writable"]

_READING = {"KINDS": "importers", "Report": "reader", "convert": "importers", "load": "reader"}


def __getattr__(name: str) -> Any:
    """What reads records is imported when it is asked for: who plays episodes saves them alone."""
    if name not in _READING:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_READING[name]}", __name__), name)
