"""Serving an environment: what its author writes, and the server that keeps the protocol for it (PROTOCOL.md)."""

from __future__ import annotations

from .environment import (
    Check,
    Environment,
    Grade,
    Harm,
    InvalidOption,
    ToolError,
    ToolResult,
    UnknownCoworker,
    UnknownTask,
)
from .server import create_app, running, serve

__all__ = [
    "Check",
    "Environment",
    "Grade",
    "Harm",
    "InvalidOption",
    "ToolError",
    "ToolResult",
    "UnknownCoworker",
    "UnknownTask",
    "create_app",
    "running",
    "serve",
]
