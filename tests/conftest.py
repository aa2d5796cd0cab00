"""What every test shares: nothing may be left behind, and the package under test is the installed one."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest
from ports import free_ports
from processes import children, descriptors

# A child started from the checkout must import the installed package, not the folder it stands in.
os.environ["PYTHONSAFEPATH"] = "1"

# A shell has what it starts in the background ignore SIGINT, which tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)

GRACE_S = 5.0  # how long a closing thread, socket or child may take to be gone


@pytest.fixture
def base() -> int:
    """The first of some ports that are free."""
    return free_ports()


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    """After each test no thread, socket or child process of its own remains."""
    threads = set(threading.enumerate())
    sockets = descriptors("socket")
    pids = set(children("self"))
    yield
    deadline = time.monotonic() + GRACE_S
    while left := _left(threads, sockets, pids):
        if time.monotonic() > deadline:
            pytest.fail(f"left behind: {left}")
        gc.collect()  # a whole collection is dear, and most tests leave nothing to find
        time.sleep(0.02)


def _left(threads: set[threading.Thread], sockets: set[str], pids: set[int]) -> list[str]:
    return [
        *(f"thread {thread.name}" for thread in threading.enumerate() if thread not in threads and thread.is_alive()),
        *(f"socket {name}" for name in descriptors("socket") - sockets),
        *(f"child {pid}" for pid in set(children("self")) - pids),
    ]
