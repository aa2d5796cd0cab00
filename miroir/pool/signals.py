"""A pool in the foreground: the first signal stops it, a second one takes the grace."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

from .pool import Pool

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Caught:
    """The first signal that came; None before."""

    def __init__(self) -> None:
        self.first: int | None = None


@contextlib.contextmanager
def stopped_by_signals(pool: Pool) -> Iterator[Caught]:
    """SIGINT, SIGTERM and SIGHUP cancel the pool, each further one kills it; used from the main thread."""
    caught = Caught()

    def act(number: int, _frame: FrameType | None) -> None:
        if caught.first is None:
            caught.first = number
            pool.cancel()
        else:
            pool.kill()

    # nohup ignores SIGHUP, and means it; a script's `&` ignores SIGINT, and still wants `kill -INT` to work.
    taken = [number for number in _STOPPING if (number, signal.getsignal(number)) != (signal.SIGHUP, signal.SIG_IGN)]
    before = {number: signal.signal(number, act) for number in taken}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
