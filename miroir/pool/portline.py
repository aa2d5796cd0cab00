"""Ports that are leased, and the threads that wait for one, first come first served."""

from __future__ import annotations

import contextlib
import threading
from collections import deque

from ..errors import ContainerPoolError


class _Waiter:
    """One thread in the line: it is told by `woken`, and finds a port, or None when the line was closed."""

    def __init__(self) -> None:
        self.woken = threading.Event()
        self.port: int | None = None


class PortLine:
    """A line for ports; it is closed until `open`, and closed for good by `close`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards the fields below
        self._free: deque[int] = deque()
        self._leased: set[int] = set()
        self._waiters: deque[_Waiter] = deque()
        self._refusal = "the pool has not been started; call start(), or use it in a with block"

    @property
    def leased(self) -> int:
        """How many ports are leased now."""
        with self._lock:
            return len(self._leased)

    def open(self, ports: tuple[int, ...]) -> None:
        """Lease these ports from now on."""
        with self._lock:
            self._free.extend(ports)
            self._refusal = ""

    def close(self, refusal: str) -> None:
        """Lease nothing any more: whoever waits or comes has a ContainerPoolError that says `refusal`."""
        with self._lock:
            self._refusal = refusal
            self._free.clear()
            self._leased.clear()
            while self._waiters:
                self._waiters.popleft().woken.set()

    def take(self) -> int:
        """A port that nobody else has, as soon as there is one."""
        with self._lock:
            self._refuse_if_closed()
            if self._free:
                return self._lend(self._free.popleft())
            waiter = _Waiter()
            self._waiters.append(waiter)
        try:
            waiter.woken.wait()
        except BaseException:  # Ctrl-C; a port that was handed over at this moment goes to the next
            self._leave(waiter)
            raise
        if waiter.port is None:
            with self._lock:
                self._refuse_if_closed()
        assert waiter.port is not None
        return waiter.port

    def give_back(self, port: int) -> None:
        """Return a port; ignored once the line is closed, or when the port was dropped."""
        with self._lock:
            if port not in self._leased:
                return
            self._leased.discard(port)
            if not self._waiters:
                self._free.append(port)
                return
            waiter = self._waiters.popleft()
            waiter.port = self._lend(port)
            waiter.woken.set()

    def drop(self, port: int) -> None:
        """Never lease a leased port again; with the last of them the line closes."""
        with self._lock:
            self._leased.discard(port)
            last = not self._leased and not self._free
        if last:
            self.close("every container of the pool is out of order; read their logs, and make a new pool")

    def _lend(self, port: int) -> int:
        self._leased.add(port)
        return port

    def _leave(self, waiter: _Waiter) -> None:
        with self._lock, contextlib.suppress(ValueError):
            self._waiters.remove(waiter)
        if waiter.port is not None:
            self.give_back(waiter.port)

    def _refuse_if_closed(self) -> None:
        if self._refusal:
            raise ContainerPoolError(self._refusal)
