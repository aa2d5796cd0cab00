"""A lease: one open session on a container, in the hands of one user."""

from __future__ import annotations

import os
import time
from typing import Protocol

from ..deadlines import Deadlines
from ..transport import Transport


class Giver(Protocol):
    """Who gave the lease and takes it back."""

    deadlines: Deadlines
    token: str | None

    def release(self, lease: Lease, *, reusable: bool, free: bool = True, fault: str = "") -> None:
        """Take the lease back, which is open no more then."""

    def drop(self, lease: Lease) -> None:
        """Take back a lease that nobody released, which is open no more then."""


class Lease:
    """The hold on an open connection until it is released; one that is forgotten gives itself back.

    `open` until its giver has it back.
    """

    open = False  # as long as it is not whole

    def __init__(self, giver: Giver, transport: Transport) -> None:
        self.giver = giver
        self.transport = transport
        self.url = transport.url
        self.since = time.monotonic()
        self._pid = os.getpid()
        self.open = True

    def release(self, *, reusable: bool, free: bool = True, fault: str = "") -> None:
        """Give it back, once: `reusable` when its connection can be handed on as it is, `free` when its container can
        be leased again at once, `fault` when it should rather not be.
        """
        if self.open and self._pid == os.getpid():
            self.giver.release(self, reusable=reusable, free=free, fault=fault)

    def forget(self) -> None:
        """Give it back from a finalizer: its connection is cut, without a closing handshake."""
        if self.open and self._pid == os.getpid():
            self.giver.drop(self)

    def __del__(self) -> None:
        self.forget()
