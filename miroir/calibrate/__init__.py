"""Calibration: which tasks are worth training on, and how sure that is, from the records of rollouts."""

from ..stats import pass_at, pass_hat
from .build import calibrate, run_calibrate
from .comparison import compare, comparison_lines
from .entries import CLASSES, classify, entry
from .file import calibrated, read_calibration, write_calibration
from .gates import failures, parse_gate
from .names import named
from .tables import comma_separated, markdown, overview, suite_lines, summary, table
from .tallies import Tally, tally

__all__ = [
    "CLASSES",
    "Tally",
    "calibrate",
    "calibrated",
    "classify",
    "comma_separated",
    "compare",
    "comparison_lines",
    "entry",
    "failures",
    "markdown",
    "named",
    "overview",
    "parse_gate",
    "pass_at",
    "pass_hat",
    "read_calibration",
    "run_calibrate",
    "suite_lines",
    "summary",
    "table",
    "tally",
    "write_calibration",
]
