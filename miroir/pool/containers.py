"""Containers on fixed ports of this machine, leased one at a time; what runs inside is not known here."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType

from .. import rest
from ..errors import ConnectionFailed, ContainerPoolError, InvalidArgument
from .docker.cli import DOCKER, Docker
from .docker.container import exited, read_logs
from .docker.label import label_argv, marked, remove
from .docker.mount import Mount
from .docker.sweep import sweep
from .logfile import last_lines
from .owner import Owner
from .portline import PortLine

PROBE_S = 5.0
POLL_S = 0.5
_LOWEST_PORT = 1024
_HIGHEST_PORT = 65535
_STOPPED = "the pool was stopped; make a new pool"
_log = logging.getLogger("miroir.pool")


class ContainerPool:
    """`size` containers of `image` on the ports from `port_base`, the same inside and outside; used once.

    A container is called `name_prefix`-port, is run with `container_args(port)`, and is ready when a GET of
    `readiness_path` is answered with 2xx within `startup_timeout_s`. `start` is all or nothing. A lessee has a
    container alone, and brings it back into the state that the next one expects.
    """

    def __init__(
        self,
        *,
        image: str,
        size: int,
        port_base: int,
        name_prefix: str,
        container_args: Callable[[int], Sequence[str]],
        readiness_path: str,
        mounts: Sequence[Mount] = (),
        startup_timeout_s: float,
        docker: Sequence[str] = DOCKER,
    ) -> None:
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
            raise InvalidArgument(f"the readiness path {readiness_path!r} does not begin with a slash")
        self.ports = tuple(range(port_base, port_base + size))
        self._image = image
        self._prefix = name_prefix
        self._args = container_args
        self._path = readiness_path
        self._mounts = [word for mount in mounts for word in ("-v", mount.to_arg())]
        self._startup_timeout_s = startup_timeout_s
        self._docker = Docker(docker)
        self._pool = uuid.uuid4().hex[:12]
        self._line = PortLine()
        self._lock = threading.Lock()  # guards the fields below
        self._state = "new"  # new, starting, started or stopped
        self._ran = False  # whether docker was asked to start any
        self._begun: set[str] = set()  # names of containers that it has started for us
        self._abort = threading.Event()

    def start(self) -> None:
        """Start every container; ContainerPoolError with nothing left when one does not become ready."""
        with self._lock:
            if self._state == "stopped":
                raise ContainerPoolError(_STOPPED)
            if self._state != "new":
                raise ContainerPoolError("the pool was already started; lease from it")
            self._state = "starting"
        try:
            self._docker.check()
            self._docker.have(self._image, given_up=self._abort.is_set)
            sweep(self._docker)
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
        _log.info("%d containers of %s on ports %d to %d", len(self.ports), self._image, self.ports[0], self.ports[-1])

    def stop(self) -> None:
        """Remove every container; waiters have a ContainerPoolError. May be called before `start`, and again."""
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
        """The port of a container that nobody else has, as soon as there is one; no time limit."""
        port = self._line.take()
        try:
            yield port
        finally:
            self._line.give_back(port)

    def logs(self, port: int) -> str:
        """The last 50 lines of a container, or why they cannot be had."""
        return read_logs(self._docker, self._name(port))

    def restart(self, port: int) -> None:
        """Replace the container of a port that the caller leases; ContainerPoolError when that fails.

        The port is then never leased again.
        """
        try:
            self._remove(self._name(port))
            self._begin(port)
        except _Aborted:
            raise ContainerPoolError(_STOPPED) from None
        except BaseException:
            self._line.drop(port)
            raise

    def __enter__(self) -> ContainerPool:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _name(self, port: int) -> str:
        return f"{self._prefix}-{port}"

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
        """Run a container and wait until it is ready."""
        name = self._name(port)
        labels = label_argv(pool=self._pool, owner=Owner.me().dump(), slot=name)
        self._ran = True
        done = self._docker.call(
            "run", "-d", "--name", name, *labels, "-p", f"{port}:{port}", *self._mounts, self._image, *self._args(port)
        )  # fmt: skip
        if done.code:
            what = f"{name} could not be started: `docker run` ended with exit code {done.code}"
            raise ContainerPoolError(self._docker.explained(what, done))
        self._begun.add(name)
        try:
            self._wait_ready(name, port)
        except _Aborted:
            self._remove(name)
            raise
        except Exception as error:
            said = error.message if isinstance(error, ContainerPoolError) else error
            why = "not ready (timeout)" if isinstance(error, TimeoutError) else f"error while starting: {said}"
            log = read_logs(self._docker, name)  # while there is one
            self._remove(name)
            raise ContainerPoolError(
                f"{name}: {why}, within {self._startup_timeout_s:g} s; its log:\n{log}", log=last_lines(log)
            ) from error

    def _wait_ready(self, name: str, port: int) -> None:
        deadline = time.monotonic() + self._startup_timeout_s
        url = f"http://127.0.0.1:{port}{self._path}"
        while True:
            if self._abort.is_set():
                raise _Aborted
            with contextlib.suppress(ConnectionFailed):
                status, _, _ = rest.fetch("GET", url, timeout_s=PROBE_S)
                if 200 <= status < 300 and not self._ended(name):  # else another server answers at the port
                    return
            ended = self._ended(name)
            if ended:
                raise ChildProcessError(f"it {ended}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"{url} was not answered with 2xx")
            self._abort.wait(POLL_S)

    def _ended(self, name: str) -> str | None:
        state = json.loads(self._docker.ask("inspect", name))[0]["State"]
        return exited(state)

    def _remove(self, name: str) -> None:
        """Remove one container, and only say so when that fails: its survivor would break the next pool."""
        try:
            fault = remove(self._docker, [name])
        except ContainerPoolError as error:
            fault = error.message
        if fault:
            _log.error("the container %s could not be removed: %s", name, fault)
        else:
            self._begun.discard(name)

    def _clean_up(self) -> None:
        try:
            self._remove_all()
        except ContainerPoolError as error:
            _log.error("containers may be left: %s", error.message)
        self._abort.clear()

    def _remove_all(self) -> None:
        """Remove what docker has started for us, and what a failed `docker run` has made under our label."""
        if not self._ran:
            return
        names = self._begun | {container.name for container in marked(self._docker, self._pool)}
        fault = remove(self._docker, sorted(names))
        self._begun.clear()
        if fault:
            raise ContainerPoolError(f"containers of the pool could not be removed: {fault}; remove them by name")


class _Aborted(Exception):
    """A start that ends because another one failed, or because the pool was stopped."""
