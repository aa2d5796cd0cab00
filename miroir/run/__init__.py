"""Many episodes over a fleet: threads or workers, progress, resume."""

from .report import Progress, Report
from .rollouts import run

__all__ = ["Progress", "Report", "run"]
