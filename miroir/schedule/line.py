"""The waiting line: first come first served, and each ticket is granted or gives up, never both. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from .node import NEVER


class Ticket:
    """A place in the waiting line; its `state` is waiting, then once and for all granted or gone."""

    __slots__ = ("joined_at", "state", "wait_busy")

    def __init__(self, joined_at: float, *, wait_busy: bool) -> None:
        self.joined_at = joined_at
        self.wait_busy = wait_busy
        self.state = "waiting"


class Line:
    """Tickets in the order in which they came; `moved_at` is when the last one left."""

    def __init__(self) -> None:
        self._tickets: deque[Ticket] = deque()
        self.moved_at = NEVER

    def __len__(self) -> int:
        return len(self._tickets)

    def __iter__(self) -> Iterator[Ticket]:
        return iter(self._tickets)

    def join(self, now: float, *, wait_busy: bool) -> Ticket:
        """Stand at the end."""
        ticket = Ticket(now, wait_busy=wait_busy)
        self._tickets.append(ticket)
        return ticket

    def leave(self, ticket: Ticket, now: float) -> bool:
        """Give up; False when the ticket is no longer waiting."""
        if ticket.state != "waiting":
            return False
        ticket.state = "gone"
        self._tickets.remove(ticket)
        self.moved_at = now
        return True

    def grant(self, now: float) -> Ticket | None:
        """Take the first out, to be given a session; None when nobody waits."""
        if not self._tickets:
            return None
        ticket = self._tickets.popleft()
        ticket.state = "granted"
        self.moved_at = now
        return ticket
