"""Trace files: records as JSON lines, saved one write each."""

from .importers import KINDS, convert
from .reader import Report, load
from .schema import metrics, required
from .writer import save_record

__all__ = ["KINDS", "Report", "convert", "load", "metrics", "required", "save_record"]
