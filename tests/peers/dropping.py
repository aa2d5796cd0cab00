"""A TCP proxy that cuts what goes through it when it is told to."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


class Dropping:
    """Connections to a port, passed on to `target`; `drop` cuts all that are open."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
                self._open += [near, far]
                for ends in ((near, far), (far, near)):
                    thread = threading.Thread(target=self._pass, args=ends, daemon=True)
                    self._threads.append(thread)
                    thread.start()

    @staticmethod
    def _pass(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def drop(self) -> None:
        """Cut every connection."""
        for end in self._open:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End it all."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop()
        for thread in self._threads:
            thread.join()
        for end in self._open:
            end.close()


@contextlib.contextmanager
def dropping(port: int) -> Iterator[Dropping]:
    """A proxy in front of the port of 127.0.0.1."""
    proxy = Dropping(port)
    try:
        yield proxy
    finally:
        proxy.close()
