"""The hold on one container, in which episodes are played one after another."""

from .session import Graded, Session

__all__ = ["Graded", "Session"]
