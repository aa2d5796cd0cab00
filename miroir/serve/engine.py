"""uvicorn, set up for the protocol: ping times, frame sizes, and signals that are left to the caller."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Iterator

import uvicorn
from starlette.applications import Starlette

from ..wire import MAX_FRAME_BYTES

PING_S = 20.0
SILENT_S = 60.0  # a peer that is silent for so long is dropped
STOP_S = 1  # how long a stopping server waits for calls that run


class Engine(uvicorn.Server):
    """A server that tells when it accepts, and ends its `run` when it is told to stop."""

    def __init__(self, app: Starlette, on_ready: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                loop="asyncio",
                http="h11",
                ws="websockets-sansio",
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
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept, and say so."""
        await super().startup(sockets)
        self._on_ready()

    def stop(self) -> None:
        """End `run` within about two seconds, also while calls run; from any thread."""
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on SIGTERM, and on SIGINT, which is a KeyboardInterrupt once the server has stopped."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        caught: list[int] = []

        def stop(number: int, _frame: object) -> None:
            caught.append(number)
            self.stop()

        before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if signal.SIGINT in caught:
            raise KeyboardInterrupt
