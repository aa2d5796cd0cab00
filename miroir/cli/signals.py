"""Signals that end a command as Ctrl-C does."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt in the block; used from the main thread."""
    # nohup ignores SIGHUP, and means it; a script's `&` ignores SIGINT, and still wants `kill -INT` to work.
    taken = [number for number in _ENDING if (number, signal.getsignal(number)) != (signal.SIGHUP, signal.SIG_IGN)]
    before = {number: signal.signal(number, signal.default_int_handler) for number in taken}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
