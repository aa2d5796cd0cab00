"""A pipe that ends with this process, however it ends, so that children who read it know."""

from __future__ import annotations

import os
import weakref


class DeathPipe:
    """Children inherit `read_end`; nobody ever writes, and no other process holds the write end."""

    def __init__(self) -> None:
        self.read_end, self._write_end = os.pipe()
        _open.add(self)

    def close(self) -> None:
        """End it: whoever reads it is told that the owner has gone."""
        if self in _open:
            _open.discard(self)
            os.close(self.read_end)
            os.close(self._write_end)


_open: weakref.WeakSet[DeathPipe] = weakref.WeakSet()


def _close_in_child() -> None:
    # A forked child that kept the write end would keep the servers alive after their pool.
    for pipe in list(_open):
        pipe.close()


os.register_at_fork(after_in_child=_close_in_child)
