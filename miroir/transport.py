"""One WebSocket to one container: open it, exchange a frame for a reply under a deadline, close it.

A connection is good for as long as no reply is owed. Whatever interrupts an exchange (a timeout, a lost peer,
KeyboardInterrupt) closes the socket, so that no later call can read the reply to an earlier one.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import sys
import threading
import time
import urllib.request
import weakref
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import urlsplit

from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.frames import DATA_OPCODES, Frame
from websockets.sync.client import ClientConnection, connect

from . import wire
from .errors import InvalidArgument
from .rest import bearer, is_private, reason

HANDSHAKE_TIMEOUT_S = 30.0
PING_INTERVAL_S = 20.0
PING_TIMEOUT_S = 60.0  # a trainer that holds the interpreter for half a minute answers late, and is alive
CLOSE_TIMEOUT_S = 2.0
KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 3, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 15_000}  # s, and ms the last
_LARGE = 1_048_576  # bytes of a frame that are more than some servers take
_BUFFERED = 65_536  # bytes that the socket's buffer takes without a reader at the other end
_INTERRUPTED = "a call on it was interrupted while its reply was owed"

_silent = logging.Logger("websockets", logging.CRITICAL + 1)  # it would write headers, and with them the token
_sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()  # every one that is a lease, or is becoming one
_transports: weakref.WeakSet[Transport] = weakref.WeakSet()


class HandshakeRefused(Exception):
    """The server answered the handshake with an HTTP status instead."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the handshake was refused with HTTP {status}")
        self.status = status


class HandshakeFailed(Exception):
    """No connection came about; the text says why, and `errno` where the system gave one."""

    def __init__(self, why: str, errno: int | None = None) -> None:
        super().__init__(why)
        self.errno = errno


class LinkClosed(Exception):
    """The connection is gone; the text says why."""


class LinkTimeout(Exception):
    """The reply did not come before its deadline; the connection was closed."""


class Connection(ClientConnection):
    """Counts the messages that came, so that nobody need look for one that was not asked for."""

    came = 0

    def process_event(self, event: Any) -> None:
        """Process what was received, as websockets does."""
        if isinstance(event, Frame) and event.fin and event.opcode in DATA_OPCODES:
            self.came += 1
        super().process_event(event)


class Transport:
    """An open WebSocket, used by one caller at a time; further callers queue."""

    def __init__(self, connection: Connection, url: str) -> None:
        self.url = url
        self.greeting: dict[str, Any] = {}  # its first frame, which tells what the server can do
        self._connection = connection
        self._socket = connection.socket
        self._turn = threading.Lock()  # one exchange at a time
        self._owed = False
        self._read = 0  # messages, of those that came
        self._closed: str | None = None
        _transports.add(self)

    @property
    def usable(self) -> bool:
        """Whether a further exchange may succeed: open, no reply owed, and not inherited by fork."""
        return self._closed is None and not self._owed and self._connection.close_code is None

    def exchange(self, frame: Any, timeout_s: float) -> dict[str, Any]:
        """Send `frame` and return its reply within `timeout_s` seconds; LinkTimeout, LinkClosed or InvalidArgument.

        An error frame with which the server ended the session unasked counts as the reply.
        """
        data = _encoded(frame)
        with self._turn:
            self._check()
            self._owed = True
            try:
                reply = self._round_trip(data, min(timeout_s, threading.TIMEOUT_MAX))
            except BaseException as error:
                fault = self._broken(error, timeout_s)
                if fault is None:
                    raise
                if isinstance(fault, LinkClosed) and len(data) > _LARGE:
                    fault = LinkClosed(f"{fault}, after {len(data):,} bytes, which may be more than it takes")
                raise fault from error
            self._owed = False
            return reply

    def close(self) -> None:
        """Close the connection, cleanly when no call is running; a running call is woken. Idempotent."""
        try:
            # As the interpreter ends, websockets would wait for its thread, which has ended and cannot say so.
            if self._closed is None and not sys.is_finalizing() and self._turn.acquire(blocking=False):
                try:
                    self._closed = "it was closed"
                    self._connection.close()
                finally:
                    self._turn.release()
        finally:
            self.abort("it was closed")

    def abort(self, why: str) -> None:
        """Cut the connection at once, without a closing handshake; takes no lock."""
        self._closed = self._closed or why
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _check(self) -> None:
        if self._closed is not None:
            raise LinkClosed(self._closed)
        if sys.is_finalizing():
            raise LinkClosed("the interpreter is ending, and nobody reads replies any more")
        if self._owed:
            raise LinkClosed(_INTERRUPTED)

    def _round_trip(self, data: bytes, timeout_s: float) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        if self._connection.came != self._read:
            unasked = self._unasked()
            if unasked is not None:
                return unasked
        try:
            if len(data) <= _BUFFERED:
                self._connection.send(data, text=True)
            else:
                self._send_large(data, timeout_s)
        except ConnectionClosed:
            # What a server says before it closes is still there to be read when nothing more can be sent.
            unasked = self._unasked()
            if unasked is None:
                raise
            return unasked
        return self._receive(deadline - time.monotonic())

    def _unasked(self) -> dict[str, Any] | None:
        """A frame that came without a request: the error that ended the session; anything else is LinkClosed."""
        try:
            frame = self._receive(0)
        except TimeoutError:
            return None
        if not wire.ends_session(frame):
            raise LinkClosed("it sent a frame that nobody asked for")
        return frame

    def _receive(self, timeout_s: float) -> dict[str, Any]:
        data = self._connection.recv(timeout_s, decode=False)
        self._read += 1
        return wire.decode(data, lenient=True)

    def _send_large(self, data: bytes, timeout_s: float) -> None:
        """Send what may block for ever, where the peer does not read."""
        late = threading.Event()

        def cut() -> None:
            late.set()
            self.abort(f"the peer took no data for {timeout_s:g} s")

        timer = threading.Timer(timeout_s, cut)
        timer.daemon = True
        timer.start()
        try:
            self._connection.send(data, text=True)
        except ConnectionClosed:
            if late.is_set():
                raise LinkTimeout(str(self._closed)) from None
            raise
        finally:
            timer.cancel()

    def _broken(self, error: BaseException, timeout_s: float) -> LinkClosed | LinkTimeout | None:
        closed = self._closed  # by another thread, to wake this call
        fault = _as_link_fault(error, timeout_s)
        self.abort(str(fault) if fault else _INTERRUPTED)
        return LinkClosed(closed) if closed and isinstance(error, ConnectionClosed) else fault


