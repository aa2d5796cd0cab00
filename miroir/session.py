"""A session: the hold on one container, in which episodes are played one after another."""

from __future__ import annotations

import threading
import time
import uuid
import warnings
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, NotRequired, Self, TypedDict, cast

from . import wire
from .broker import shared
from .deadlines import Deadlines
from .dialogue import Dialogue
from .errors import EnvError, NoEpisode, NotGraded
from .lease import Lease
from .urls import Urls

SUBMIT = "submit"


class Graded(TypedDict):
    """What `finish` returns; `reward` is None for an episode that is void."""

    reward: float | None
    success: bool
    metadata: wire.Metadata
    record: wire.Record


class StepEntry(TypedDict):
    """One step as a record lists it; times in seconds, `at_s` since the episode's start."""

    tool: NotRequired[str]
    arguments: NotRequired[dict[str, Any]]
    action: NotRequired[dict[str, Any]]
    result: Any
    error: dict[str, Any] | None
    reward: float | None
    done: bool
    at_s: float
    seconds: float


class Session:
    """A hold on one container, from `lease` to `close`; used by one thread at a time, further calls queue.

    A call that loses the connection raises ConnectionLost, one whose reply is late StepTimeout; either breaks the
    session, and every later call raises the same error. Its episode is void: a step is never sent twice.
    """

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._deadlines: Deadlines = lease.giver.deadlines
        self._dialogue = Dialogue(lease.transport)
        self._closing = threading.Lock()  # guards _closed
        self._closed = False
        self._dirty = False  # a world is or was in use, and may not be over
        self._forget()

    @classmethod
    def lease(
        cls,
        urls: Urls,
        token: str | None = None,
        *,
        wait_busy: bool = True,
        timeout_s: float = 600.0,
        deadlines: Deadlines | None = None,
    ) -> Self:
        """Open a session on a free, healthy container among `urls`.

        `urls` is a list of base URLs, a path of a URL file, or `dns://name:port`. Waits until `timeout_s` seconds are
        over, then raises NoFreeContainer; with `wait_busy` false, at once when none is free.
        """
        return cls(shared(urls, token, deadlines or Deadlines()).lease(wait_busy=wait_busy, timeout_s=timeout_s))

    @property
    def url(self) -> str:
        """The base URL of the container, as it was given."""
        return self._lease.url

    @property
    def episode_id(self) -> str | None:
        """The episode's id, from a reset that succeeded to the next reset; else None."""
        return self._dialogue.episode_id

    @property
    def closed(self) -> bool:
        """Whether the container has been given back."""
        return self._closed

    @property
    def done(self) -> bool:
        """Whether the episode is over."""
        return self._done

    @property
    def steps(self) -> list[StepEntry]:
        """The steps of the episode as this client saw them."""
        return self._steps

    @property
    def started_at(self) -> datetime | None:
        """When the episode began, in UTC."""
        return self._started_at

    @property
    def max_seconds(self) -> int | None:
        """The episode's limit in seconds, where it has one."""
        return self._max_seconds

    def _forget(self) -> None:
        self._dialogue.episode_id, self._dialogue.step = None, 0
        self._done = False
        self._steps: list[StepEntry] = []
        self._started_at: datetime | None = None
        self._began = 0.0
        self._max_seconds: int | None = None
        self._graded: Graded | None = None

    def reset(
        self, task_id: str, max_seconds: int | None = None, coworkers: bool = False, **options: Any
    ) -> dict[str, Any]:
        """Begin an episode of the task and return its first observation; an episode that still runs is abandoned.

        `max_seconds` ends the episode; `coworkers` says that their turns will be answered by this client;
        `options` go to the environment (`surface`, `seed`, and what it knows besides).
        """
        with self._dialogue.call():
            self._forget()
            self._dirty = True
            episode_id = uuid.uuid4().hex
            sent = {**options, "task_id": task_id, "max_seconds": max_seconds, "coworkers": coworkers}
            data = {name: value for name, value in sent.items() if value is not None} | {"episode_id": episode_id}
            reply = self._dialogue.ask({"type": "reset", "data": data}, "observation", self._deadlines.reset_s)
            self._dialogue.episode_id = episode_id
            self._done = bool(reply.get("done"))
            self._max_seconds = max_seconds
            self._started_at = datetime.now(UTC)
            self._began = time.monotonic()
            return _object(reply.get("observation"))

    def step(self, tool: str, arguments: dict[str, Any], *, timeout_s: float | None = None) -> wire.Step:
        """Call a tool; its observation, the reward so far (None: none yet) and whether the episode is over."""
        action = {"type": "call_tool", "tool_name": tool, "arguments": arguments}
        return self._act(action, {"tool": tool, "arguments": arguments}, timeout_s)

    def act(self, action: dict[str, Any], *, timeout_s: float | None = None) -> wire.Step:
        """Send a raw action, for a server whose actions are not tool calls."""
        return self._act(action, {"action": action}, timeout_s)

    def _act(self, action: dict[str, Any], entry: dict[str, Any], timeout_s: float | None) -> wire.Step:
        with self._dialogue.call():
            self._need_episode()
            return self._do(action, entry, timeout_s)

    def _do(self, action: dict[str, Any], entry: dict[str, Any], timeout_s: float | None) -> wire.Step:
        # The action type of a plain server may have no metadata; only ours is held to its episode's id.
        frame = action if "action" in entry else {**action, "metadata": {"episode_id": self.episode_id}}
        at = time.monotonic()
        try:
            reply = self._dialogue.ask({"type": "step", "data": frame}, "observation", self._step_limit(timeout_s))
        except EnvError as error:
            self._done = self._done or error.code in (wire.EXECUTION_ERROR, wire.EPISODE_OVER)
            raise
        done, observation = bool(reply.get("done")), _object(reply.get("observation"))
        self._done = self._done or done
        seen = {
            **entry,
            "result": wire.result_of(observation),
            "error": observation.get("error"),
            "reward": reply.get("reward"),
            "done": done,
            "at_s": round(at - self._began, 6),
            "seconds": round(time.monotonic() - at, 6),
        }
        self._steps.append(cast("StepEntry", seen))
        self._dialogue.step = len(self._steps)
        return {"observation": observation, "reward": reply.get("reward"), "done": done}

    def coworker_turns(self) -> list[wire.CoworkerTurn]:
        """Who owes a reply now, each with the chat to answer; none where the server has no coworkers."""
        with self._dialogue.call():
            self._need_episode()
            try:
                reply = self._dialogue.ask({"type": "coworkers"}, "coworkers", self._step_limit(None))
            except EnvError as error:
                if error.code == wire.UNKNOWN_TYPE:
                    return []
                raise
            turns = reply.get("turns")
            return cast("list[wire.CoworkerTurn]", turns) if isinstance(turns, list) else []

    def coworker_reply(self, coworker: str, text: str) -> int | None:
        """Deliver a coworker's reply; the HTTP status with which the world took it."""
        with self._dialogue.call():
            self._need_episode()
            frame = {"type": "coworker_reply", "data": {"coworker": coworker, "text": text}}
            status = self._dialogue.ask(frame, "coworker_reply", self._step_limit(None)).get("status")
            return status if isinstance(status, int) else None

    def state(self) -> dict[str, Any]:
        """What the server says of the session: episode, step count, whether it is done; keys may be missing."""
        with self._dialogue.call():
            return self._state()

    def _state(self) -> dict[str, Any]:
        return self._dialogue.ask({"type": "state"}, "state", self._step_limit(None))

    def finish(self) -> Graded:
        """Submit the episode if it still runs, and return its grade and record; again and again, the same one."""
        with self._dialogue.call():
            if self._graded is None:
                self._need_episode()
                if not self._done:
                    self._submit()
                self._graded = self._fetch_record()
            return self._graded

    def _submit(self) -> None:
        """End the episode; NotGraded when it is not over then."""
        said = "its `submit` must answer done"
        try:
            action = {"type": "call_tool", "tool_name": SUBMIT, "arguments": {}}
            self._do(action, {"tool": SUBMIT, "arguments": {}}, self._deadlines.finish_s)
        except EnvError as error:
            said = str(error)
        self._done = self._done or bool(self._state().get("done"))
        if not self._done:
            raise NotGraded(f"{self._dialogue.where()}: the episode did not end at submit: {said}")

    def _fetch_record(self) -> Graded:
        frame = {"type": "record", "data": {"episode_id": self.episode_id}}
        record = cast("wire.Record", self._dialogue.ask(frame, "record", self._deadlines.finish_s))
        metadata = record.get("metadata")
        if not isinstance(metadata, dict):
            raise NotGraded(f"{self.url} answered a record without metadata; run `miroir check` on it")
        return {
            "reward": record.get("reward"),
            "success": bool(metadata.get("success")),
            "metadata": metadata,
            "record": record,
        }

    def close(self, *, fault: str = "") -> None:
        """Free the container; a call that is running in another thread is woken and raises.

        `fault` says why this container should not be leased again for a while.
        """
        if self._dialogue.inherited:
            return
        with self._closing:
            if self._closed:
                return
            self._closed = True
        idle, sound = self._dialogue.close()
        over = self._done or not self._dirty
        self._lease.release(reusable=idle and sound and over, free=idle and sound, fault=fault)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else "broken" if self._dialogue.ended else f"episode {self.episode_id}"
        return f"<miroir.Session {self.url} {state}>"

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and not self._dialogue.inherited:
            self._lease.forget()  # at once: whoever records the warning keeps this session
            warnings.warn(f"{self!r} was dropped without close()", ResourceWarning, source=self, stacklevel=2)

    def _need_episode(self) -> None:
        self._dialogue.check()
        if self.episode_id is None:
            raise NoEpisode("there is no episode; call reset(task_id) first")

    def _step_limit(self, timeout_s: float | None) -> float:
        if timeout_s is not None:
            return timeout_s
        if self._max_seconds is not None:
            return self._max_seconds + self._deadlines.step_margin_s
        return self._deadlines.step_s


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {} if value is None else {"result": value}
