"""Threads for blocking calls: as many as there are calls at once, so that none waits behind another.

The event loop's own executor has a few threads, and verifiers writes its files by them: two hundred steps of a second
would take half a minute there, and the files would wait as long.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from miroir.errors import MiroirError

IDLE_S = 1.0  # after which a thread ends that nobody needed

T = TypeVar("T")


class Threads:
    """Runs each call in a thread of its own, a new one only where none is idle."""

    def __init__(self, idle_s: float = IDLE_S) -> None:
        self._idle_s = idle_s
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        """Begin without threads: at first, and in a forked child, which has none."""
        self._lock = threading.Lock()  # guards the number of idle threads that no call was promised
        self._idle = 0
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """A future of what the call returns or raises; MiroirError when no thread can be started."""
        with self._lock:
            idle = self._idle > 0
            self._idle -= idle
        if not idle:
            try:
                threading.Thread(target=self._work, args=[self._calls], name="miroir-verifiers", daemon=True).start()
            except RuntimeError as error:
                raise MiroirError(
                    "THREAD_LIMIT", "this process can start no more threads; raise `ulimit -u`, or play fewer rollouts"
                ) from error
        future: Future[T] = Future()
        self._calls.put((future, call))
        return future

    async def call(self, call: Callable[[], T]) -> T:
        """The result of the call; when the await is cancelled, a call that has begun runs on."""
        return await asyncio.wrap_future(self.submit(call))

    async def outlast(self, call: Callable[[], T]) -> T:
        """The result of the call, awaited through any number of cancellations; the last one is raised at its end."""
        answer = asyncio.wrap_future(self.submit(call))
        cancelled: asyncio.CancelledError | None = None
        while not answer.done():
            try:
                await asyncio.wait([answer])
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled
        return answer.result()

    def _work(self, calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]]) -> None:
        while True:
            try:
                future, call = calls.get(timeout=self._idle_s)
            except queue.Empty:
                with self._lock:
                    if not self._idle:
                        continue  # a call was promised this thread
                    self._idle -= 1
                    return
            answer = _made(call) if future.set_running_or_notify_cancel() else None
            with self._lock:
                self._idle += 1  # before the answer: whoever gets it may have the next call
            if answer is not None:
                answer(future)
            del future, call, answer  # which an idle thread would keep


def _made(call: Callable[[], T]) -> Callable[[Future[T]], None]:
    """Make the call; what is to be done to its future."""
    try:
        result = call()
    except BaseException as error:
        return partial(Future.set_exception, exception=error)
    return partial(Future.set_result, result=result)


threads = Threads()
