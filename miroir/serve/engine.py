"""uvicorn, set up for the protocol: ping times, frame sizes, and signals that are left to the caller."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Iterator

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from ..errors import MiroirError
from ..wire import MAX_FRAME_BYTES
from .catalog import Catalog, CatalogError

PING_S = 20.0
SILENT_S = 60.0  # a peer that is silent for so long is dropped
STOP_S = 1  # how long a stopping server waits for calls that run
_TICK_S = 0.1


class _Connection(WebSocketsSansIOProtocol):
    """A connection whose end its client sees, although a process that a world has forked off holds it still."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the client before the socket is closed, which alone would tell nobody."""
        with contextlib.suppress(OSError):
            self.transport.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        super().connection_lost(exc)


class Engine(uvicorn.Server):
    """A server that tells when it accepts, and ends its `run` when it is told to stop."""

    def __init__(self, app: Starlette, on_ready: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                loop="asyncio",
                http="h11",
                ws=_Connection,
                # Above the protocol's limit, so that a frame over it is read and answered with an error.
                ws_max_size=2 * MAX_FRAME_BYTES,
                ws_ping_interval=PING_S,
                ws_ping_timeout=SILENT_S - PING_S,
                ws_per_message_deflate=False,
                lifespan="on",
                interface="asgi3",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                date_header=False,
                timeout_graceful_shutdown=STOP_S,
            )
        )
        self._catalog: Catalog = app.state.catalog
        self._on_ready = on_ready
        self.failure: Exception | None = None  # what `on_ready` raised, or the environment of its options
        self.interrupted = False  # whether it was SIGINT that stopped it

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept once the environment is made, and say so; an environment that takes long can be stopped meanwhile."""
        opening = asyncio.create_task(self._open())
        while not opening.done() and not self.should_exit:
            await asyncio.wait((opening,), timeout=_TICK_S)
        if self.should_exit:
            return
        await super().startup(sockets)
        try:
            self._on_ready()
        except Exception as error:  # stop as if told to, and raise it when all is closed
            self.failure = error
            self.stop()

    async def _open(self) -> None:
        try:
            await self._catalog.open()
        except CatalogError as error:  # the application tries again, and logs it
            if isinstance(error.__cause__, MiroirError):  # it says of itself that it cannot work as it was set up
                self.failure = error.__cause__
                self.stop()

    def stop(self) -> None:
        """End `run` within about two seconds, also while calls run; from any thread."""
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on SIGTERM, SIGINT and a terminal's SIGHUP, where signals arrive: in the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        hang_up = [] if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else [signal.SIGHUP]  # nohup means it
        before = {number: signal.signal(number, self._caught) for number in (signal.SIGTERM, signal.SIGINT, *hang_up)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _caught(self, number: int, _frame: object) -> None:
        self.interrupted = number == signal.SIGINT
        self.stop()
