"""The one AppWorld server behind a gateway, shared by the environments of its process."""

from __future__ import annotations

import atexit
import contextlib
import random
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from ...appworld import AppWorldPool, AppWorldSession
from ...appworld.attached import AttachedServer
from ...appworld.data import DataRoot
from ...appworld.session import Settings
from ...errors import InvalidArgument

DOCKER, PROCESS = ENGINES = ("docker", "process")
_PORTS = 16_384, 32_768  # below those of outgoing connections (ip_local_port_range)


@dataclass(frozen=True)
class Options:
    """Which server stands behind, and how its worlds are opened; all in one value, by which it is shared."""

    data_root: str
    engine: str | None
    python: str | None
    url: str | None
    image: str
    outputs_dir: str | None
    startup_timeout_s: float
    max_interactions: int
    execution_timeout_s: float

    def check(self) -> None:
        """InvalidArgument when they exclude each other; AppWorldDataError without the data."""
        if self.engine not in (None, *ENGINES):
            raise InvalidArgument(f"--engine {self.engine!r} runs no AppWorld server; write {' or '.join(ENGINES)}")
        if self.url is not None and (self.python or self.engine):
            raise InvalidArgument("--url names a server that runs; leave out --engine and --python")
        if self.engine == PROCESS and self.python is None:
            raise InvalidArgument("which interpreter has appworld? name it with --python")
        if self.engine == DOCKER and self.python is not None:
            raise InvalidArgument("--python names an interpreter for --engine process; leave it out, or the engine")
        DataRoot(self.data_root).check()


class Backend(Protocol):
    """What opens sessions."""

    def start(self) -> None:
        """Start what opens them."""

    def stop(self) -> None:
        """Stop it."""

    def session(self, task_id: str) -> AbstractContextManager[AppWorldSession]:
        """A session on the task."""


class _Shared:
    """A backend that starts with its first user and stops with its last; its outputs go with it unless they were asked
    for.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._users = 0
        self._lock = threading.Lock()  # held while it starts and stops, so that neither happens twice
        self._held = contextlib.ExitStack()
        self.backend: Backend | None = None

    def join(self) -> Backend:
        """The backend, started for the first user."""
        with self._lock:
            if self.backend is None:
                self.backend = self._start()
            self._users += 1
            return self.backend

    def leave(self) -> None:
        """One user less."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._stop()

    def end(self) -> None:
        """Stop whoever still uses it: the process ends."""
        with self._lock:
            self._stop()

    def _start(self) -> Backend:
        with contextlib.ExitStack() as stack:
            outputs = self._options.outputs_dir
            if outputs is None:
                outputs = tempfile.mkdtemp(prefix="miroir-appworld-outputs-")
                stack.callback(shutil.rmtree, outputs, ignore_errors=True)
            backend = _started(self._options, outputs)
            stack.callback(backend.stop)
            self._held = stack.pop_all()
        atexit.register(self.end)
        return backend

    def _stop(self) -> None:
        atexit.unregister(self.end)
        self.backend = None
        self._held.close()


def _started(options: Options, outputs: str) -> Backend:
    backend: Backend
    if options.url is not None:
        backend = AttachedServer(options.url, Settings("miroir", options.max_interactions, options.execution_timeout_s))
    else:
        backend = AppWorldPool(
            data_root=options.data_root,
            size=1,
            outputs_dir=outputs,
            image=options.image,
            port_base=_free_port(),
            max_interactions=options.max_interactions,
            execution_timeout_s=options.execution_timeout_s,
            startup_timeout_s=options.startup_timeout_s,
            python=options.python,
        )
    backend.start()
    return backend


def _free_port() -> int:
    """A port on which nothing listens, and which the kernel gives to nobody while a server takes seconds to bind it."""
    while True:
        port = random.randrange(*_PORTS)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("", port))
            return port


_all: dict[Options, _Shared] = {}
_all_lock = threading.Lock()  # guards the table


@contextlib.contextmanager
def share(options: Options) -> Iterator[Backend]:
    """The backend of these options; the first who shares it starts it, the last stops it."""
    options.check()
    with _all_lock:
        shared = _all.setdefault(options, _Shared(options))
    backend = shared.join()
    try:
        yield backend
    finally:
        shared.leave()