def open_transport(
    url: str,
    token: str | None = None,
    *,
    waiting: str | None = None,
    timeout_s: float = HANDSHAKE_TIMEOUT_S,
    on_dial: Callable[[socket.socket], object] | None = None,
) -> Transport:
    """Connect to the container at base URL `url` within `timeout_s` seconds; HandshakeRefused or HandshakeFailed.

    `on_dial` is given the TCP socket before the handshake: shutting it down from another thread ends the attempt.
    """
    headers = bearer(token)
    if waiting:
        headers[wire.WAITING_HEADER] = waiting
    deadline = time.monotonic() + timeout_s
    try:
        sock = None if _needs_proxy(url) else _dial(url, timeout_s)
        if sock is not None and on_dial is not None:
            on_dial(sock)
        opened = connect(
            _websocket_url(url),
            sock=sock,
            create_connection=Connection,
            proxy=True if sock is None else None,
            compression=None,
            additional_headers=headers,
            open_timeout=max(0.0, deadline - time.monotonic()),
            ping_interval=PING_INTERVAL_S,
            ping_timeout=PING_TIMEOUT_S,
            close_timeout=CLOSE_TIMEOUT_S,
            max_size=None,
            logger=_silent,
        ).__enter__()
    except InvalidStatus as error:
        raise HandshakeRefused(error.response.status_code) from error
    except (OSError, ValueError, ImportError, WebSocketException) as error:
        if isinstance(error, TimeoutError) or time.monotonic() >= deadline:
            raise HandshakeFailed(f"the handshake took more than {timeout_s:g} s") from error
        why = _why_closed(error) if isinstance(error, ConnectionClosed) else reason(error)
        raise HandshakeFailed(why, getattr(error, "errno", None)) from error
    connection = cast("Connection", opened)
    _sockets.add(connection.socket)
    if sock is None:
        with contextlib.suppress(OSError):  # refused and closed already; the refusal is still to be read
            _set_options(connection.socket)
    return Transport(connection, url)


def _encoded(frame: Any) -> bytes:
    try:
        data = wire.encode(frame).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(
            f"this cannot be sent as JSON ({error}); send finite numbers, text, lists, dicts"
        ) from None
    if len(data) > wire.MAX_FRAME_BYTES:
        raise InvalidArgument(
            f"a frame of {len(data):,} bytes is larger than the {wire.MAX_FRAME_BYTES:,} that may be sent; send less"
        )
    return data


def _websocket_url(url: str) -> str:
    scheme, rest = url.split("://", 1)
    return f"{'wss' if scheme.lower() == 'https' else 'ws'}://{rest.removesuffix('/')}/ws"


def _needs_proxy(url: str) -> bool:
    return not is_private(url) and bool(urllib.request.getproxies())


def _dial(url: str, timeout_s: float) -> socket.socket:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    sock = socket.create_connection((parts.hostname, port), timeout=timeout_s)
    _sockets.add(sock)
    _set_options(sock)
    return sock


def _set_options(sock: socket.socket) -> None:
    """Let the kernel find a host that is gone within 35 s.

    It gives up on data that nobody acknowledges, and on a peer that is silent while nothing is in flight. A ping may
    go out just before the second would be noticed, and begins the first anew: their limits add up.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if hasattr(socket, name):  # Linux has them all; others some
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _as_link_fault(error: BaseException, timeout_s: float) -> LinkClosed | LinkTimeout | None:
    """What the error means for the connection; None for one that is nobody's fault, such as KeyboardInterrupt."""
    if isinstance(error, ConnectionClosed):
        return LinkClosed(_why_closed(error))
    if isinstance(error, TimeoutError):
        return LinkTimeout(f"no reply came within {timeout_s:g} s")
    if isinstance(error, ValueError | RecursionError):
        return LinkClosed("it answered what is not a JSON frame")
    return error if isinstance(error, LinkClosed | LinkTimeout) else None


def _why_closed(error: ConnectionClosed) -> str:
    frame = error.rcvd
    if frame is not None:
        return f"the server closed it ({frame.code}{' ' + frame.reason if frame.reason else ''})"
    if error.sent is not None and error.sent.reason:
        return f"it was given up ({error.sent.reason})"
    if isinstance(error.__cause__, OSError):
        return reason(error.__cause__)
    return "the server went away without a closing handshake"


def _close_inherited() -> None:
    # The parent's lease ends with its last descriptor: a child that lives on must not hold one.
    for sock in list(_sockets):
        with contextlib.suppress(OSError):
            sock.close()
    for transport in list(_transports):
        transport._closed = "it was inherited by fork; lease a session in this process"


os.register_at_fork(after_in_child=_close_inherited)
