"""A session on one AppWorld task: its world is opened, code runs in it, it is scored, and it is closed."""

from __future__ import annotations

import contextlib
import copy
import logging
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import AppWorldError
from .score import TaskScore
from .server import Refused, Server, TooLong, Unreadable

HTTP_MARGIN_S = 30.0  # beyond the code's own time limit: for serialising, and for the first world of a process
CLOSE_TIMEOUT_S = 30.0
_LOST_CLOSE_TIMEOUT_S = 2.0  # to a server that has left a call unanswered
_OPENED = ("instruction", "supervisor", "datetime")

_log = logging.getLogger("miroir.appworld")


@dataclass(frozen=True)
class Settings:
    """How worlds are opened: the parameters of `/initialize` beside the task and the experiment's name.

    Each switch that changes what an agent meets is sent, at 0.1.3's default too, so that no newer default changes it.
    `ground_truth_mode` cannot be: 0.1.3 refuses its own values. `extra` overrides.
    """

    experiment_name: str = "miroir"
    max_interactions: int = 40
    execution_timeout_s: float = 100
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def timeout_s(self) -> float:
        """The deadline of a call, which outlasts the server's own time limit for code."""
        return self.execution_timeout_s + HTTP_MARGIN_S

    def init_params(self) -> dict[str, Any]:
        """The parameters; the random seed is the task's own, and follows no other."""
        return {
            "max_interactions": self.max_interactions,
            "max_api_calls_per_interaction": 1000,
            "raise_on_unsafe_syntax": True,
            "null_patch_unsafe_execution": True,
            "load_ground_truth": True,
            "raise_on_failure": True,
            "random_seed": 100,
            "timeout_seconds": self.execution_timeout_s,
            "show_api_response_schemas": True,
            "gc_threshold": 500_000,
            **self.extra,
        }


class AppWorldSession:
    """An open world; `AppWorldPool.session` makes it, and closes it. One call at a time."""

    def __init__(self, server: Server, task_id: str, settings: Settings) -> None:
        self.task_id = task_id
        # Two worlds of one name and task would overwrite each other's files.
        self.experiment_name = f"{settings.experiment_name}-{uuid.uuid4().hex[:12]}"
        self.instruction = ""
        self.datetime = ""
        self.n_executions = 0
        self._supervisor: dict[str, Any] = {}
        self._server = server
        self._settings = settings
        self._refused = False  # whether the server has said that it opened no world
        self._closed = False

    def __repr__(self) -> str:
        return f"AppWorldSession({self.task_id!r} at {self.base_url}{', closed' if self._closed else ''})"

    @property
    def base_url(self) -> str:
        """The base URL of the server that holds the world."""
        return self._server.base_url

    @property
    def supervisor(self) -> dict[str, Any]:
        """Whom the agent works for: first_name, last_name, email, phone_number; a copy each time."""
        return copy.deepcopy(self._supervisor)

    def execute(self, code: str) -> str:
        """What the code prints, or its error as text; AppWorldError only when the server fails.

        The interpreter keeps its state between calls.
        """
        try:
            output = self._call("/execute", {"code": code})
        except TooLong as error:  # the code's own doing, and the world is well
            output = f"Execution finished, but its output was dropped: {error.message}."
        self.n_executions += 1
        if not isinstance(output, str):
            raise self._unreadable("/execute", f"a {type(output).__name__} as output, not text")
        return output

    def is_done(self) -> bool:
        """Whether the code has called `complete_task`."""
        return bool(self._call("/task_completed", {}))

    def evaluate(self) -> TaskScore:
        """The world's score as it stands; AppWorldError when it cannot be read, never a failed score for that."""
        detail = self._call("/evaluate", {"suppress_errors": True, "report": False})
        if not isinstance(detail, dict):
            raise self._unreadable("/evaluate", f"a {type(detail).__name__} as output, not an object")
        return TaskScore.read(self.task_id, self.n_executions, detail)

    def close(self) -> None:
        """Close the world; a failure is logged, and the server is then given to nobody. May be called again."""
        if self._closed:
            return
        timeout_s = CLOSE_TIMEOUT_S if self._server.fault is None else _LOST_CLOSE_TIMEOUT_S
        try:
            self._call("/close", {}, timeout_s=timeout_s)
        except AppWorldError as error:
            if self._refused and isinstance(error, Refused):
                return
            self._server.blame(f"/close failed, so that its world of {self.task_id} may still be open")
            _log.error("the world of %s at %s was not closed: %s", self.task_id, self.base_url, error.message)
        finally:
            self._closed = True

    def _open(self) -> None:
        """Open the world; AppWorldError when that fails."""
        try:
            opened = self._call(
                "/initialize", {"experiment_name": self.experiment_name, **self._settings.init_params()}
            )
        except Refused as error:
            self._refused = True
            if error.status >= 500 and self._server.shows(self.task_id):
                # A server that knows the task and cannot start its world will start no other one either.
                self._server.blame(f"/initialize answered {error.status} for {self.task_id}, which it can load")
            raise
        missing = [key for key in _OPENED if not isinstance(opened, dict) or key not in opened]
        if missing:
            found = ", ".join(sorted(opened)) if isinstance(opened, dict) else f"a {type(opened).__name__}"
            raise self._unreadable(
                "/initialize", f"no {missing[0]} for the task {self.task_id} but {found or 'nothing'}"
            )
        self.instruction, self._supervisor, self.datetime = (opened[key] for key in _OPENED)

    def _call(self, path: str, body: dict[str, Any], *, timeout_s: float | None = None) -> Any:
        if self._closed:
            raise AppWorldError(f"the session on {self.task_id} is closed; open another by pool.session(task_id)")
        return self._server.call(path, {"task_id": self.task_id, **body}, timeout_s=timeout_s)

    def _unreadable(self, path: str, what: str) -> AppWorldError:
        self._server.blame(f"{path} answered {what}")
        return Unreadable(f"{path} answered {what}; is {self.base_url} an AppWorld server of version 0.1.3 or later?")


@contextlib.contextmanager
def opened(server: Server, task_id: str, settings: Settings) -> Iterator[AppWorldSession]:
    """A session on the task; a `/close` is sent at the end, also when its world never opened whole."""
    session = AppWorldSession(server, task_id, settings)
    try:
        session._open()
        yield session
    finally:
        session.close()
