"""Review: reading graded episodes, judging their grades, and noting what was found."""

from ..records import load
from .agreement import Agreement, agreement, agreement_lines
from .build import Settings, prepared, write_report
from .collection import Collection
from .console import Console
from .index import Facts
from .report import MAX_MB, Written, write
from .sample import STRATA, sample
from .server import ReviewServer
from .terminal import Screen

__all__ = [
    "MAX_MB",
    "STRATA",
    "Agreement",
    "Collection",
    "Console",
    "Facts",
    "ReviewServer",
    "Screen",
    "Settings",
    "Written",
    "agreement",
    "agreement_lines",
    "load",
    "prepared",
    "sample",
    "write",
    "write_report",
]
