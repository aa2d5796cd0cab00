"""The search for a free container: which one to ask next, and how many at once. Pure.

A scan looks at every container once, ever more of them at the same time while none is free. After it, at a bounded
rate, the one that was not seen for longest is asked; one that others have just taken is thought to be in use for a
while. The rate is the same for each container in every process: one that holds half of them asks half as often.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Collection, Iterable

from .node import NEVER, Node

PROBE_RATE = 100.0  # health requests a second, once the fleet has been looked through
PACE_JITTER = (1.0, 1.1)
AGED_S = 0.05  # a probe that takes longer, and four times as long as usual, no longer counts as one that will answer
SLOW_S = 0.25  # when answers take longer, no more are asked at once: the servers, or we, have enough to do
SMOOTHING = 0.1
MAX_WINDOW = 256
MAX_PROBES = 1024
ASKED_AGAIN_S = 0.03  # one container is asked for its health at most this often
IN_USE_WEIGHT = 0.1  # how much the time without a look counts for one that others have just taken
LOOK_S = 0.05  # how often it is looked whether any may be asked
TRIED_AGAIN_S = 0.25  # one whose health says nothing is tried by a handshake at most this often


class Search:
    """Chooses whom to ask, and remembers who is being asked."""

    def __init__(self, dice: random.Random, rate: float, in_use_s: float = 0.0) -> None:
        self._dice = dice
        self._rate = rate
        self._in_use_s = in_use_s  # for how long whoever takes a container is likely to keep it
        self._unseen: deque[Node] = deque()  # still to be looked at in this scan
        self._probing: set[Node] = set()
        self._window = 0
        self._usual_s = 0.0  # how long an answer takes, lately
        self._next_at = NEVER

    @property
    def scanning(self) -> bool:
        """Whether containers are still to be looked at in this scan."""
        return bool(self._unseen)

    def first(self, nodes: Iterable[Node]) -> None:
        """Look at these before all others."""
        self._unseen.extendleft(self._shuffled(nodes))

    def last(self, nodes: Iterable[Node]) -> None:
        """Look at these too, after those that are still to be looked at."""
        queued = set(self._unseen)
        self._unseen.extend(self._shuffled(node for node in nodes if node not in queued))

    def answered(self, node: Node, now: float, *, late: bool = False) -> None:
        """The container's answer has come; `late` when it has not, and none will."""
        if node.probing_since is not None and not late:
            self._usual_s += SMOOTHING * (now - node.probing_since - self._usual_s)
        node.probing_since = None
        self._probing.discard(node)

    def found(self) -> None:
        """A free one was found: look at no more than are needed."""
        self._window = 0

    def missed(self) -> None:
        """What was found is not free: look at one more at once, which doubles their number in each round."""
        if self._usual_s < SLOW_S:
            self._window = min(MAX_WINDOW, max(2, self._window) + 1)

    def stop(self) -> None:
        """No answer will come to what has been asked."""
        for node in self._probing:
            node.probing_since = None
        self._probing.clear()

    def next(self, now: float, missing: int, nodes: Collection[Node], *, careful: bool) -> list[Node]:
        """The containers to look at now for `missing` waiters; one at a time when `careful`."""
        chosen: list[Node] = []
        room = 1 - len(self._probing) if careful else self._room(now, missing)
        while len(chosen) < room and self._unseen:
            node = self._unseen.popleft()
            if node.askable and now >= node.rests_until:
                chosen.append(node)
        if not chosen and not self._unseen and now >= self._next_at:
            chosen = self._overdue(now, nodes)
        return chosen

    def begin(self, node: Node, now: float) -> None:
        """The container is being asked."""
        node.probing_since = now
        self._probing.add(node)

    def again_s(self, now: float) -> float:
        """After how many seconds `next` may have something to say."""
        if self._unseen:
            return AGED_S / 2
        return max(0.001, self._next_at - now)

    def _room(self, now: float, missing: int) -> int:
        aged_s = max(AGED_S, 4 * self._usual_s)
        aged = sum(1 for node in self._probing if node.probing_since is not None and now - node.probing_since >= aged_s)
        young = len(self._probing) - aged
        return min(max(self._window, 2 * missing + aged) - young, MAX_WINDOW - young, MAX_PROBES - len(self._probing))

    def _overdue(self, now: float, nodes: Collection[Node]) -> list[Node]:
        """The one whose look is longest overdue, if any may be looked at; sets when there may be another."""
        first, longest, soonest, others = None, -1.0, now + LOOK_S, 0
        for node in nodes:
            others += not node.full
            if node.spare or not node.askable:
                continue
            due = _due_at(node)
            if due > now:
                soonest = min(soonest, due)
                continue
            in_use = node.taken_at is not None and now - node.taken_at < self._in_use_s
            unseen = (now - node.seen_at) * (IN_USE_WEIGHT if in_use else 1.0)
            if unseen > longest:
                first, longest = node, unseen
        if first is None:
            self._next_at = soonest
            return []
        self._next_at = now + self._dice.uniform(*PACE_JITTER) / self._rate * len(nodes) / others
        return [first]

    def _shuffled(self, nodes: Iterable[Node]) -> list[Node]:
        listed = list(nodes)
        self._dice.shuffle(listed)
        return listed


def _due_at(node: Node) -> float:
    gap = ASKED_AGAIN_S if node.tells else TRIED_AGAIN_S
    return max(node.retry_at if node.fault else NEVER, node.rests_until, node.seen_at + gap)
