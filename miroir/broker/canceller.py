"""Lets one thread end another's wait for a lease."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


class Canceller:
    """Ends the wait of every lease that it is passed to, now and later; it cannot be undone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards both
        self._cancelled = False
        self._leave: Callable[[], object] | None = None

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelled

    def cancel(self) -> None:
        """End the waiting, from any thread; a lease that was granted at the same instant stays granted."""
        with self._lock:
            self._cancelled = True
            leave = self._leave
        if leave is not None:
            leave()

    @contextlib.contextmanager
    def waiting(self, leave: Callable[[], object]) -> Iterator[None]:
        """A block in which a lease waits; `cancel` calls `leave` to end it."""
        with self._lock:
            self._leave = leave
            late = self._cancelled
        if late:
            leave()
        try:
            yield
        finally:
            with self._lock:
                self._leave = None
