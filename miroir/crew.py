"""The threads that play a run's episodes, one thread an episode, a lease each; what they share and count."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .agents import Agent
from .episode import Ended, Setting, play
from .errors import MiroirError, ModelError, NoFreeContainer
from .fleet import Fleet
from .jobs import Job
from .records import save_record
from .session import Session

LEASE_S = 600.0
FINISH_S = 7.0  # what a stopped run gives its episodes to finish
ABANDON_S = 2.0  # and then to notice that their sessions are closed


@dataclass(frozen=True)
class Progress:
    """How far a run has come; rates count graded and void episodes alike, times are in seconds."""

    done: int
    total: int
    successes: int
    void: int
    elapsed_s: float

    @property
    def rate(self) -> float:
        """Episodes a second."""
        return self.done / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def left_s(self) -> float | None:
        """The time left at this rate, None before there is one."""
        return (self.total - self.done) / self.rate if self.rate else None


@dataclass
class SplitTotals:
    """The graded and void episodes of one split."""

    tasks: set[str] = field(default_factory=set)
    graded: int = 0
    successes: int = 0
    harmful: int = 0
    void: int = 0
    rewards: float = 0.0

    def add(self, record: Mapping[str, Any]) -> None:
        """Count a record."""
        self.tasks.add(record["task_id"])
        if record.get("reward") is None:
            self.void += 1
            return
        metadata = record.get("metadata") or {}
        self.graded += 1
        self.rewards += float(record["reward"])
        self.successes += bool(metadata.get("success"))
        self.harmful += bool(metadata.get("harm"))


class Crew:
    """The threads of a run and what they share."""

    def __init__(
        self,
        fleet: Fleet,
        agent: Agent,
        setting: Setting,
        folder: Path,
        jobs: Sequence[Job],
        retries: int,
        progress: Callable[[Progress], object] | None,
    ) -> None:
        self.splits: dict[str, SplitTotals] = {}
        self.unfinished = 0
        self._fleet = fleet
        self._agent = agent
        self._setting = setting
        self._folder = folder
        self._lock = threading.Lock()  # guards what is counted, the queue and the sessions
        self._queue = deque(jobs)
        self._total = len(jobs)
        self._playing = 0
        self._most_attempts = {(job.task["id"], job.trial): job.attempt + retries for job in jobs}
        self._changed = threading.Condition(self._lock)
        self._sessions: set[Session] = set()
        self._stopping = False
        self._abandoning = False
        self._fatal: MiroirError | None = None
        self._done = self._successes = self._void = 0
        self._progress = progress
        self._began = time.monotonic()

    def work(self, concurrency: int) -> None:
        """Play all jobs; raises what stopped them early."""
        count = min(concurrency, self._total)
        threads = [
            threading.Thread(target=self._play_all, name=f"miroir-run-{index}", daemon=True) for index in range(count)
        ]
        try:
            for thread in threads:
                thread.start()
            with self._changed:
                self._changed.wait_for(lambda: self._stopping or not (self._queue or self._playing))
        finally:
            self._stop(threads)
        if self._fatal is not None:
            raise self._fatal

    def _stop(self, threads: Sequence[threading.Thread]) -> None:
        """End the threads: let episodes that run finish, then close the sessions of those that do not."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._fleet.close()
        _join(threads, FINISH_S)
        with self._lock:
            self._abandoning = True
            left = list(self._sessions)
        for session in left:
            session.close()
        _join(threads, ABANDON_S)

    def _play_all(self) -> None:
        while (job := self._next()) is not None:
            try:
                ended = play(self._lease, self._agent, job.task, self._setting, trial=job.trial, attempt=job.attempt)
                self._take(job, ended)
            except MiroirError as error:
                self._fail(error)
            except BaseException as error:
                self._fail(MiroirError("RUN", f"an episode ended with {type(error).__name__}: {error}"))
                raise
            finally:
                with self._changed:
                    self._playing -= 1
                    self._changed.notify_all()

    def _next(self) -> Job | None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._queue or not self._playing)
            if self._stopping or not self._queue:
                return None
            self._playing += 1
            return self._queue.popleft()

    def _lease(self) -> Session:
        while True:
            try:
                session = self._fleet.lease(timeout_s=LEASE_S)
            except NoFreeContainer as error:
                if self._stopping or not error.leased:  # a fleet that lives is waited for
                    raise
            else:
                with self._lock:
                    self._sessions = {held for held in self._sessions if not held.closed} | {session}
                return session

    def _take(self, job: Job, ended: Ended) -> None:
        """Save and count an episode; put it back in the queue where it is worth playing again."""
        record = ended.record
        client = getattr(self._agent, "client", None)
        if isinstance(ended.fault, ModelError) and client is not None and not client.answered:
            raise ended.fault  # the endpoint has never worked: no episode can tell anything
        with self._lock:
            if self._abandoning:
                return
        save_record(self._folder, record)
        with self._changed:
            self.splits.setdefault(record.get("split") or "-", SplitTotals()).add(record)
            void = record["reward"] is None
            again = ended.again and job.attempt < self._most_attempts[job.task["id"], job.trial]
            if again:
                self._queue.append(job._replace(attempt=job.attempt + 1))
            else:
                self._done += 1
                self.unfinished += void
            self._void += void
            self._successes += bool(record["metadata"]["success"])
            elapsed_s = time.monotonic() - self._began
            told = Progress(self._done, self._total, self._successes, self._void, elapsed_s)
            if self._progress is not None:
                self._progress(told)

    def _fail(self, error: MiroirError) -> None:
        with self._changed:
            if not self._stopping:
                self._fatal = self._fatal or error
            self._stopping = True
            self._changed.notify_all()


def _join(threads: Sequence[threading.Thread], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    for thread in threads:
        if thread.ident is not None:
            thread.join(max(0.0, deadline - time.monotonic()))
