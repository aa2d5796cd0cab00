"""Lease environment containers, run episodes in them, and turn the graded records into training data."""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

# A server, a pool and a command line that need no client load none: each name is loaded when it is first asked for.
_HOMES = {
    "catalog": ("answering", "prompt", "tasks", "tools"),
    "coworkers": ("CoworkerModel", "answer_coworkers", "answerable"),
    "deadlines": ("Deadlines",),
    "fleet": ("Fleet",),
    "records": ("metrics", "save_record"),
    "session": ("Session",),
    "urls": ("read_urls",),
    "errors": (),  # the rest
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return import_module(f".{name}", __name__)
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_HOME.get(name, 'errors')}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


logging.getLogger(__name__).addHandler(logging.NullHandler())
