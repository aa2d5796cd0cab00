"""A session: the hold on one container, in which episodes are played one after another."""

from __future__ import annotations

import os
import threading
import time
import uuid
import warnings
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, NotRequired, Self, TypedDict, cast

from . import wire
from .broker import Lease, shared
from .deadlines import Deadlines
from .errors import ConnectionLost, EnvError, InvalidArgument, MiroirError, NoEpisode, NotGraded, StepTimeout
from .transport import LinkClosed, LinkTimeout
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
        self._deadlines: Deadlines = lease.broker.deadlines
        self._pid = os.getpid()
        self._calls = threading.RLock()  # one call at a time
        self._closing = threading.Lock()  # guards _closed
        self._closed = False
        self._broken: MiroirError | None = None
        self._dirty = False
        self.episode_id: str | None = None
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
        self.episode_id = None
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
        with self._calls:
            self._forget()
            self._dirty = True  # from here on a world is in use, until the episode is known to be over
            episode_id = uuid.uuid4().hex
            data = {"task_id": task_id, "episode_id": episode_id, "coworkers": coworkers, **options}
            if max_seconds is not None:
                data["max_seconds"] = max_seconds
            reply = self._exchange({"type": "reset", "data": data}, self._deadlines.reset_s, "observation")
            observation = _object(reply.get("observation"))
            self.episode_id = episode_id
            self._done = bool(reply.get("done"))
            self._max_seconds = max_seconds
            self._started_at = datetime.now(UTC)
            self._began = time.monotonic()
            return observation

    def step(self, tool: str, arguments: dict[str, Any], *, timeout_s: float | None = None) -> wire.Step:
        """Call a tool; its observation, the reward so far (None: none yet) and whether the episode is over."""
        action = {"type": "call_tool", "tool_name": tool, "arguments": arguments}
        return self._act(action, {"tool": tool, "arguments": arguments}, timeout_s)

    def act(self, action: dict[str, Any], *, timeout_s: float | None = None) -> wire.Step:
        """Send a raw action, for a server whose actions are not tool calls."""
        return self._act(action, {"action": action}, timeout_s)

    def _act(self, action: dict[str, Any], entry: dict[str, Any], timeout_s: float | None) -> wire.Step:
        with self._calls:
            self._need_episode()
            # The action type of a plain server may have no metadata; only ours is held to its episode's id.
            frame = action if "action" in entry else {**action, "metadata": {"episode_id": self.episode_id}}
            at = time.monotonic()
            reply = self._exchange({"type": "step", "data": frame}, self._step_limit(timeout_s), "observation")
            observation = _object(reply.get("observation"))
            self._done = self._done or bool(reply.get("done"))
            step: wire.Step = {
                "observation": observation,
                "reward": reply.get("reward"),
                "done": bool(reply.get("done")),
            }
            seen = {
                **entry,
                "result": wire.result_of(observation),
                "error": observation.get("error"),
                "reward": step["reward"],
                "done": step["done"],
                "at_s": round(at - self._began, 6),
                "seconds": round(time.monotonic() - at, 6),
            }
            self._steps.append(cast("StepEntry", seen))
            return step

    def coworker_turns(self) -> list[wire.CoworkerTurn]:
        """Who owes a reply now, each with the chat to answer; none where the server has no coworkers."""
        with self._calls:
            self._need_episode()
            try:
                reply = self._exchange({"type": "coworkers"}, self._step_limit(None), "coworkers")
            except EnvError as error:
                if error.code == wire.UNKNOWN_TYPE:
                    return []
                raise
            turns = reply.get("turns")
            return cast("list[wire.CoworkerTurn]", turns) if isinstance(turns, list) else []

    def coworker_reply(self, coworker: str, text: str) -> int | None:
        """Deliver a coworker's reply; the HTTP status with which the world took it."""
        with self._calls:
            self._need_episode()
            frame = {"type": "coworker_reply", "data": {"coworker": coworker, "text": text}}
            status = self._exchange(frame, self._step_limit(None), "coworker_reply").get("status")
            return status if isinstance(status, int) else None

    def state(self) -> dict[str, Any]:
        """What the server says of the session: episode, step count, whether it is done; keys may be missing."""
        with self._calls:
            return self._exchange({"type": "state"}, self._step_limit(None), "state")

    def finish(self) -> Graded:
        """Submit the episode if it still runs, and return its grade and record; again and again, the same one."""
        with self._calls:
            self._need_episode()
            if self._graded is None:
                if not self._done:
                    self._submit()
                data = {"episode_id": self.episode_id}
                record = cast(
                    "wire.Record", self._exchange({"type": "record", "data": data}, self._deadlines.finish_s, "record")
                )
                metadata = record.get("metadata")
                if not isinstance(metadata, dict):
                    raise NotGraded(f"{self.url} answered a record without metadata; run `miroir check` on it")
                self._graded = {
                    "reward": record.get("reward"),
                    "success": bool(metadata.get("success")),
                    "metadata": metadata,
                    "record": record,
                }
            return self._graded

    def _submit(self) -> None:
        try:
            self.step(SUBMIT, {}, timeout_s=self._deadlines.finish_s)
        except EnvError as error:
            if not self._done and not self.state().get("done"):
                raise NotGraded(f"{self.url} did not end the episode at submit: {error}") from error
            self._done = True
        if not self._done:
            raise NotGraded(f"{self.url} did not end the episode at submit; its `submit` must answer done")

    def close(self, *, fault: str = "") -> None:
        """Free the container; a call that is running in another thread is woken and raises.

        `fault` says why this container should not be leased again for a while.
        """
        with self._closing:
            if self._closed or self._pid != os.getpid():
                return
            self._closed = True
        idle = self._calls.acquire(blocking=False)
        try:
            if self._broken is None:
                self._broken = ConnectionLost(
                    f"the session on {self.url} was closed; lease another", url=self.url, episode_id=self.episode_id
                )
                lost = not idle
            else:
                lost = True
            if not idle:
                self._lease.transport.close()
            reusable = idle and not lost and (self._done or not self._dirty)
            self._lease.broker.release(self._lease, reusable=reusable, free=not lost, fault=fault)
        finally:
            if idle:
                self._calls.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else "broken" if self._broken else f"episode {self.episode_id}"
        return f"<miroir.Session {self.url} {state}>"

    def __del__(self) -> None:
        if getattr(self, "_closed", True) or self._pid != os.getpid():
            return
        self._closed = True
        self._lease.broker.drop(self._lease)
        warnings.warn(f"{self!r} was dropped without close()", ResourceWarning, source=self, stacklevel=2)

    def _need_episode(self) -> None:
        if self._broken is not None:
            raise self._broken
        if self.episode_id is None:
            raise NoEpisode("there is no episode; call reset(task_id) first")

    def _step_limit(self, timeout_s: float | None) -> float:
        if timeout_s is not None:
            return timeout_s
        if self._max_seconds is not None:
            return self._max_seconds + self._deadlines.step_margin_s
        return self._deadlines.step_s

    def _exchange(self, frame: dict[str, Any], timeout_s: float, expected: str) -> dict[str, Any]:
        """The data of the reply of type `expected`; an error frame becomes an EnvError."""
        if self._broken is not None:
            raise self._broken
        if self._pid != os.getpid():
            raise ConnectionLost(f"the session on {self.url} belongs to the process that leased it; lease one here")
        try:
            reply = self._lease.transport.exchange(frame, timeout_s)
        except LinkTimeout as error:
            message = f"{self._where()}: {error}; the session is broken, lease another"
            raise self._break(StepTimeout(message, url=self.url, timeout_s=timeout_s)) from error
        except LinkClosed as error:
            raise self._break(self._lost(str(error))) from error
        except InvalidArgument:
            raise  # found before anything was sent
        except BaseException:
            self._break(self._lost("a call was interrupted while its reply was owed"))
            raise
        data = reply.get("data")
        if reply.get("type") == expected and isinstance(data, dict):
            return cast("dict[str, Any]", data)
        if reply.get("type") != "error" or not isinstance(data, dict):
            raise self._desynchronised(reply, expected)
        raise self._env_error(data)

    def _env_error(self, data: dict[str, Any]) -> MiroirError:
        code, errors = str(data.get("code") or wire.SESSION_ERROR), data.get("errors")
        if code in (wire.EXECUTION_ERROR, wire.EPISODE_OVER) and self.episode_id is not None:
            self._done = True
        details = f" ({wire.encode(errors)[:2000]})" if errors else ""
        message = f"{self._where()}: {data.get('message') or 'no message'}{details}"
        error = EnvError(code, message, errors=errors if isinstance(errors, list) else None, url=self.url)
        if code in wire.CLOSING_CODES:
            self._lease.transport.abort(f"the server ended the session: {code}")
            return self._break(self._lost(f"the server ended the session with {code}: {data.get('message')}"))
        return error

    def _desynchronised(self, reply: dict[str, Any], expected: str) -> MiroirError:
        why = f"it answered a frame of type {reply.get('type')!r} where {expected!r} was owed"
        self._lease.transport.abort(why)
        return self._break(self._lost(why))

    def _break(self, error: MiroirError) -> MiroirError:
        if self._broken is None:
            self._broken = error
        return self._broken

    def _where(self) -> str:
        return f"{self.url}, episode {self.episode_id}, step {len(self._steps)}"

    def _lost(self, why: str) -> ConnectionLost:
        return ConnectionLost(
            f"{self._where()}: {why}; the episode is void, lease another session",
            url=self.url,
            episode_id=self.episode_id,
            step=len(self._steps),
        )


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {} if value is None else {"result": value}
