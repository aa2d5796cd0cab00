"""Does a server keep the protocol? The authors' conformance check."""

from __future__ import annotations

from .conduct import LIMIT_S, RULES, check
from .findings import Finding, Outcome, Report

__all__ = ["LIMIT_S", "RULES", "Finding", "Outcome", "Report", "check"]
