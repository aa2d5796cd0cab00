"""What tests ask of processes."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType


def until(condition: Callable[[], object], seconds: float = 30.0) -> bool:
    """Whether the condition came true in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def interrupt(_: int, frame: FrameType | None) -> None:
    """Ctrl-C; a little later when it hits a weak reference's callback, in which Python itself swallows it."""
    if frame is not None and "weakref" in frame.f_code.co_filename:
        signal.setitimer(signal.ITIMER_REAL, 0.001)
    else:
        raise KeyboardInterrupt


@contextlib.contextmanager
def alarmed(seconds: float, act: Callable[..., object] = interrupt) -> Iterator[None]:
    """A block of the main thread in which a signal comes after some seconds: Ctrl-C, unless it has another `act`."""
    before = signal.signal(signal.SIGALRM, act)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def alive(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def stop(pid: int) -> None:
    """Stop the process as SIGSTOP does, and wait until it stands still: the signal may take a moment to reach it."""
    os.kill(pid, signal.SIGSTOP)
    assert until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")


def children(pid: int | str) -> list[int]:
    """The processes that it has started and not reaped; of this process, for "self"."""
    found: list[int] = []
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that ends meanwhile takes its entry along
            found += map(int, thread.read_text().split())
    return found


def descriptors(kind: str) -> set[str]:
    """The files of a kind ("socket", "pipe") that this process has open, each by its number in the kernel."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            found.add(str(entry.readlink()))
    return {name for name in found if name.startswith(f"{kind}:")}
