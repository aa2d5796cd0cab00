"""Opening a session on a container: handshake, first frame, and what they mean for the lease."""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import dataclass
from typing import Any

from .. import wire
from ..schedule import Outcome, refuses
from ..schedule.chains import UNKNOWN
from ..transport import HandshakeFailed, HandshakeRefused, LinkClosed, LinkTimeout, Transport, open_transport
from . import descriptors

ASK_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Attempt:
    """What came of an attempt: a transport, or why there is none.

    `count` is the HTTP status of a refusal, or the number of sessions of a busy container where it is told.
    """

    outcome: Outcome
    transport: Transport | None = None
    reason: str = ""
    count: int | None = None


class Dialling:
    """The sockets of the attempts under way, so that all can be ended at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _sockets and _closed
        self._sockets: set[socket.socket] = set()
        self._closed = False

    def add(self, sock: socket.socket) -> None:
        """Take in a socket that is connected; it is shut down when all are."""
        with self._lock:
            self._sockets.add(sock)
            if self._closed:
                _shut(sock)

    def remove(self, sock: socket.socket) -> None:
        """Forget a socket whose attempt is over."""
        with self._lock:
            self._sockets.discard(sock)

    def close(self) -> None:
        """End every attempt, those that begin later included."""
        with self._lock:
            self._closed = True
            for sock in self._sockets:
                _shut(sock)


def attempt(url: str, token: str | None, *, waiting: str, timeout_s: float, dialling: Dialling) -> Attempt:
    """Try to open a session on the container at `url`; `timeout_s` bounds the handshake and its first frame, each."""
    dialled: list[socket.socket] = []

    def on_dial(sock: socket.socket) -> None:
        dialled.append(sock)
        dialling.add(sock)

    try:
        transport = open_transport(url, token, waiting=waiting, timeout_s=timeout_s, on_dial=on_dial)
        return _judged(transport, transport.exchange({"type": "state"}, timeout_s))
    except HandshakeRefused as error:
        outcome = Outcome.REFUSED if refuses(error.status) else Outcome.SICK
        return Attempt(outcome, reason=str(error), count=error.status)
    except HandshakeFailed as error:
        return Attempt(Outcome.STARVED if error.errno in descriptors.EXHAUSTED else Outcome.SICK, reason=str(error))
    except (LinkClosed, LinkTimeout) as error:
        return Attempt(Outcome.SICK, reason=f"its first frame did not come: {error}")
    finally:
        for sock in dialled:
            dialling.remove(sock)


def wanted(transport: Transport) -> float | None:
    """How many seconds ago the container saw another client wait; infinity when it does not say."""
    try:
        data = transport.exchange({"type": "state"}, ASK_TIMEOUT_S).get("data")
    except (LinkClosed, LinkTimeout):
        return UNKNOWN
    said = data.get("wanted_s", UNKNOWN) if isinstance(data, dict) else UNKNOWN
    return said if isinstance(said, int | float) else None


def _judged(transport: Transport, first: dict[str, Any]) -> Attempt:
    """What the first frame says: any but an error that ends the session proves the lease."""
    if not wire.ends_session(first):
        transport.greeting = first
        return Attempt(Outcome.OPENED, transport)
    data = first["data"]
    transport.abort(f"the server ended the session: {data['code']}")
    if data["code"] == wire.CAPACITY_REACHED:
        slots = data.get("max_sessions")
        return Attempt(Outcome.BUSY, count=slots if type(slots) is int and slots > 0 else None)
    return Attempt(Outcome.SICK, reason=f"{data['code']}: {data.get('message', '')}")


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
