"""One thread that makes blocking calls for an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Outcome(NamedTuple, Generic[T]):
    """What became of a call: its value or its error, and how long it ran in seconds."""

    value: T | None
    error: BaseException | None
    seconds: float


class Worker:
    """A daemon thread that makes one call at a time, in the order in which an event loop asks for them."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        # A daemon: a call that never returns must not keep the process from ending.
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def call(self, function: Callable[[], T]) -> asyncio.Future[Outcome[T]]:
        """The call's outcome, as a future of the running loop that never raises."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Outcome[T]] = loop.create_future()

        def job() -> None:
            outcome = _outcome(function)
            with contextlib.suppress(RuntimeError):  # the loop has ended: nobody waits
                loop.call_soon_threadsafe(_settle, future, outcome)

        self._jobs.put(job)
        return future

    def stop(self) -> None:
        """End the thread after the calls that were asked for."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            del job  # a waiting thread keeps no call's values alive


def _outcome(function: Callable[[], T]) -> Outcome[T]:
    started = time.monotonic()
    try:
        value = function()
    except BaseException as error:  # an author's sys.exit() must not end the server either
        return Outcome(None, error, time.monotonic() - started)
    return Outcome(value, None, time.monotonic() - started)


def _settle(future: asyncio.Future[Outcome[T]], outcome: Outcome[T]) -> None:
    if not future.done():
        future.set_result(outcome)
