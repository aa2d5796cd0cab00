"""Many `GET /health` at once from one thread.

Plain HTTP goes over non-blocking sockets, one request a connection; what cannot (TLS, a proxy, a name to resolve)
is done by a few worker threads. A fleet of a thousand, of which hundreds hang, is looked through in a second.
"""

from __future__ import annotations

import contextlib
import errno
import heapq
import io
import ipaddress
import os
import re
import selectors
import socket
import time
import urllib.request
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

from .. import rest, wire
from ..errors import ConnectionFailed
from ..urls import endpoint

WORKERS = 16
RESOLVED_S = 30.0  # how long a name's addresses are used again
_MAX_ANSWER = 1_048_576
_LONGEST_LENGTH = 20  # characters of a Content-Length that can be one
_STATUS = re.compile(rb"[0-9]{3}")
_IN_PROGRESS = {0, errno.EINPROGRESS, errno.EWOULDBLOCK}


@dataclass
class _Probe:
    """One request under way."""

    url: str
    request: bytes
    deadline: float
    addresses: deque[tuple[socket.AddressFamily, Any]]
    sock: socket.socket | None = None
    sent: bool = False
    answer: bytearray = field(default_factory=bytearray)


class Prober:
    """Probes started with `start` are finished by `poll`, both called by one thread; `wake` by any."""

    def __init__(
        self, token: str | None = None, *, waiting: str | None = None, timeout_s: float = rest.HEALTH_TIMEOUT_S
    ) -> None:
        self._headers = {**({wire.WAITING_HEADER: waiting} if waiting else {}), **rest.bearer(token)}
        self._timeout_s = timeout_s
        self._selector = selectors.DefaultSelector()
        self._bell, self._rope = socket.socketpair()
        for end in (self._bell, self._rope):
            end.setblocking(False)
        self._selector.register(self._bell, selectors.EVENT_READ)
        self._deadlines: list[tuple[float, int, _Probe]] = []
        self._resolved: dict[tuple[str, int], tuple[float, list[tuple[socket.AddressFamily, Any]]]] = {}
        self._done: deque[tuple[str, wire.Health]] = deque()
        self._later: deque[Callable[[], None]] = deque()  # what workers hand back to the polling thread
        self._workers: ThreadPoolExecutor | None = None
        self._proxied = bool(urllib.request.getproxies())
        self._count = 0
        self._pid = os.getpid()

    def start(self, url: str) -> None:
        """Ask the container at base URL `url` for its health; the answer comes out of `poll` within the timeout."""
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 80
        if parts.scheme.lower() != "http" or (self._proxied and not rest.is_private(url)):
            self._work(lambda: self._fetch(url))
            return
        deadline = time.monotonic() + self._timeout_s
        known = self._resolved.get((host, port))
        if known is None and _is_address(host):
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            known = (float("inf"), [(family, (host, port))])
            self._resolved[host, port] = known
        if known is None or known[0] < time.monotonic():
            self._work(lambda: self._resolve(url, host, port, deadline))
        else:
            self._connect(_Probe(url, self._request(url), deadline, deque(known[1])))

    def poll(self, timeout_s: float) -> list[tuple[str, wire.Health]]:
        """The answers that have come, waiting at most `timeout_s` seconds for one of them or for `wake`."""
        if self._deadlines:
            timeout_s = min(timeout_s, self._deadlines[0][0] - time.monotonic())
        if self._done or self._later:
            timeout_s = 0.0
        for key, _ in self._selector.select(max(0.0, timeout_s)):
            if key.data is None:
                with contextlib.suppress(BlockingIOError):
                    while self._bell.recv(4096):
                        pass
            else:
                self._advance(key.data)
        while self._later:
            self._later.popleft()()
        self._expire()
        answers = list(self._done)
        self._done.clear()
        return answers

    def wake(self) -> None:
        """End a `poll` that is waiting."""
        with contextlib.suppress(OSError):  # full: it is awake already; closed: nobody waits
            self._rope.send(b"\0")

    def close(self) -> None:
        """Drop every probe under way."""
        for key in list(self._selector.get_map().values()):
            if key.data is not None and key.data.sock is not None:
                key.data.sock.close()
        if self._workers is not None and self._pid == os.getpid():  # a forked child has no such threads
            self._workers.shutdown(wait=False, cancel_futures=True)
        self._selector.close()
        self._bell.close()
        self._rope.close()

    def _request(self, url: str) -> bytes:
        parts = urlsplit(url)
        lines = [f"GET {parts.path.removesuffix('/')}/health HTTP/1.1", f"Host: {parts.netloc}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in self._headers.items()]
        return "\r\n".join([*lines, "", ""]).encode()

    def _connect(self, probe: _Probe) -> None:
        family, address = probe.addresses.popleft()
        try:
            probe.sock = socket.socket(family, socket.SOCK_STREAM)
            probe.sock.setblocking(False)
            code = probe.sock.connect_ex(address)
        except OSError as error:
            code = error.errno or errno.EIO
        if probe.sock is None or code not in _IN_PROGRESS:
            self._failed(probe, code)
            return
        probe.sent = False
        self._selector.register(probe.sock, selectors.EVENT_WRITE, probe)
        self._count += 1
        heapq.heappush(self._deadlines, (probe.deadline, self._count, probe))

    def _advance(self, probe: _Probe) -> None:
        assert probe.sock is not None
        try:
            if not probe.sent:
                code = probe.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if code:
                    self._failed(probe, code)
                    return
                probe.sock.send(probe.request)  # a few hundred bytes into an empty buffer
                probe.sent = True
                self._selector.modify(probe.sock, selectors.EVENT_READ, probe)
                return
            data = probe.sock.recv(65536)
        except BlockingIOError:
            return
        except OSError as error:
            self._failed(probe, error.errno or errno.EIO)
            return
        probe.answer += data
        if not data or len(probe.answer) > _MAX_ANSWER or _complete(probe.answer):
            self._finish(probe, _health(bytes(probe.answer)))

    def _failed(self, probe: _Probe, code: int) -> None:
        self._drop(probe)
        if probe.addresses:
            self._connect(probe)
        else:
            self._done.append((probe.url, wire.Health(False, reason=os.strerror(code).lower(), errno=code)))

    def _finish(self, probe: _Probe, health: wire.Health) -> None:
        self._drop(probe)
        self._done.append((probe.url, health))

    def _drop(self, probe: _Probe) -> None:
        if probe.sock is not None:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(probe.sock)
            probe.sock.close()
            probe.sock = None

    def _expire(self) -> None:
        now = time.monotonic()
        while self._deadlines and (self._deadlines[0][2].sock is None or self._deadlines[0][0] <= now):
            probe = heapq.heappop(self._deadlines)[2]
            if probe.sock is not None:
                stage = "/health did not answer" if probe.sent else "no connection came about"
                self._finish(probe, wire.Health(False, reason=f"{stage} in {self._timeout_s:g} s"))

    def _work(self, job: Callable[[], None]) -> None:
        if self._workers is None:
            self._workers = ThreadPoolExecutor(WORKERS, thread_name_prefix="miroir-probe")
        self._workers.submit(job)

    def _hand_back(self, result: Callable[[], None]) -> None:
        self._later.append(result)
        self.wake()

    def _fetch(self, url: str) -> None:
        try:
            status, _, content = rest.fetch(
                "GET", endpoint(url, "health"), headers=self._headers, timeout_s=self._timeout_s
            )
            health = wire.read_health(status, content)
        except ConnectionFailed as error:
            health = wire.Health(False, reason=rest.reason(error.__cause__ or error))
        self._hand_back(lambda: self._done.append((url, health)))

    def _resolve(self, url: str, host: str, port: int, deadline: float) -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            why = f"the name {host} does not resolve ({error})"
            self._hand_back(lambda: self._done.append((url, wire.Health(False, reason=why))))
            return
        addresses: list[tuple[socket.AddressFamily, Any]] = list(
            dict.fromkeys((kind, at) for kind, _, _, _, at in found)
        )

        def go_on() -> None:
            self._resolved[host, port] = (time.monotonic() + RESOLVED_S, addresses)
            self._connect(_Probe(url, self._request(url), deadline, deque(addresses)))

        self._hand_back(go_on)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _complete(answer: bytearray) -> bool:
    head, found, body = answer.partition(b"\r\n\r\n")
    if not found:
        return False
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            return len(value) < _LONGEST_LENGTH and len(body) >= int(value)
    return False


class _Answer:
    """What HTTPResponse reads from: bytes that have all arrived."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def makefile(self, *_: Any, **__: Any) -> Any:
        return io.BytesIO(self._content)


def _health(answer: bytes) -> wire.Health:
    if not answer:
        return wire.Health(False, reason="the connection was closed without an answer")
    head, _, body = answer.partition(b"\r\n\r\n")
    status = b"".join(head.split(b" ", 2)[1:2]).strip()
    if head.startswith(b"HTTP/1.") and _STATUS.fullmatch(status) and b"transfer-encoding" not in head.lower():
        return wire.read_health(int(status), body)
    try:
        response = HTTPResponse(_Answer(answer))  # type: ignore[arg-type]
        response.begin()
        return wire.read_health(response.status, response.read())
    except (HTTPException, OSError, ValueError, OverflowError) as error:
        return wire.Health(False, reason=f"/health did not answer in HTTP ({type(error).__name__})")
