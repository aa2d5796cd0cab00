"""Ports for servers that must be told theirs."""

from __future__ import annotations

import itertools
import os
import socket

_FIRST, _SLOTS, _SLOT = 12_000, 1_250, 16  # below the ports that systems give to whoever asks for any
_slots = itertools.count(37 * os.getpid())  # tests that run beside these begin elsewhere


def listens(port: int) -> bool:
    """Whether something accepts connections on the port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_ports() -> int:
    """The first of 16 ports in a row on which nothing listens; others at each call."""
    for slot in itertools.islice(_slots, _SLOTS):
        first = _FIRST + _SLOT * (slot % _SLOTS)
        if not any(map(listens, range(first, first + _SLOT))):
            return first
    raise AssertionError("no free ports")
