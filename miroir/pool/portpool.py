"""Servers on fixed ports of this machine, leased one at a time; what a server is, a subclass says."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from .. import rest
from ..errors import ConnectionFailed, ContainerPoolError, InvalidArgument
from .logfile import last_lines
from .portline import PortLine

PROBE_S = 5.0
POLL_S = 0.5
_LOWEST_PORT = 1024
_HIGHEST_PORT = 65535
_STOPPED = "the pool was stopped; make a new pool"
_log = logging.getLogger("miroir.pool")


class PortPool(ABC):
    """`size` servers on the ports from `port_base`; used once.

    A server is ready when a GET of `readiness_path` is answered with 2xx within `startup_timeout_s` seconds. `start`
    is all or nothing. A lessee has a server alone, and brings it back into the state that the next one expects.
    """

    def __init__(self, *, size: int, port_base: int, readiness_path: str, startup_timeout_s: float) -> None:
        if size < 1:
            raise InvalidArgument(f"a pool of size {size} has no container; ask for at least 1")
        if port_base < _LOWEST_PORT or port_base + size - 1 > _HIGHEST_PORT:
            raise InvalidArgument(
                f"the ports {port_base} to {port_base + size - 1} are not all from {_LOWEST_PORT} to {_HIGHEST_PORT};"
                " choose another port_base"
            )
        if startup_timeout_s <= 0:
            raise InvalidArgument(f"startup_timeout_s is {startup_timeout_s}; give a container more than 0 seconds")
        if not readiness_path.startswith("/"):
            raise InvalidArgument(
                f"the readiness path {readiness_path!r} does not begin with a slash; write /{readiness_path}"
            )
        self.ports = tuple(range(port_base, port_base + size))
        self._path = readiness_path
        self._startup_timeout_s = startup_timeout_s
        self._line = PortLine()
        self._lock = threading.Lock()  # guards the state
        self._state = "new"  # new, starting, started or stopped
        self._abort = threading.Event()

    def start(self) -> None:
        """Start every server; ContainerPoolError with nothing left when one does not become ready."""
        with self._lock:
            if self._state == "stopped":
                raise ContainerPoolError(_STOPPED)
            if self._state != "new":
                raise ContainerPoolError("the pool was already started; lease from it")
            self._state = "starting"
        try:
            self._prepare()
            self._begin_all()
            with self._lock:
                if self._state == "stopped":
                    raise ContainerPoolError(_STOPPED)
                self._state = "started"
                self._line.open(self.ports)
        except BaseException:
            self._clean_up()
            with self._lock:
                if self._state == "starting":
                    self._state = "new"
            raise
        _log.info("%d containers of %s on ports %d to %d", len(self.ports), self._kind, self.ports[0], self.ports[-1])

    def stop(self) -> None:
        """Remove every server; waiters have a ContainerPoolError. May be called before `start`, and again."""
        leased = self._line.leased
        if leased:
            _log.error("the pool stops with %d leases in use; their requests will fail", leased)
        with self._lock:
            self._state = "stopped"
        self._abort.set()
        self._line.close(_STOPPED)
        self._remove_all()

    @contextlib.contextmanager
    def lease(self) -> Iterator[int]:
        """The port of a server that nobody else has, as soon as there is one; no time limit."""
        port = self._line.take()
        try:
            yield port
        finally:
            self._line.give_back(port)

    def restart(self, port: int) -> None:
        """Replace the server of a port that the caller leases; ContainerPoolError when that fails.

        The port is then never leased again.
        """
        if self._state == "stopped":
            raise ContainerPoolError(_STOPPED)
        try:
            self._remove(port)
            self._begin(port)
        except _Aborted:
            raise ContainerPoolError(_STOPPED) from None
        except BaseException:
            self._line.drop(port)
            raise

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # What a subclass says

    @property
    @abstractmethod
    def _kind(self) -> str:
        """What the servers are, in a word."""

    @abstractmethod
    def logs(self, port: int) -> str:
        """The last 50 lines of a server, or why they cannot be had."""

    @abstractmethod
    def _name(self, port: int) -> str:
        """What the server of a port is called."""

    @abstractmethod
    def _prepare(self) -> None:
        """See, before any server starts, that all can."""

    @abstractmethod
    def _run(self, port: int) -> None:
        """Run the server of a port and return at once; ContainerPoolError when it cannot be run."""

    @abstractmethod
    def _ended(self, port: int) -> str | None:
        """How the server of a port ended, in words; None while it runs."""

    @abstractmethod
    def _remove(self, port: int) -> None:
        """End one server, and only say so when that fails."""

    @abstractmethod
    def _remove_all(self) -> None:
        """End whatever was run; ContainerPoolError when something may be left. May be called again."""

    # How servers are begun

    def _begin_all(self) -> None:
        """Begin all at once and wait; the first failure ends the other starts, and is raised."""
        failures: list[BaseException] = []

        def begin(port: int) -> None:
            try:
                self._begin(port)
            except BaseException as error:  # it is raised in the thread that called start
                failures.append(error)
                self._abort.set()

        threads = [threading.Thread(target=begin, args=(port,), name=f"miroir-start-{port}") for port in self.ports]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except BaseException:  # Ctrl-C: nobody may start a container while others are removed
            self._abort.set()
            for thread in filter(threading.Thread.is_alive, threads):
                thread.join()
            raise
        real = [failure for failure in failures if not isinstance(failure, _Aborted)]
        for failure in real[1:]:
            _log.error("another container could not be started: %s", failure)
        if failures:
            raise real[0] if real else ContainerPoolError(_STOPPED)

    def _begin(self, port: int) -> None:
        """Run a server and wait until it is ready."""
        self._run(port)
        try:
            self._wait_ready(port)
        except _Aborted:
            self._remove(port)
            raise
        except Exception as error:
            said = error.message if isinstance(error, ContainerPoolError) else error
            why = "not ready (timeout)" if isinstance(error, TimeoutError) else f"error while starting: {said}"
            log = self.logs(port)  # while there is one
            self._remove(port)
            raise ContainerPoolError(
                f"{self._name(port)}: {why}, within {self._startup_timeout_s:g} s; its log:\n{log}",
                log=last_lines(log),
            ) from error

    def _wait_ready(self, port: int) -> None:
        deadline = time.monotonic() + self._startup_timeout_s
        url = f"http://127.0.0.1:{port}{self._path}"
        while True:
            if self._abort.is_set():
                raise _Aborted
            with contextlib.suppress(ConnectionFailed):
                status, _, _ = rest.fetch("GET", url, timeout_s=PROBE_S)
                if 200 <= status < 300 and not self._ended(port):  # else another server answers at the port
                    return
            ended = self._ended(port)
            if ended:
                raise ChildProcessError(f"it {ended}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"{url} was not answered with 2xx")
            self._abort.wait(POLL_S)

    def _clean_up(self) -> None:
        try:
            self._remove_all()
        except ContainerPoolError as error:
            _log.error("containers may be left: %s", error.message)
        self._abort.clear()


class _Aborted(Exception):
    """A start that ends because another one failed, or because the pool was stopped."""
