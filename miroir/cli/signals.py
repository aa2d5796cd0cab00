"""Signals that end a command: as Ctrl-C does, or by stopping its pool."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..pool import Pool

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt in the block; used from the main thread."""
    with _handled(signal.default_int_handler):
        yield


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

    with _handled(act):
        yield caught


@contextlib.contextmanager
def _handled(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    # nohup ignores SIGHUP, and means it; a script's `&` ignores SIGINT, and still wants `kill -INT` to work.
    taken = [number for number in _ENDING if (number, signal.getsignal(number)) != (signal.SIGHUP, signal.SIG_IGN)]
    before = {number: signal.signal(number, handler) for number in taken}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)
