"""Lease environment containers, run episodes in them, and turn the graded records into training data."""

import logging

from .catalog import answering, prompt, tasks, tools
from .coworkers import CoworkerModel, answer_coworkers, answerable
from .deadlines import Deadlines
from .errors import (
    ConnectionFailed,
    ConnectionLost,
    CoworkerFailed,
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
from .records import metrics, save_record
from .session import Session
from .urls import read_urls

__all__ = [
    "ConnectionFailed",
    "ConnectionLost",
    "CoworkerFailed",
    "CoworkerModel",
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
    "answer_coworkers",
    "answerable",
    "answering",
    "metrics",
    "prompt",
    "read_urls",
    "save_record",
    "tasks",
    "tools",
]

logging.getLogger(__name__).addHandler(logging.NullHandler())
