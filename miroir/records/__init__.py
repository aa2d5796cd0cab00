"""Trace files: records as JSON lines, saved one write each."""

from .save import save_record
from .schema import metrics

__all__ = ["metrics", "save_record"]
