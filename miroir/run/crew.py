"""The threads that play a run's episodes, one thread an episode, a lease each."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from ..agents import Agent
from ..episode import Ended, Setting, play
from ..errors import InvalidArgument, MiroirError, ModelError
from ..fleet import Fleet
from ..records import save_record
from ..session import Session
from .jobs import Job
from .report import Progress, Report
from .workers import Workers, patient

FINISH_S = 7.0  # what a stopped run gives its episodes to finish
ABANDON_S = 1.0  # and then to notice that their sessions are closed

_log = logging.getLogger("miroir.run")


class Crew:
    """Plays jobs, saves the record of each in `folder` and counts it in `report`; used once.

    Where there are `workers`, they play, and what happens here is all the rest.
    """

    def __init__(
        self,
        fleet: Fleet,
        agent: Agent,
        setting: Setting,
        folder: Path,
        jobs: Sequence[Job],
        retries: int,
        report: Report,
        workers: Workers | None = None,
    ) -> None:
        self._fleet = fleet
        self._agent = agent
        self._setting = setting
        self._folder = folder
        self._report = report
        self._workers = workers
        self._lock = threading.Lock()  # guards the report and everything below; no I/O is done under it
        self._work = threading.Condition(self._lock)  # there is a job to be had, or none will come
        self._news = threading.Condition(self._lock)  # there is something to tell
        self._queue = deque(jobs)
        self._total = len(jobs)
        self._most_attempts = {(job.task["id"], job.trial): job.attempt + retries for job in jobs}
        self._playing = 0
        self._sessions: set[Session] = set()
        self._stopping = False
        self._abandoning = False
        self._fatal: MiroirError | None = None
        self._explained = False
        self._began = time.monotonic()
        self._told = Progress(0, self._total, 0, 0, 0.0)

    def play(self, concurrency: int, progress: Callable[[Progress], object] | None = None) -> None:
        """Play all jobs; raises what stopped them early. `progress` is called in this thread, as episodes end."""
        count = min(concurrency, self._total)
        threads = [
            threading.Thread(target=self._play_all, name=f"miroir-run-{index}", daemon=True) for index in range(count)
        ]
        try:
            _start(threads)
            self._tell(progress or (lambda _: None))
        except KeyboardInterrupt:
            _log.warning("stopping: episodes that run have %g s to finish; interrupt again to end at once", FINISH_S)
            raise
        finally:
            self._stop(threads)
        if self._fatal is not None:
            raise self._fatal

    def _tell(self, progress: Callable[[Progress], object]) -> None:
        """Pass on how far the jobs are, until all are done or something stops them."""
        told = None
        while True:
            with self._lock:
                while self._told is told and not self._over:
                    self._news.wait()
                told, over = self._told, self._over
            progress(told)
            if over:
                return

    @property
    def _over(self) -> bool:
        return self._stopping or not (self._queue or self._playing)

    def _stop(self, threads: Sequence[threading.Thread]) -> None:
        """End the threads: let episodes that run finish, then close the sessions of those that do not."""
        with self._lock:
            self._stopping = True
            self._work.notify_all()
        try:
            self._fleet.close()
            _join(threads, FINISH_S)
        finally:
            self._abandon()
        _join(threads, ABANDON_S)

    def _abandon(self) -> None:
        """Close the sessions that are left; nothing that ends from now on is saved."""
        with self._lock:
            self._abandoning = True
            left = [session for session in self._sessions if not session.closed]
        for session in left:  # each in a thread of its own: the closing handshake of a hung server takes seconds
            threading.Thread(target=session.close, name="miroir-close", daemon=True).start()

    # What each thread does

    def _play_all(self) -> None:
        while (job := self._next()) is not None:
            try:
                self._take(job, self._play(job))
            except MiroirError as error:
                self._fail(error)
            except BaseException as error:
                self._fail(MiroirError("RUN", f"an episode ended with {type(error).__name__}: {error}"))
                raise
            finally:
                with self._lock:
                    self._playing -= 1
                    if self._over:
                        self._work.notify_all()
                        self._news.notify()

    def _next(self) -> Job | None:
        with self._lock:
            self._work.wait_for(lambda: self._queue or self._over)
            if self._over:
                return None
            self._playing += 1
            return self._queue.popleft()

    def _play(self, job: Job) -> Ended:
        if self._workers is not None:
            return self._workers.play(job, lambda: self._abandoning)
        return play(self._lease, self._agent, job.task, self._setting, trial=job.trial, attempt=job.attempt)

    def _lease(self) -> Session:
        session = patient(self._fleet.lease, lambda: self._stopping)
        with self._lock:
            self._sessions = {held for held in self._sessions if not held.closed} | {session}
            late = self._abandoning
        if late:
            session.close()
        return session

    def _take(self, job: Job, ended: Ended) -> None:
        """Save and count an episode; put it back in the queue where it is worth playing again."""
        record = ended.record
        client = getattr(self._agent, "client", None)
        if isinstance(ended.fault, ModelError) and client is not None and not client.answered:
            raise ended.fault  # the endpoint has never worked: no episode can tell anything
        if self._abandoning:
            return
        save_record(self._folder, record)
        self._explain(job, ended.fault)
        with self._lock:
            again = ended.again and job.attempt < self._most_attempts[job.task["id"], job.trial]
            void = record["reward"] is None
            self._report.add(record)
            if again:
                self._queue.append(job._replace(attempt=job.attempt + 1))
                self._work.notify()
            elif void:
                self._report.give_up(record)
            before = self._told
            self._told = Progress(
                before.done + (not again),
                before.total,
                before.successes + bool(record["metadata"]["success"]),
                before.void + void,
                time.monotonic() - self._began,
            )
            self._news.notify()

    def _explain(self, job: Job, fault: BaseException | None) -> None:
        """Show where an agent raised, once: its own author has to find it."""
        if fault is None or isinstance(fault, MiroirError) or self._explained:
            return
        self._explained = True
        _log.warning("task %s, trial %d: the agent raised", job.task["id"], job.trial, exc_info=fault)

    def _fail(self, error: MiroirError) -> None:
        with self._lock:
            if not self._stopping:
                self._fatal = error
            self._stopping = True
            self._work.notify_all()
            self._news.notify()


def _start(threads: Sequence[threading.Thread]) -> None:
    for started, thread in enumerate(threads):
        try:
            thread.start()
        except RuntimeError as error:
            raise InvalidArgument(
                f"only {started} of {len(threads)} threads could be started; lower the concurrency"
            ) from error


def _join(threads: Sequence[threading.Thread], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    for thread in threads:
        if thread.ident is not None:
            thread.join(max(0.0, deadline - time.monotonic()))
