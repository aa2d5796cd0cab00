"""Who gets which container next: pure, the clock and the dice come in."""

from .schedule import Outcome, Plan, Release, Schedule, refuses

__all__ = ["Outcome", "Plan", "Release", "Schedule", "refuses"]
