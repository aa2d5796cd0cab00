"""One episode that can be ended from outside: whatever it waits for, its container is soon free."""

from __future__ import annotations

import contextlib
import importlib.metadata
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from miroir.agents import Agent, Played, called
from miroir.broker import Canceller
from miroir.episode import Episode
from miroir.errors import MiroirError, StepTimeout
from miroir.records import save_record
from miroir.run.workers import patient
from miroir.session import Session
from miroir.wire import Record, Step, Task, Tool, submits

from .offers import setting
from .settings import Settings


class Voided(MiroirError):
    """An episode that could not be graded; its text begins with VOID. It is no reward of 0."""

    def __init__(self, why: str) -> None:
        super().__init__("VOID", why)


@dataclass(frozen=True)
class Seat:
    """Who plays, as records say it."""

    name: str
    model: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)


class Rollout:
    """An episode of a task: `begin`, any number of steps, `conclude`, each in a thread; `halt` and `close` from any."""

    def __init__(self, task: Task, settings: Settings) -> None:
        self.task = task
        self.observation: Mapping[str, Any] = {}
        self.failure: MiroirError | None = None  # what ended the playing, if not the episode's end
        self.settings = settings
        self._canceller = Canceller()
        self._lock = threading.Lock()  # guards all below
        self._episode: Episode | None = None
        self._session: Session | None = None
        self._record: Record | None = None
        self._blocked = 0  # calls that wait for the container
        self._halted = False
        self._cut = False  # whether halting cut a call off

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools of the episode, once it has begun."""
        return self._episode.tools if self._episode else ()

    @property
    def submits(self) -> bool:
        """Whether its model ends the episode by a tool."""
        return submits(self.tools)

    @property
    def done(self) -> bool:
        """Whether the environment has ended the episode."""
        return self._episode is not None and self._episode.done

    @property
    def record(self) -> Record | None:
        """The episode's record, once it is concluded."""
        return self._record

    @property
    def coworker_usages(self) -> Sequence[Mapping[str, int]]:
        """The tokens that each answer of the coworkers' model cost."""
        return self._episode.coworker_usages if self._episode else ()

    @property
    def info(self) -> dict[str, Any]:
        """What is told of the episode beside its reward: where to find its record, and what was checked in it."""
        record = self._record
        if record is None:
            return {"task_id": self.task["id"], "task_hash": self.task["task_hash"]}
        metadata, env = record["metadata"], record["env"]
        return {
            "task_id": record["task_id"],
            "task_hash": metadata["task_hash"],
            "episode_id": record["episode_id"],
            "url": record["container"],
            "versions": {"miroir": importlib.metadata.version("miroir"), str(env.get("name")): env.get("version")},
            "ended_by": metadata["ended_by"],
            "void_reason": metadata["void_reason"],
            "success": metadata["success"],
            "checks": metadata["checks"],
            "harms": metadata["harms"],
            "timings": record["timings"],
        }

    def begin(self) -> None:
        """Lease a container, however long that takes while any lives, and reset it.

        Voided where no container could be reset; any other MiroirError is no episode's fault.
        """
        with self._blocking():
            episode = Episode(self.task, setting(self.settings))
            self._episode = episode
            try:
                self.observation = episode.begin(lambda: patient(self._lease, lambda: self._halted))
            except MiroirError as error:
                if self._halted:
                    raise self._stopped() from error
                if not episode.url:
                    raise
                self.failure = error
        if self.failure is not None:
            self.conclude()

    def _lease(self, timeout_s: float) -> Session:
        settings = self.settings
        session = Session.lease(settings.urls, settings.token, timeout_s=timeout_s, canceller=self._canceller)
        with self._lock:
            self._session = session
            late = self._halted
        if late:
            session.close()
            raise self._stopped()
        return session

    def play(self, agent: Agent) -> None:
        """Have the agent play until it stops; `failure` keeps the error that it let through."""
        try:
            agent.play(self, self.task, self.tools, observation=self.observation, trial=0, seed=0)
        except MiroirError as error:
            self.fail(error)

    def fail(self, error: MiroirError) -> None:
        """Take it that the playing ended by this error, unless it had ended before."""
        if not self._halted:
            self.failure = self.failure or error

    def opening(self) -> str:
        """What a model is told first, of the episode that has begun."""
        return self.settings.prompt(self.task, self.tools, self.observation)

    def step(self, tool: str, arguments: dict[str, Any], *, timeout_s: float | None = None) -> Step:
        """Call a tool, then have the coworkers answer who owe a reply; Voided once the rollout was halted."""
        with self._blocking():
            assert self._episode is not None
            return self._episode.step(tool, arguments, timeout_s=timeout_s)

    def answer(self, tool: str, arguments: dict[str, Any]) -> str:
        """The text that a call gives to a model; an error that makes the episode void is kept as its failure."""
        try:
            return called(self, tool, arguments)[0]
        except MiroirError as error:
            self.fail(error)
            raise

    def conclude(self, seat: Seat | None = None, played: Played | None = None) -> Record:
        """Grade the episode, save its record and free the container; Voided where it cannot be graded.

        May be called again, with the same outcome.
        """
        if self._record is None:
            self._record = self._concluded(seat, played)
        if self._record["reward"] is None:
            raise Voided(str(self._record["metadata"]["void_reason"]))
        return self._record

    def _concluded(self, seat: Seat | None, played: Played | None) -> Record:
        if self._cut:
            self.close()  # first, so that nobody takes it for the container's fault
        with self._blocking(halted_too=True):
            episode = self._episode
            if episode is None or not episode.url:
                raise self._stopped()
            record = episode.conclude(seat, played, self.failure).record
        if self.settings.traces is not None:
            save_record(self.settings.traces, record)
        return record

    def halt(self) -> bool:
        """Let no further step be made, and no lease be waited for; whether only `close` wakes a call that is running.

        Such a call makes the episode void; else it can still be graded as it stands. Never blocks.
        """
        with self._lock:
            self._halted = True
            busy = self._blocked > 0
            if busy:
                self._cut = True
                if self._episode is not None:
                    self._episode.fault = self._episode.fault or _halted_in_a_call()
        self._canceller.cancel()
        return busy

    def close(self) -> None:
        """Free the container and wake whatever waits for it. Idempotent."""
        self.halt()
        with self._lock:
            session = self._session
        if session is not None:
            session.close()

    @contextlib.contextmanager
    def _blocking(self, *, halted_too: bool = False) -> Iterator[None]:
        """A call that waits for the container."""
        with self._lock:
            if self._halted and not halted_too:
                raise self._stopped()
            self._blocked += 1
        try:
            yield
        finally:
            with self._lock:
                self._blocked -= 1

    def _stopped(self) -> Voided:
        return Voided("the rollout was stopped before its episode could be graded; give it more time, or run it again")


def _halted_in_a_call() -> StepTimeout:
    return StepTimeout("the rollout was stopped while one of its calls ran; give it more time, or run it again")
