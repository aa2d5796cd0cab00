"""Serving an environment on a port: in this thread until it is stopped, or in the background of a `with` block."""

from __future__ import annotations

import contextlib
import errno
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ..errors import InvalidArgument, MissingExtra
from .world import Factory

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from .engine import Engine

LOOPBACK = "127.0.0.1"
_SWITCH_S = 0.0005
_UNSENT_MS = 60_000


def create_app(
    factory: Factory, *, token: str | None = None, max_sessions: int = 1, allow_code: bool = False
) -> Starlette:
    """The ASGI application that serves what `factory` makes, to at most `max_sessions` sessions at a time."""
    if max_sessions < 1:
        raise InvalidArgument(f"max_sessions is {max_sessions}; a server needs at least one")
    with _extra():
        from . import app
    return app.create_app(factory, token=token, max_sessions=max_sessions, allow_code=allow_code)


def serve(
    factory: Factory,
    *,
    host: str = LOOPBACK,
    port: int = 0,
    token: str | None = None,
    max_sessions: int = 1,
    allow_code: bool = False,
    on_ready: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve until SIGTERM, SIGHUP or SIGINT, which is raised as KeyboardInterrupt; for port 0 the kernel chooses one.

    `on_ready` is called with the base URL once the server accepts. InvalidArgument when the port cannot be had.
    """
    with _listener(host, port) as listener:
        app = create_app(factory, token=token, max_sessions=max_sessions, allow_code=allow_code)
        engine = _engine(app, listener, on_ready)
        # A health request passes through several turns of the loop, and a busy step may hold each up for one switch.
        before = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_S)
        try:
            engine.run(sockets=[listener])
        finally:
            sys.setswitchinterval(before)
        if engine.failure is not None:
            raise engine.failure
        if engine.interrupted:
            raise KeyboardInterrupt


@contextlib.contextmanager
def running(
    factory: Factory,
    *,
    host: str = LOOPBACK,
    port: int = 0,
    token: str | None = None,
    max_sessions: int = 1,
    allow_code: bool = False,
) -> Iterator[str]:
    """A server in a thread of this process, for tests and notebooks: its base URL, until the block is left."""
    with _listener(host, port) as listener:
        app = create_app(factory, token=token, max_sessions=max_sessions, allow_code=allow_code)
        ready = threading.Event()
        engine = _engine(app, listener, lambda _: ready.set())
        thread = threading.Thread(target=engine.run, args=([listener],), name="miroir-server", daemon=True)
        thread.start()
        try:
            while not ready.wait(0.05):
                if not thread.is_alive():
                    raise RuntimeError("the server could not start; its traceback is on stderr")
            yield base_url(listener)
        finally:
            engine.stop()
            thread.join()


def base_url(listener: socket.socket) -> str:
    """The base URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _engine(app: Starlette, listener: socket.socket, on_ready: Callable[[str], None]) -> Engine:
    with _extra():
        from .engine import Engine
    return Engine(app, lambda: on_ready(base_url(listener)))


@contextlib.contextmanager
def _listener(host: str, port: int) -> Iterator[socket.socket]:
    if not 0 <= port <= 65535:
        raise InvalidArgument(f"{port} is not a port; choose one from 1 to 65535, or 0 for a free one")
    with contextlib.ExitStack() as stack:
        try:
            family, kind, number, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            listener = stack.enter_context(socket.socket(family, kind, number))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen()
        except OSError as error:
            if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
                raise InvalidArgument(
                    f"{host} is no address of this machine: {error.strerror}; choose one that is, such as {LOOPBACK}"
                ) from error
            why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be had: {error.strerror}"
            raise InvalidArgument(f"port {port} of {host} {why}; choose another, or 0 for a free one") from error
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            # Accepted connections inherit it: a frozen peer with a full buffer would hold its lease for ever.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNSENT_MS)
        yield listener


@contextlib.contextmanager
def _extra() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("starlette", "uvicorn"):
            raise
        raise MissingExtra(f"{error.name.partition('.')[0]} is not installed; pip install 'miroir[serve]'") from error
