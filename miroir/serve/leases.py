"""Who holds this server: its sessions, how many it may have, and the clients that were seen waiting."""

from __future__ import annotations

import time
from collections.abc import Callable

from .world import World

SEEN_S = 60.0  # for how long a waiting client is remembered
_SEEN_MOST = 10_000  # ids that are remembered at most
_ID_LENGTH = 200


class Leases:
    """The worlds of the sessions, at most `most` at a time, and the ids of waiting clients. For one event loop."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.most = most
        self.peak = 0  # the most slots that were ever held at once
        self.episodes = 0  # how many have begun
        self._worlds: set[World] = set()
        self._clock = clock
        self._seen: dict[str, float] = {}

    @property
    def active(self) -> int:
        """How many slots are held, by a client or by a call that outlives its client."""
        return len(self._worlds)

    @property
    def full(self) -> bool:
        """Whether no slot is free."""
        return len(self._worlds) >= self.most

    def hold(self, world: World) -> None:
        """Take a slot."""
        self._worlds.add(world)
        self.peak = max(self.peak, len(self._worlds))

    def begin_episode(self) -> None:
        """Count an episode that begins."""
        self.episodes += 1

    def free(self, world: World) -> None:
        """Give the slot back."""
        self._worlds.discard(world)

    def sickness(self) -> str | None:
        """Why the server cannot serve: a call that has outlived both its client and its limit."""
        overdue_s = max((world.overdue_s() for world in self._worlds), default=0.0)
        if not overdue_s:
            return None
        return f"a call whose client has gone is {overdue_s:.0f} s past its limit and still runs; restart this server"

    def note(self, client: str | None) -> None:
        """Remember that a client, by its random id, was seen waiting."""
        if client and len(client) <= _ID_LENGTH:
            now = self._clock()
            self._seen.pop(client, None)
            self._seen[client] = now
            while len(self._seen) > _SEEN_MOST or now - next(iter(self._seen.values())) > SEEN_S:
                del self._seen[next(iter(self._seen))]

    def wanted_s(self, holder: str | None) -> float | None:
        """How many seconds ago a client other than `holder` was seen waiting; None if none was lately."""
        for client, seen in reversed(self._seen.items()):
            if client != holder:
                ago = self._clock() - seen
                return ago if ago <= SEEN_S else None
        return None
