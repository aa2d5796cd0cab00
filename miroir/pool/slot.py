"""One place in a pool: its container is started, made ready, watched, and replaced when it fails."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import MiroirError
from ..rest import HEALTH_TIMEOUT_S
from .engine import Change, Event
from .recycling import Recycling
from .restarts import BUDGET, BUDGET_S, Restarts
from .status import Status, read_status

_log = logging.getLogger("miroir.pool")


@dataclass(frozen=True)
class Timing:
    """How patient a pool is, in seconds; a container is replaced after `misses` failed probes in a row."""

    start_s: float = 60.0
    ready_every_s: float = 0.1
    ended_every_s: float = 0.2
    health_every_s: float = 2.0
    health_s: float = HEALTH_TIMEOUT_S
    misses: int = 3
    grace_s: float = 5.0


class Container(ABC):
    """A container that was begun; each engine has its own kind. One thread uses it."""

    @abstractmethod
    def url(self) -> str | None:
        """Its base URL, once it listens and is known to be its own."""

    @abstractmethod
    def ended(self) -> str | None:
        """How it ended, in words; None while it runs."""

    @abstractmethod
    def log(self) -> tuple[str, ...]:
        """The last lines that it wrote."""

    @abstractmethod
    def tend(self) -> None:
        """Look after it, whenever its health is about to be asked for."""

    @abstractmethod
    def stop(self, patient: Callable[[], bool]) -> None:
        """End it and all that it started; by force once `patient()` is false. May be called when it has ended."""


@dataclass(frozen=True)
class Shared:
    """What the slots of a pool have in common."""

    launch: Callable[[str], Container]
    tell: Callable[[Event], None]
    hurried: Callable[[], bool]  # whether nobody may be waited for any more
    starting: threading.Semaphore  # held while a container starts: so many do at once
    stopping: threading.Event
    timing: Timing
    recycle_after: int | None = None  # episodes


class Slot:
    """The container called `name`, over all its lives; `run` is what a thread of its own does."""

    def __init__(self, name: str, shared: Shared) -> None:
        self.name = name
        self.url: str | None = None  # while it is ready
        self._shared = shared
        self._container: Container | None = None
        self._restarts = Restarts()
        self._first = True  # whether nothing was told yet: neither that it is ready nor that it failed
        self._ready_at: float | None = None  # of this container
        self._recycling = Recycling(shared.recycle_after)

    def logs(self) -> tuple[str, ...]:
        """The last lines of the newest container."""
        container = self._container
        return container.log() if container else ()

    def run(self) -> None:
        """Keep a container running until the pool stops, or it is given up."""
        while True:
            self._recycling = Recycling(self._shared.recycle_after)
            try:
                fault = self._live()
            except (OSError, MiroirError) as error:
                fault = f"could not be started: {error.message if isinstance(error, MiroirError) else error}"
            except Exception as error:
                _log.exception("%s", self.name)
                fault = f"could not be kept: {type(error).__name__}: {error}"
            self.url = None
            delay_s = None if self._shared.stopping.is_set() else self._report(fault)
            self._end()
            if delay_s is None or self._shared.stopping.wait(delay_s):
                return

    def _live(self) -> str:
        """Start a container and watch it until it fails; what was wrong ("" when the pool stops)."""
        self._container = self._ready_at = None
        while not self._shared.starting.acquire(timeout=self._shared.timing.ended_every_s):
            if self._shared.stopping.is_set():
                return ""
        try:
            began = time.monotonic()
            self._container = self._shared.launch(self.name)
            outcome = self._wait_ready(self._container, began + self._shared.timing.start_s)
        finally:
            self._shared.starting.release()
        if isinstance(outcome, str):
            return outcome
        self._ready_at, self._first = time.monotonic(), False
        self.url = outcome.url
        self._shared.tell(Event(self.name, Change.READY, f"{outcome.url} after {self._ready_at - began:.1f} s"))
        return self._watch(self._container, outcome)

    def _wait_ready(self, container: Container, deadline: float) -> Status | str:
        """The container's first healthy answer, or what was wrong."""
        timing, reason = self._shared.timing, "it does not listen"
        while not self._shared.stopping.wait(timing.ready_every_s):
            ended = container.ended()
            if ended:
                return f"{ended} before it was ready"
            container.tend()
            url = container.url()
            status = read_status(url, timeout_s=timing.health_s) if url else None
            if status and status.healthy and not container.ended():
                return self._recycling.fault(status) or status
            reason = status.reason if status else reason
            if time.monotonic() > deadline:
                return f"was not ready within {timing.start_s:g} s ({reason})"
        return ""

    def _watch(self, container: Container, first: Status) -> str:
        timing, misses, probe_at = self._shared.timing, 0, time.monotonic()
        while not self._shared.stopping.wait(timing.ended_every_s):
            ended = container.ended()
            if ended:
                return ended
            if time.monotonic() < probe_at:
                continue
            container.tend()
            status = read_status(first.url, timeout_s=timing.health_s)
            fault = _fault(status, first)
            misses = misses + 1 if fault else 0
            if misses >= timing.misses:
                return f"was unhealthy {misses} times in a row ({fault})"
            if not fault and self._recycling.look(status, time.monotonic()):
                return ""
            if self._recycling.spent and self.url:
                self.url = None
                self._shared.tell(
                    Event(self.name, Change.DOWN, f"has begun {status.episodes} episodes; it is replaced")
                )
            probe_at = time.monotonic() + timing.health_every_s
        return ""

    def _report(self, fault: str) -> float | None:
        """Tell what was wrong; the seconds until the next start, or None when there is none."""
        if self._recycling.spent:
            return 0.0
        now, first, self._first = time.monotonic(), self._first, False
        delay_s = self._restarts.delay(0.0 if self._ready_at is None else now - self._ready_at, now)
        if first:
            self._shared.tell(Event(self.name, Change.FAILED, fault, self.logs()))
        elif delay_s is None:
            told = f"{fault}; it went down more than {BUDGET} times within {BUDGET_S / 60:g} minutes"
            self._shared.tell(Event(self.name, Change.GIVEN_UP, told, self.logs()))
        else:
            self._shared.tell(Event(self.name, Change.DOWN, f"{fault}; starts again in {delay_s:g} s", self.logs()))
        return delay_s

    def _end(self) -> None:
        if self._container:
            deadline = time.monotonic() + self._shared.timing.grace_s
            self._container.stop(lambda: time.monotonic() < deadline and not self._shared.hurried())


def _fault(status: Status, first: Status) -> str:
    if not status.healthy:
        return status.reason
    return "" if status.boot_id == first.boot_id else "another server answers at its URL"
