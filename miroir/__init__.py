"""Lease environment containers, run episodes in them, and turn the graded records into training data."""

import logging

from .catalog import answering, prompt, tasks, tools
from .deadlines import Deadlines
from .errors import (
    ConnectionFailed,
    ConnectionLost,
    EnvError,
    HttpError,
    InvalidArgument,
    MiroirError,
    NoEpisode,
    NoFreeContainer,
    NotGraded,
    StepTimeout,
    ToolsError,
    UrlFileError,
)
from .fleet import Fleet
from .session import Session
from .urls import read_urls

__all__ = [
    "ConnectionFailed",
    "ConnectionLost",
    "Deadlines",
    "EnvError",
    "Fleet",
    "HttpError",
    "InvalidArgument",
    "MiroirError",
    "NoEpisode",
    "NoFreeContainer",
    "NotGraded",
    "Session",
    "StepTimeout",
    "ToolsError",
    "UrlFileError",
    "answering",
    "prompt",
    "read_urls",
    "tasks",
    "tools",
]

logging.getLogger(__name__).addHandler(logging.NullHandler())
