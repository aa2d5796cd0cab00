"""A WebSocket to the server under test: any text may be sent, and the last exchange is kept as evidence."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import time
from typing import Any

from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect

from ..rest import bearer, is_private, reason
from ..wire import MAX_FRAME_BYTES, WAITING_HEADER
from .evidence import Evidence

OPEN_S = 10.0
REPLY_S = 15.0

_silent = logging.Logger("websockets", logging.CRITICAL + 1)  # it would write headers, and with them the token


class Refused(Exception):
    """The handshake was answered with the HTTP status `status`, or by none (0)."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Ended(Exception):
    """The server closed the connection, with `code` where it gave one, or said nothing in time."""

    def __init__(self, text: str, code: int | None = None) -> None:
        super().__init__(text)
        self.code = code


class OutOfTime(Exception):
    """The check's own time was over before the server had answered."""

    def __init__(self) -> None:
        super().__init__("the time of the check was over")


def within(most_s: float, deadline: float) -> float:
    """The seconds that the server has for its answer, `most_s` of them at most; OutOfTime after `deadline`."""
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise OutOfTime
    return min(most_s, left_s)


class Link:
    """One connection of a client that may break the protocol.

    `first` is its first frame, `begun` the reply to its last reset, whose episode is `episode_id`.
    """

    def __init__(
        self, url: str, token: str | None, evidence: Evidence, deadline: float, waiting: str | None = None
    ) -> None:
        self.first: dict[str, Any] = {}
        self.begun: dict[str, Any] = {}
        self.episode_id = ""
        self._evidence = evidence
        self._deadline = deadline
        self._connection = self._open(url, token, waiting)

    def _open(self, url: str, token: str | None, waiting: str | None) -> ClientConnection:
        address = f"ws{url.removeprefix('http')}/ws"
        self._evidence.sent(f"handshake of {address}")
        try:
            return connect(
                address,
                additional_headers={**bearer(token), **({WAITING_HEADER: waiting} if waiting else {})},
                proxy=None if is_private(url) else True,
                compression=None,
                max_size=2 * MAX_FRAME_BYTES,
                open_timeout=within(OPEN_S, self._deadline),
                close_timeout=1.0,
                ping_interval=None,
                logger=_silent,
            ).__enter__()
        except InvalidStatus as error:
            self._evidence.received(f"HTTP {error.response.status_code}")
            raise Refused(error.response.status_code, str(error)) from error
        except (OSError, WebSocketException) as error:
            within(OPEN_S, self._deadline)
            self._evidence.received(reason(error))
            raise Refused(0, reason(error)) from error

    def ask(self, kind: str, data: Any = None) -> dict[str, Any]:
        """The reply to a request."""
        return self.ask_text(json.dumps({"type": kind} if data is None else {"type": kind, "data": data}))

    def ask_text(self, text: str | bytes) -> dict[str, Any]:
        """The reply to a frame as it is."""
        self.say(text)
        return self.hear()

    def say(self, text: str | bytes) -> None:
        """Send a frame as it is; what a server says before it closes can still be heard."""
        self._evidence.sent(text)
        with contextlib.suppress(ConnectionClosed):
            self._connection.send(text)

    def hear(self, timeout_s: float = REPLY_S) -> dict[str, Any]:
        """The next frame; Ended when none comes, or what comes is no JSON object."""
        try:
            text = self._connection.recv(within(timeout_s, self._deadline), decode=False)
        except TimeoutError:
            within(timeout_s, self._deadline)
            raise self._ended(f"nothing in {timeout_s:g} s", None) from None
        except ConnectionClosed as error:
            code = error.rcvd.code if error.rcvd is not None else None
            raise self._ended(f"the connection was closed ({code or 'without a closing handshake'})", code) from error
        self._evidence.received(text)
        try:
            frame = json.loads(text, parse_constant=_no_constant)
        except RecursionError as error:
            raise Ended("a frame that is not JSON: it is nested too deeply") from error
        except ValueError as error:
            raise Ended(f"a frame that is not JSON: {error}") from error
        if not isinstance(frame, dict):
            raise Ended("a frame that is no JSON object")
        return frame

    def _ended(self, text: str, code: int | None) -> Ended:
        self._evidence.received(text)
        return Ended(text, code)

    def close(self) -> None:
        """Close the connection with a closing handshake."""
        self._connection.close()

    def drop(self) -> None:
        """Cut the connection without a closing handshake, as a killed client does."""
        with contextlib.suppress(OSError):
            self._connection.socket.shutdown(socket.SHUT_RDWR)
        self._connection.close()


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")
