"""A lease in the hands of one user."""

from __future__ import annotations

import gc
import os
from typing import Any, cast

from miroir.broker.lease import Lease
from miroir.deadlines import Deadlines
from miroir.transport import Transport


class Giver:
    """Writes down what comes back."""

    deadlines = Deadlines()

    def __init__(self) -> None:
        self.released: list[dict[str, Any]] = []
        self.dropped = 0

    def release(self, lease: Lease, **how: Any) -> None:
        """Take it back."""
        lease.open = False
        self.released.append(how)

    def drop(self, lease: Lease) -> None:
        """Take back what nobody released."""
        lease.open = False
        self.dropped += 1


class Link:
    """Stands for a connection."""

    url = "http://h:1"


def lease(giver: Giver) -> Lease:
    """One of them."""
    return Lease(giver, cast("Transport", Link()))


def test_released_once() -> None:
    """However often it is released, dropped or forgotten afterwards."""
    giver = Giver()
    made = lease(giver)
    made.release(reusable=True)
    made.release(reusable=False)
    made.forget()
    del made
    gc.collect()

    assert giver.released == [{"reusable": True, "free": True, "fault": ""}]
    assert giver.dropped == 0


def test_one_that_is_dropped_gives_itself_back() -> None:
    """Without a release."""
    giver = Giver()
    made = lease(giver)
    del made
    gc.collect()

    assert (giver.released, giver.dropped) == ([], 1)


def test_a_childs_copy_gives_nothing_back() -> None:
    """A forked child neither releases nor drops what is its parent's."""
    giver = Giver()
    made = lease(giver)
    child = os.fork()
    if child == 0:
        made.release(reusable=True)
        made.forget()
        os._exit(len(giver.released) + giver.dropped)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0

    made.release(reusable=True)

    assert len(giver.released) == 1
