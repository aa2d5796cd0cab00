"""A session: the hold on one container, in which episodes are played one after another."""

from __future__ import annotations

import threading
import time
import uuid
import warnings
from collections.abc import Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, NoReturn, Self, TypedDict, cast

from .. import wire
from ..broker import Canceller, shared
from ..broker.lease import Lease
from ..deadlines import Deadlines
from ..errors import CoworkerFailed, EnvError, InvalidArgument, NoEpisode, NotGraded
from ..urls import Urls
from . import capability, verdict
from .dialogue import Dialogue
from .journal import Journal, StepEntry, as_sent
from .keepalive import Keepalive


class Graded(TypedDict):
    """What `finish` returns; `reward` is None for an episode that is void."""

    reward: float | None
    success: bool
    metadata: wire.Metadata
    record: wire.Record


class Session:
    """A hold on one container, from `lease` to `close`; used by one thread at a time, further calls queue.

    A call that loses the connection raises ConnectionLost, one whose reply is late StepTimeout; either breaks the
    session, and every later call raises the same error. Its episode is void: a step is never sent twice.
    """

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._deadlines: Deadlines = lease.giver.deadlines
        self._dialogue = Dialogue(lease.transport)
        self._closing = threading.RLock()  # held while it is closed, which a signal's handler may ask for again
        self._closed = False
        self._dirty = False  # a world is or was in use, and may not be over
        self.env: Mapping[str, str] | None = None  # its name and version, where they are known to the user
        self._keepalive: Keepalive | None = None
        self._forget()
        try:
            self._server = capability.capability(lease.url, lease.giver.token, lease.transport.greeting)
            if self._server.plain:
                self._keepalive = Keepalive(self._dialogue, self._deadlines.idle_s)
        except BaseException:
            self.close()
            raise

    @classmethod
    def lease(
        cls,
        urls: Urls,
        token: str | None = None,
        *,
        wait_busy: bool = True,
        timeout_s: float = 600.0,
        deadlines: Deadlines | None = None,
        canceller: Canceller | None = None,
    ) -> Self:
        """Open a session on a free, healthy container among `urls`.

        `urls` is a list of base URLs, a path of a URL file, or `dns://name:port`. Waits until `timeout_s` seconds are
        over, then raises NoFreeContainer; with `wait_busy` false, at once when none is free. Another thread ends the
        waiting by the `canceller`.
        """
        broker = shared(urls, token, deadlines or Deadlines())
        return cls(broker.lease(wait_busy=wait_busy, timeout_s=timeout_s, canceller=canceller))

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
        return self._journal is not None and self._journal.done

    @property
    def steps(self) -> list[StepEntry]:
        """The steps of the episode as this client saw them."""
        return self._journal.steps if self._journal else []

    @property
    def started_at(self) -> datetime | None:
        """When the episode began, in UTC."""
        return self._journal.started_at if self._journal else None

    @property
    def max_seconds(self) -> int | None:
        """The episode's limit in seconds, where it has one."""
        return self._journal.max_seconds if self._journal else None

    @property
    def plain(self) -> bool:
        """Whether the server speaks OpenEnv's protocol and no more."""
        return self._server.plain

    @property
    def task_tools(self) -> list[wire.Tool] | None:
        """The tools of the episode's task, where they are others than the environment's."""
        return self._task_tools

    def _forget(self) -> None:
        self._dialogue.episode_id, self._dialogue.step = None, 0
        self._journal: Journal | None = None
        self._limit_s = self._deadlines.step_s  # of a call in the episode
        self._task_tools: list[wire.Tool] | None = None
        self._graded: Graded | None = None

    def reset(
        self, task_id: str | None, max_seconds: int | None = None, coworkers: bool = False, **options: Any
    ) -> dict[str, Any]:
        """Begin an episode of the task and return its first observation; an episode that still runs is abandoned.

        `max_seconds` ends the episode; `coworkers` says that their turns will be answered by this client;
        `options` go to the environment (`surface`, `seed`, and what it knows besides). What is None is not sent.
        """
        with self._dialogue.call():
            self._forget()
            self._dirty = True
            episode_id = uuid.uuid4().hex
            sent = {**options, "task_id": task_id, "max_seconds": max_seconds}
            if not self._server.plain:
                sent["coworkers"] = coworkers
            data = {name: value for name, value in sent.items() if value is not None} | {"episode_id": episode_id}
            reply = self._dialogue.ask({"type": "reset", "data": data}, "observation", self._deadlines.reset_s)
            self._dialogue.episode_id = episode_id
            self._journal = Journal(task_id or "", options, max_seconds)
            if max_seconds is not None:
                self._limit_s = max_seconds + self._deadlines.step_margin_s
            if reply.get("done"):
                self._journal.end(reply, "done")
            tools = reply.get("tools")
            self._task_tools = wire.tools(tools) if isinstance(tools, list) else None
            return wire.observed(reply)

    def tools(self) -> list[wire.Tool]:
        """The tools as the session itself lists them; none where its actions are no tool calls."""
        with self._dialogue.call():
            if not self._server.plain:
                return wire.tools(self._list_tools())
            if self._server.tools is None:  # it may count the asking as a step, so it is asked once
                self._server.tools = wire.tools(self._list_tools())
            return self._server.tools

    def _list_tools(self) -> list[Any]:
        try:
            frame = {"type": "step", "data": {"type": "list_tools"}}
            listed = wire.observed(self._dialogue.ask(frame, "observation", self._limit_s)).get("tools")
        except EnvError:
            if not self._server.plain:
                raise
            frame = {"type": "mcp", "data": {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}}
            result = self._dialogue.ask(frame, "mcp", self._limit_s).get("result")
            listed = result.get("tools") if isinstance(result, dict) else None
        return listed if isinstance(listed, list) else []

    def step(self, tool: str, arguments: dict[str, Any], *, timeout_s: float | None = None) -> wire.Step:
        """Call a tool; its observation, the reward so far (None: none yet) and whether the episode is over."""
        if self._server.actions is not None:
            raise InvalidArgument(f"{self.url} has no tools; call act with an action of {self._server.form}")
        return self._act({"tool": tool, "arguments": as_sent(arguments)}, timeout_s)

    def act(self, action: dict[str, Any], *, timeout_s: float | None = None) -> wire.Step:
        """Send a raw action, for a server whose actions are not tool calls; InvalidArgument for one of another form."""
        flaws = self._server.flaws(action)
        if flaws:
            raise InvalidArgument(f"this is no action of {self._server.form}: {'; '.join(flaws)}; nothing was sent")
        return self._act({"action": as_sent(action)}, timeout_s)

    def _act(self, entry: dict[str, Any], timeout_s: float | None) -> wire.Step:
        with self._dialogue.call():
            journal = self._need_episode()
            if self._server.plain:
                self._need_time(journal)
            return self._do(journal, entry, self._limit_s if timeout_s is None else timeout_s)

    def _do(self, journal: Journal, entry: dict[str, Any], timeout_s: float) -> wire.Step:
        """Send what a step's entry names, its tool and arguments or its action, and complete the entry."""
        dialogue = self._dialogue
        if "tool" in entry:
            action = {
                "type": "call_tool",
                "tool_name": entry["tool"],
                "arguments": entry["arguments"],
                "metadata": {"episode_id": dialogue.episode_id},
            }
        else:  # which may have no metadata
            action = entry["action"]
        at = time.monotonic()
        try:
            reply = dialogue.ask({"type": "step", "data": action}, "observation", timeout_s)
        except EnvError as error:
            if error.code in (wire.EXECUTION_ERROR, wire.EPISODE_OVER):
                journal.fail(error.message)
            raise
        step: wire.Step = {
            "observation": wire.observed(reply),
            "reward": reply.get("reward"),
            "done": bool(reply.get("done")),
        }
        journal.add(entry, step, at)
        dialogue.step = len(journal.steps)
        if self._server.plain and self._server.actions is None:
            self._need_world(journal, step["observation"])
        return step

    def _need_time(self, journal: Journal) -> None:
        """Hold the caller to the episode's end, which a plain server does not."""
        if journal.late and not journal.done:
            journal.fail("the episode's time was over", "deadline")
        if journal.done:
            raise EnvError(wire.EPISODE_OVER, f"{self._dialogue.where()}: the episode is over; reset", url=self.url)

    def _need_world(self, journal: Journal, observation: dict[str, Any]) -> None:
        """Raise what a plain server tells a model as if it were the model's mistake."""
        if capability.reaped(observation):
            raise self._dialogue.lose("the server has given up the session's world, idle for too long")
        why = capability.cut(observation)
        if why:
            journal.fail(why)
            raise EnvError(wire.EXECUTION_ERROR, f"{self._dialogue.where()}: {why}", url=self.url)

    def coworker_turns(self) -> list[wire.CoworkerTurn]:
        """Who owes a reply now, each with the chat to answer; none where the server has no coworkers."""
        with self._dialogue.call():
            self._need_episode()
            reply = self._ask_if_known("coworkers", None, self._limit_s)
            turns = reply.get("turns") if reply else None
            if not isinstance(turns, list):
                return []
            if not all(isinstance(turn, dict) and {"coworker", "messages"} <= turn.keys() for turn in turns):
                raise CoworkerFailed(f"{self.url} listed a turn without coworker or messages; run `miroir check` on it")
            return cast("list[wire.CoworkerTurn]", turns)

    def coworker_reply(self, coworker: str, text: str) -> int | None:
        """Deliver a coworker's reply; the HTTP status with which the world took it."""
        with self._dialogue.call():
            self._need_episode()
            frame = {"type": "coworker_reply", "data": {"coworker": coworker, "text": text}}
            status = self._dialogue.ask(frame, "coworker_reply", self._limit_s).get("status")
            return status if isinstance(status, int) else None

    def state(self) -> dict[str, Any]:
        """What the server says of the session: episode, step count, whether it is done; keys may be missing."""
        with self._dialogue.call():
            return self._state()

    def _state(self) -> dict[str, Any]:
        return self._dialogue.ask({"type": "state"}, "state", self._limit_s)

    def finish(self) -> Graded:
        """Submit the episode if it still runs, and return its grade and record; again and again, the same one."""
        with self._dialogue.call():
            if self._graded is None:
                journal = self._need_episode()
                if not journal.done and self._submits():
                    self._submit(journal)
                self._graded = self._grade(journal)
            return self._graded

    def _submits(self) -> bool:
        """Whether the server has the tool `submit`, as ours do."""
        return not self._server.plain or wire.submits(self._server.tools or ())

    def _submit(self, journal: Journal) -> None:
        """End the episode; NotGraded when it is not over then, on a server of ours."""
        said = "its `submit` must answer done"
        try:
            self._do(journal, {"tool": wire.SUBMIT, "arguments": {}}, self._deadlines.finish_s)
        except EnvError as error:
            said = str(error)
        if self._server.plain:
            return
        journal.done = journal.done or bool(self._state().get("done"))
        if not journal.done:
            raise NotGraded(f"{self._dialogue.where()}: the episode did not end at submit: {said}")

    def _grade(self, journal: Journal) -> Graded:
        """The server's record of the episode, or ours where it has none."""
        assert self.episode_id is not None
        record: Any = self._ask_if_known("record", {"episode_id": self.episode_id}, self._deadlines.finish_s)
        if record is None:
            record = journal.record(self.episode_id, self.env or self._server.env)
        else:
            flaw = verdict.flaw(record, self.episode_id, journal.task_id)
            if flaw:
                raise NotGraded(f"{self.url} answered a record {flaw}; run `miroir check` on it")
            record = verdict.settled(record)
        return {
            "reward": record["reward"],
            "success": record["metadata"]["success"],
            "metadata": record["metadata"],
            "record": record,
        }

    def _ask_if_known(self, kind: str, data: dict[str, Any] | None, timeout_s: float) -> dict[str, Any] | None:
        """The reply to a request of our protocol; None where the server does not know it."""
        if self._server.plain or kind in self._server.unknown:
            return None
        try:
            return self._dialogue.ask({"type": kind} if data is None else {"type": kind, "data": data}, kind, timeout_s)
        except EnvError as error:
            if error.code != wire.UNKNOWN_TYPE:
                raise
            self._server.unknown.add(kind)
            return None

    def close(self, *, fault: str = "") -> None:
        """Free the container; a call that is running in another thread is woken and raises.

        `fault` says why this container should not be leased again for a while.
        """
        if self._dialogue.inherited:
            return
        with self._closing:
            if self._closed:
                return
            try:
                self._closed = True
                if self._keepalive is not None:
                    self._keepalive.stop()
                idle, sound = self._dialogue.close()
                over = self.done or not self._dirty
                self._lease.release(reusable=idle and sound and over, free=idle and sound, fault=fault)
            finally:
                self._lease.forget()  # where an interrupt came between

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        """No copy, deep or shallow, and no pickle: the one that went first would end the other's lease."""
        raise TypeError("a session cannot be copied or pickled; pass its URLs on, and lease another there")

    def __repr__(self) -> str:
        state = "closed" if self._closed else "broken" if self._dialogue.ended else f"episode {self.episode_id}"
        return f"<miroir.Session {self.url} {state}>"

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and not self._dialogue.inherited:
            self._lease.forget()  # at once: whoever records the warning keeps this session
            warnings.warn(f"{self!r} was dropped without close()", ResourceWarning, source=self, stacklevel=2)

    def _need_episode(self) -> Journal:
        self._dialogue.check()
        if self._journal is None:
            raise NoEpisode("there is no episode; call reset(task_id) first")
        return self._journal
