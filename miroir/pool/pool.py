"""A pool: containers of one engine, kept running, and their URL file, kept true."""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from types import TracebackType

from ..errors import ContainerPoolError, InvalidArgument, UrlFileError
from .engine import Change, Engine, Event
from .urlfile import UrlFile

_TICK_S = 0.1
_log = logging.getLogger("miroir.pool")


class Pool:
    """`n` containers of `engine`, from `start` to `stop`, or in a `with` block; used once.

    All or nothing: `start` returns when every container is ready, or raises with nothing left. With `least`, so many
    suffice, and those that failed are tried again. `urls_file` then holds the URLs of those that are ready, at every
    moment until `stop`. `on_event` is told of each change, by whichever thread sees it.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        n: int,
        least: int | None = None,
        urls_file: str | os.PathLike[str] | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        if n < 1:
            raise InvalidArgument(f"a pool of {n} has no container; ask for at least 1")
        self._engine = engine
        if least is not None and not 0 <= least <= n:
            raise InvalidArgument(f"at least {least} of {n} containers cannot be; ask for 1 to {n}")
        self._n = n
        self._least = n if least is None else least
        self._file = UrlFile(urls_file) if urls_file is not None else None
        self._on_event = on_event
        self._cancelled = False  # written by `cancel` alone, which a signal handler may call: no lock
        self._given_up = 0
        self._filed: list[str] = []
        self._stopping = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="miroir-pool", daemon=True)
        self._pid = os.getpid()

    @property
    def urls(self) -> list[str]:
        """The base URLs of the containers that are ready now."""
        return self._engine.ready()

    def start(self) -> None:
        """Start every container, then write the URL file; UrlFileError or ContainerPoolError with nothing left.

        Returns with nothing running when `cancel` was called meanwhile.
        """
        if self._file:
            self._file.claim()
        try:
            self._engine.start(self._n)
            if not self._enough_ready():
                self.stop()
                return
            self._file_urls()
            self._keeper.start()
        except ContainerPoolError:
            self.stop()
            if not self._cancelled:  # else it only says that what was being prepared was given up
                raise
        except BaseException:
            self.stop()
            raise

    def wait(self) -> None:
        """Return when `cancel` is called; ContainerPoolError when every container was given up."""
        while not self._cancelled:
            if self._given_up >= self._n:
                raise ContainerPoolError("every container was given up; read their logs and start again")
            time.sleep(_TICK_S)

    def cancel(self) -> None:
        """Have `start` and `wait` return. Safe in a signal handler."""
        self._cancelled = True
        self._engine.cancel()

    def kill(self) -> None:
        """Take the grace from a `stop` that runs or comes. Safe in a signal handler."""
        self._engine.kill()

    def stop(self) -> None:
        """Remove the URL file and stop every container; nothing is left. May be called again."""
        if os.getpid() != self._pid:  # a forked child has a copy of the pool, and none of its containers
            return
        self._stopping.set()
        if self._keeper.is_alive():
            self._keeper.join()
        if self._file:
            self._file.remove()
        try:
            self._engine.stop()
        except BaseException:  # Ctrl-C while we wait for servers
            self._engine.kill()
            self._engine.stop()
            raise
        finally:
            if self._file:
                self._file.release()

    def __enter__(self) -> Pool:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _enough_ready(self) -> bool:
        """Wait until all are ready or have failed: False when `cancel` came; ContainerPoolError when too many did."""
        failed: set[str] = set()
        while not self._cancelled:
            event = self._next_event()
            self._tell(event)
            if event and event.change in (Change.FAILED, Change.GIVEN_UP):
                failed.add(event.name)
                if self._n - len(failed) < self._least:
                    last = f": {event.log[-1].strip()}" if event.log else ""
                    raise ContainerPoolError(
                        f"{event.name} {event.detail}{last}; nothing was left running", log=event.log
                    )
            ready = len(self._engine.ready())
            if ready == self._n or (failed and ready >= self._least and ready + len(failed) >= self._n):
                return True
        return False

    def _keep(self) -> None:
        """Keep the file true and pass events on, until `stop`."""
        warned = False
        while not self._stopping.is_set():
            event = self._next_event()
            try:
                self._file_urls()
                warned = False
            except UrlFileError as error:  # the disk is full, say; the next tick tries again
                if not warned:
                    _log.warning("%s", error.message)
                warned = True
            self._tell(event)

    def _next_event(self) -> Event | None:
        try:
            event = self._engine.events.get(timeout=_TICK_S)
        except queue.Empty:
            return None
        self._given_up += event.change is Change.GIVEN_UP
        return event

    def _tell(self, event: Event | None) -> None:
        if event and self._on_event:
            try:
                self._on_event(event)
            except Exception:
                _log.exception("on_event raised")

    def _file_urls(self) -> None:
        urls = self._engine.ready()
        if self._file and urls != self._filed:
            self._file.write(urls)
            self._filed = urls
