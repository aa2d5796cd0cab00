"""Who gets which container next: nodes, their quarantine, the waiting line. Pure: the clock and the dice come in.

The schedule says what to do (`plan`) and is told what came of it (`probed`, `opened`, `closed`). Waiters form one
line, first come first served; a container that is given back goes to the first of them.
"""

from __future__ import annotations

import errno
import random
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from .node import NEVER, Fault, Node
from .urls import key
from .wire import Health

PROBE_RATE = 100.0  # health requests a second, once the fleet has been looked through
HEDGE_S = 0.25  # a handshake that takes longer is raced by another
AGED_S = 0.05  # a probe that takes longer no longer counts as one that will answer
FRESH_S = 1.0  # how long what was seen of a container is believed
MAX_PROBES = 1024
MAX_WINDOW = 256
MAX_OPENINGS = 64
HEALTH_LIMIT_S = 2.0  # what an unhealthy container may cost a lease that does not wait
BACKOFF_S = 0.5
AFTER_CLOSE_S = 0.02  # a container whose session we closed may say for a moment that it is leased
DOWN_LIMIT_S = 5.0  # asking a container that is down is cheap, and a fleet may start late
SICK_LIMIT_S = 30.0
CHAIN_HANDOVERS = 8
CHAIN_S = 30.0
REST_S = (0.15, 0.3)  # how long a container that was let go is left to others
SUSPECT_S = 10.0
SUSPECT_LEAST = 4
LOCAL_ERRNOS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.EADDRNOTAVAIL, errno.ENETDOWN})
RETRIED_STATUSES = frozenset({408, 425, 429})


class Outcome(Enum):
    """What came of opening a session."""

    OPENED = "opened"
    BUSY = "busy"
    SICK = "sick"
    REFUSED = "refused"


class Release(Enum):
    """What becomes of a container that is given back."""

    HAND_OVER = "hand over"
    ASK = "ask whether others wait"
    CLOSE = "close"
    LET_GO = "let go"


class Ticket:
    """A place in the waiting line."""

    __slots__ = ("joined_at", "state", "wait_busy")

    def __init__(self, joined_at: float, *, wait_busy: bool) -> None:
        self.joined_at = joined_at
        self.wait_busy = wait_busy
        self.state = "waiting"  # then granted or gone, once


@dataclass(frozen=True)
class Plan:
    """What is to be done now, and the number of seconds after which to ask again."""

    probe: list[str]
    open: list[str]
    again_s: float


class Schedule:
    """The state of one fleet and its waiting line; not thread-safe, its owner locks."""

    def __init__(
        self,
        *,
        dice: random.Random | None = None,
        probe_rate: float = PROBE_RATE,
        chain_handovers: int = CHAIN_HANDOVERS,
        chain_s: float = CHAIN_S,
    ) -> None:
        self.nodes: dict[str, Node] = {}
        self.line: deque[Ticket] = deque()
        self._dice = dice or random.Random()
        self._rate = probe_rate
        self._chain = (chain_handovers, chain_s)
        self._ready: dict[str, Node] = {}  # may be opened now, the freshest last
        self._unseen: deque[Node] = deque()  # still to be looked at in this scan
        self._probing: dict[str, Node] = {}
        self._opening: dict[str, Node] = {}
        self._window = 0
        self._paced_at = NEVER
        self._line_ended_at = NEVER
        self._faults: deque[tuple[float, str, str]] = deque()
        self.suspect = False

    # The fleet

    def update(self, urls: Iterable[str]) -> None:
        """Make `urls` the fleet: new ones are looked at first, missing ones drain."""
        wanted = {key(url): url for url in urls}
        added = [Node(url) for name, url in wanted.items() if name not in self.nodes]
        self._dice.shuffle(added)
        for node in added:
            self.nodes[key(node.url)] = node
            self._unseen.appendleft(node)
        for name, node in list(self.nodes.items()):
            node.removed = name not in wanted
            if node.removed:
                self._ready.pop(name, None)
                if not (node.held or node.openings or node.probing_since is not None):
                    del self.nodes[name]

    # The waiting line

    def join(self, now: float, *, wait_busy: bool = True) -> Ticket:
        """Stand at the end of the line."""
        if not self.line and now - self._line_ended_at > FRESH_S:
            self._rescan(now)
        if not wait_busy or (self.nodes and all(node.fault is Fault.REFUSED for node in self.nodes.values())):
            self._rescan(now)
        ticket = Ticket(now, wait_busy=wait_busy)
        self.line.append(ticket)
        return ticket

    def leave(self, ticket: Ticket, now: float) -> bool:
        """Leave the line; False when the ticket was granted already."""
        if ticket.state != "waiting":
            return False
        ticket.state = "gone"
        self.line.remove(ticket)
        self._line_ended_at = now
        return True

    def _grant(self, now: float) -> Ticket | None:
        if not self.line:
            return None
        ticket = self.line.popleft()
        ticket.state = "granted"
        self._line_ended_at = now
        return ticket

    def _rescan(self, now: float) -> None:
        waiting = {id(node) for node in self._unseen}
        stale = [
            node
            for node in self.nodes.values()
            if now - node.seen_at > FRESH_S and id(node) not in waiting and self._may_probe(node)
        ]
        self._dice.shuffle(stale)
        self._unseen.extend(stale)
        self._window = 0

    def hopeless(self, now: float) -> list[Ticket]:
        """The tickets that can end now without a container: all refused, or unwilling to wait and nothing free."""
        if not self.line or not self.nodes:
            return []
        if all(node.fault is Fault.REFUSED for node in self.nodes.values()):
            refused_at = min(node.seen_at for node in self.nodes.values())
            return [ticket for ticket in self.line if refused_at >= ticket.joined_at - FRESH_S]
        impatient = [ticket for ticket in self.line if not ticket.wait_busy]
        if not impatient or self._unseen or self._ready:
            return []
        return [ticket for ticket in impatient if all(self._settled(node, ticket, now) for node in self.nodes.values())]

    def _settled(self, node: Node, ticket: Ticket, now: float) -> bool:
        if node.openings and now - max(node.openings) < HEALTH_LIMIT_S:
            return False
        if node.full or node.removed or node.openings or (node.fault and node.fault is not Fault.DOWN):
            return True
        return node.seen_at >= ticket.joined_at - FRESH_S and not node.spare

    # What to do

    def plan(self, now: float) -> Plan:
        """What to do at `now` for those who wait; every probe and opening in it counts as begun."""
        if not self.line:
            return Plan([], [], 60.0)
        opening = self._plan_openings(now)
        missing = len(self.line) - self._promising(now)
        probing = self._plan_probes(now, missing) if missing > 0 else []
        return Plan(probing, opening, self._again(now))

    def _promising(self, now: float) -> int:
        return sum(1 for node in self._opening.values() for since in node.openings if now - since < HEDGE_S)

    def _plan_openings(self, now: float) -> list[str]:
        total = sum(len(node.openings) for node in self._opening.values())
        slow = total - (promising := self._promising(now))
        # Each handshake that hangs doubles the number of those that race it.
        want = len(self.line) * min(2**slow, 32) - promising
        want = min(want, MAX_OPENINGS - promising)
        chosen: list[str] = []
        for name in reversed(list(self._ready)):
            node = self._ready[name]
            while len(chosen) < want and self._may_open(node, now):
                if not (node.tells or node.slots) and node.openings:
                    break  # how many sessions it has is yet to be found out, one at a time
                node.openings.append(now)
                self._opening[name] = node
                chosen.append(node.url)
            if node.spare <= len(node.openings):
                del self._ready[name]
            if len(chosen) >= want:
                break
        return chosen

    def _may_open(self, node: Node, now: float) -> bool:
        return node.spare > len(node.openings) and now >= node.rests_until and not node.removed

    def _may_probe(self, node: Node) -> bool:
        return node.probing_since is None and not node.openings and not node.full and not node.removed

    def _plan_probes(self, now: float, missing: int) -> list[str]:
        young = sum(1 for node in self._probing.values() if now - (node.probing_since or now) < AGED_S)
        room = min(max(self._window, 2 * missing) - young, MAX_WINDOW - young, MAX_PROBES - len(self._probing))
        if self.suspect:
            room = 1 - len(self._probing)
        chosen: list[str] = []
        while len(chosen) < room and self._unseen:
            node = self._unseen.popleft()
            if self._may_probe(node):
                self._begin_probe(node, now)
                chosen.append(node.url)
        if not chosen and not self._unseen and now >= self._paced_at:
            node_due = self._due(now)
            if node_due is not None:
                self._paced_at = now + self._dice.uniform(1.0, 1.2) / self._rate
                if node_due.tells or node_due.fault is not None:
                    self._begin_probe(node_due, now)
                    chosen.append(node_due.url)
                else:  # only a handshake can tell
                    node_due.spare = 1
                    self._mark_ready(node_due)
        return chosen

    def _begin_probe(self, node: Node, now: float) -> None:
        node.probing_since = now
        self._probing[key(node.url)] = node

    def _due(self, now: float) -> Node | None:
        due = None
        for name, node in self.nodes.items():
            if node.retry_at > now or now < node.rests_until or name in self._ready or not self._may_probe(node):
                continue
            if due is None or node.seen_at < due.seen_at:
                due = node
        return due

    def _again(self, now: float) -> float:
        if self._probing or self._opening:
            return AGED_S / 2
        return max(0.01, self._paced_at - now)

    # What came of it

    def probed(self, url: str, health: Health, now: float) -> None:
        """Take in the answer to a probe."""
        node = self.nodes.get(key(url))
        if node is None or node.probing_since is None:
            return
        node.probing_since = None
        self._probing.pop(key(url), None)
        if not health.healthy:
            self._widen()
            status = health.status
            if status is not None and 400 <= status < 500 and status not in RETRIED_STATUSES:
                self._fail(node, Fault.REFUSED, health.reason, now, status=status)
            elif node.held == 0:
                self._fail(node, Fault.DOWN, health.reason, now, code=health.errno)
            return
        self.suspect = False
        node.seen_at = now
        if node.fault is not Fault.SICK:
            node.failures = 0
        node.fault, node.reason, node.status = None, "", None
        node.slots = health.slots or node.slots
        node.tells = health.leased is not None
        if health.leased is None:
            node.spare = max(0, (node.slots or node.held + 1) - node.held)
        elif health.leased:
            node.spare = 0
        else:
            node.spare = max(1, (health.slots or 1) - (health.active or 0))
        if node.spare:
            self._window = 0
            self._mark_ready(node)
        else:
            self._widen()

    def opened(
        self, url: str, outcome: Outcome, now: float, *, reason: str = "", count: int | None = None
    ) -> Ticket | None:
        """Take in what came of opening a session; the ticket that gets it, or None: close it then.

        `count` is the HTTP status of a refusal, or the number of sessions that a busy container has.
        """
        name = key(url)
        node = self.nodes.get(name)
        if node is None:
            return None
        if node.openings:
            node.openings.pop(0)
        if not node.openings:
            self._opening.pop(name, None)
        if outcome is Outcome.OPENED:
            return self._taken(node, now)
        node.spare = 0
        self._ready.pop(name, None)
        if outcome is Outcome.BUSY:
            node.seen_at, node.fault = now, None
            node.slots = count or node.slots
            if now - node.closed_at < FRESH_S:  # it is about to notice that our last session is over
                node.spare, node.rests_until = 1, now + AFTER_CLOSE_S
                self._mark_ready(node)
                return None
        elif outcome is Outcome.REFUSED:
            self._fail(node, Fault.REFUSED, reason, now, status=count)
        else:
            self._fail(node, Fault.SICK, reason, now)
        self._widen()
        return None

    def _taken(self, node: Node, now: float) -> Ticket | None:
        node.seen_at, node.fault, node.failures, node.reason = now, None, 0, ""
        self.suspect = False
        node.spare = max(0, node.spare - 1)
        if not node.tells and node.slots is None:
            node.spare = 1  # it may have more sessions: tried until it says how many
            self._mark_ready(node)
        node.held += 1
        node.chain_since, node.chain_length = now, 0
        return self._grant(now)

    def release(
        self, url: str, now: float, *, reusable: bool, wanted_s: float | None = None, asked: bool = False
    ) -> tuple[Release, Ticket | None]:
        """Decide what becomes of a session that is given back; HAND_OVER comes with the ticket that gets it.

        After ASK, call again with `asked` and what the container said of others who wait (`wanted_s`, infinity when
        it cannot tell). CLOSE and LET_GO are to be followed by `closed`.
        """
        node = self.nodes.get(key(url))
        if node is None or not reusable or node.removed or not self.line:
            return Release.CLOSE, None
        handovers, seconds = self._chain
        if node.chain_length >= handovers and now - node.chain_since >= seconds:
            if not asked:
                return Release.ASK, None
            if wanted_s is not None and (
                wanted_s == float("inf") or wanted_s <= max(5.0, 2 * len(self.nodes) / self._rate)
            ):
                return Release.LET_GO, None
            node.chain_since, node.chain_length = now, 0
        ticket = self._grant(now)
        assert ticket is not None
        node.chain_length += 1
        node.seen_at = now
        return Release.HAND_OVER, ticket

    def closed(self, url: str, now: float, *, let_go: bool = False, free: bool = True, fault: str = "") -> None:
        """Take in that a session of ours is closed; `free` when its container can be leased again at once."""
        node = self.nodes.get(key(url))
        if node is None:
            return
        node.held = max(0, node.held - 1)
        node.closed_at = now
        if node.removed:
            if not (node.held or node.openings):
                del self.nodes[key(url)]
            return
        if fault:
            self._fail(node, Fault.SICK, fault, now)
        elif free:
            node.spare += 1
            node.seen_at = now
            if let_go:
                node.rests_until = now + self._dice.uniform(*REST_S)
            self._mark_ready(node)
        else:
            node.spare, node.seen_at = 0, NEVER
            self._unseen.appendleft(node)

    def _mark_ready(self, node: Node) -> None:
        if not node.removed:
            self._ready.pop(key(node.url), None)
            self._ready[key(node.url)] = node

    def _widen(self) -> None:
        self._window = min(MAX_WINDOW, max(2, self._window * 2))

    def _fail(
        self, node: Node, fault: Fault, reason: str, now: float, *, status: int | None = None, code: int | None = None
    ) -> None:
        node.seen_at, node.fault, node.reason, node.status = now, fault, reason, status
        node.spare = 0
        self._ready.pop(key(node.url), None)
        limit = DOWN_LIMIT_S if fault is Fault.DOWN else SICK_LIMIT_S
        wait = limit if fault is Fault.REFUSED else min(limit, BACKOFF_S * 2 ** min(node.failures, 10))
        if code in LOCAL_ERRNOS:
            self.suspect = True  # the fault is ours, and no reason to keep away from the container
            wait = BACKOFF_S
        else:
            node.failures += 1
        node.retry_at = now + wait * self._dice.uniform(0.8, 1.2)
        self._faults.append((now, node.url, reason))

    def suspicion(self, now: float) -> dict[str, int]:
        """How often each fault was met in the last seconds, when so many met one that the cause may be this process."""
        while self._faults and self._faults[0][0] < now - SUSPECT_S:
            self._faults.popleft()
        recent = {url: reason for _, url, reason in self._faults}
        if not self.suspect and (len(recent) < SUSPECT_LEAST or 2 * len(recent) <= len(self.nodes)):
            return {}
        return dict(Counter(recent.values()))
