"""Who gets which container next. Pure: the clock and the dice come in.

The schedule says what to do (`plan`) and is told what came of it (`probed`, `opened`, `closed`). A container that is
given back goes to the first in the waiting line.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from ..urls import key
from ..wire import Health
from .chains import CHAIN_HANDOVERS, CHAIN_S, Chains, others_wait
from .line import Line, Ticket
from .node import NEVER, Fault, Node
from .quarantine import Quarantine
from .search import PROBE_RATE, Search

LOOK_S = 1.0  # how long a plan holds when nothing happens
HEDGE_S = 0.25  # a handshake that takes longer is raced by another
HANGS_S = 2.0  # one that takes longer says that its container is unwell
FRESH_S = 1.0  # how long what was seen of a container is believed
IMPATIENT_S = 2.4  # what unhealthy containers may cost a lease that does not wait
MAX_PROMISING = 64  # handshakes at once, those that hang not counted
MAX_OPENINGS = 256
SETTLES_S = 0.25  # a container whose session we closed may say for so long that it is leased
SETTLE_REST_S = 0.05
RETRIED_STATUSES = frozenset({408, 425, 429})


class Outcome(Enum):
    """What came of opening a session."""

    OPENED = "opened"
    BUSY = "busy"
    SICK = "sick"
    REFUSED = "refused"
    STARVED = "starved"  # for want of descriptors or threads of our own; says nothing of the container


class Release(Enum):
    """What becomes of a container that is given back."""

    HAND_OVER = "hand over"
    ASK = "ask whether others wait"
    CLOSE = "close"
    LET_GO = "let go"


@dataclass(frozen=True)
class Plan:
    """What is to be done now, and the number of seconds after which to ask again."""

    probe: list[str]
    open: list[str]
    again_s: float


def refuses(status: int | None) -> bool:
    """Whether an HTTP status says that this client will never be served: a 4xx that is not worth a second try."""
    return status is not None and 400 <= status < 500 and status not in RETRIED_STATUSES


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
        self.line = Line()
        self.held = 0  # sessions of ours that are open
        self._dice = dice or random.Random()
        self._search = Search(self._dice, probe_rate, in_use_s=0.98 * chain_s)
        self._quarantine = Quarantine(self._dice)
        self._chains = Chains(self._dice, chain_handovers, chain_s)
        self._probe_rate = probe_rate
        self._ready: dict[str, Node] = {}  # may be opened now, the freshest last
        self._opening: dict[str, Node] = {}
        self._failed = 0  # openings that failed since the last one that did not

    @property
    def plenty(self) -> bool:
        """Whether more containers are known to be free than threads wait."""
        return len(self._ready) > len(self.line)

    def update(self, urls: Iterable[str]) -> None:
        """Make `urls` the fleet: new ones are looked at first, missing ones drain."""
        wanted = {key(url): url for url in urls}
        for name, node in list(self.nodes.items()):
            if name not in wanted:
                node.removed = True
                self._ready.pop(name, None)
                self._forget_if_drained(node)
            elif node.removed:
                node.removed, node.seen_at = False, NEVER
                self._search.first([node])
        added = {name: Node(url) for name, url in wanted.items() if name not in self.nodes}
        self.nodes |= added
        self._search.first(added.values())

    def join(self, now: float, *, wait_busy: bool = True) -> Ticket:
        """Stand at the end of the line."""
        ticket = self.line.join(now, wait_busy=wait_busy)
        if not wait_busy or self._all_refused():
            self._scan(now, seen_before=now)
        elif len(self.line) == 1 and now - self.line.moved_at > FRESH_S:
            self._scan(now, seen_before=now - FRESH_S)
        return ticket

    def leave(self, ticket: Ticket, now: float) -> bool:
        """Leave the line; False when the ticket was granted already."""
        return self.line.leave(ticket, now)

    def _scan(self, now: float, *, seen_before: float) -> None:
        refused = self._all_refused()
        self._search.last(
            node
            for node in self.nodes.values()
            if node.seen_at < seen_before and node.askable and not node.spare and (refused or not node.set_aside(now))
        )

    def _all_refused(self) -> bool:
        return bool(self.nodes) and all(node.fault is Fault.REFUSED for node in self.nodes.values())

    def hopeless(self, now: float) -> list[Ticket]:
        """The tickets that can end now without a container: all refused, or unwilling to wait and nothing free."""
        if self._all_refused():
            seen_at = min(node.seen_at for node in self.nodes.values())
            return [ticket for ticket in self.line if seen_at >= ticket.joined_at]
        return [ticket for ticket in self.line if not ticket.wait_busy and self._nothing_for(ticket, now)]

    def _nothing_for(self, ticket: Ticket, now: float) -> bool:
        if now - ticket.joined_at >= IMPATIENT_S:
            return True
        if self._ready or self._opening or self._search.scanning:
            return False
        return all(
            node.full or node.removed or node.seen_at >= ticket.joined_at or node.set_aside(now)
            for node in self.nodes.values()
        )

    def plan(self, now: float) -> Plan:
        """What to do at `now` for those who wait; every probe and opening in it counts as begun."""
        if not self.line:
            return Plan([], [], 60.0)
        self._expose_hanging(now)
        opened, missing = self._plan_openings(now)
        probed = self._plan_probes(now, missing) if missing > 0 else []
        again_s = HEDGE_S / 10 if self._opening else LOOK_S
        if missing > 0:
            again_s = min(again_s, self._search.again_s(now))
        return Plan(probed, opened, again_s)

    def _expose_hanging(self, now: float) -> None:
        """Count a container as sick whose handshake hangs; should it come about after all, that is forgotten."""
        for node in self._opening.values():
            if not node.held and node.fault is None and now - node.openings[0] > HANGS_S:
                self._fail(node, Fault.SICK, f"its handshake has not been answered for {HANGS_S:g} s", now)

    def _plan_openings(self, now: float) -> tuple[list[str], int]:
        """The sessions to open now, and how many more are wanted than there are containers known to be free."""
        total = sum(len(node.openings) for node in self._opening.values())
        promising = sum(1 for node in self._opening.values() for since in node.openings if now - since < HEDGE_S)
        # One for each waiter, and one more for each that hangs or failed: their number doubles as long as all do.
        hedges = total - promising + self._failed
        want = min(len(self.line) + hedges - promising, MAX_PROMISING - promising, MAX_OPENINGS - total)
        chosen: list[str] = []
        for name in reversed(list(self._ready)):
            node = self._ready[name]
            while len(chosen) < want and node.spare > len(node.openings):
                if node.openings and not node.tells and node.slots is None:
                    break  # how many sessions it has is yet to be found out, one at a time
                node.openings.append(now)
                self._opening[name] = node
                chosen.append(node.url)
            if node.spare <= len(node.openings):
                del self._ready[name]
            if len(chosen) >= want:
                break
        return chosen, want - len(chosen)

    def _plan_probes(self, now: float, missing: int) -> list[str]:
        chosen: list[str] = []
        for node in self._search.next(now, missing, self.nodes.values(), careful=self._quarantine.local):
            if node.tells or node.fault is not None:
                self._search.begin(node, now)
                chosen.append(node.url)
            else:  # only a handshake can tell
                self._free(node, 1)
        return chosen

    def probed(self, url: str, health: Health, now: float) -> None:
        """Take in the answer to a probe."""
        node = self.nodes.get(key(url))
        if node is None or node.probing_since is None:
            return
        self._search.answered(node, now, late=health.status is None)
        if node.removed:
            self._forget_if_drained(node)
            return
        if not health.healthy:
            self._search.missed()
            self._unhealthy(node, health, now)
            return
        self._quarantine.lift(node, proven=False)
        node.seen_at = now
        node.slots = health.slots or node.slots
        node.tells = health.leased is not None
        if health.leased:
            spare = 0
            self._others_have(node, now)
        elif node.tells:
            spare = max(1, (health.slots or 1) - (health.active or 0))
        else:
            spare = max(0, (node.slots or node.held + 1) - node.held)
        self._free(node, spare)
        (self._search.found if spare else self._search.missed)()

    def _unhealthy(self, node: Node, health: Health, now: float) -> None:
        node.seen_at = now
        if refuses(health.status):
            self._fail(node, Fault.REFUSED, health.reason, now, status=health.status)
        elif not node.held:  # a session of ours on it is better evidence than a health that did not answer
            self._fail(node, Fault.DOWN, health.reason, now, code=health.errno)

    def opened(
        self, url: str, outcome: Outcome, now: float, *, reason: str = "", count: int | None = None
    ) -> Ticket | None:
        """Take in what came of opening a session; the ticket that gets it, or None: close it then.

        `count` is the HTTP status of a refusal, or the number of sessions that a busy container has. The ticket of
        an opening that was STARVED is to be told so.
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
        if outcome is Outcome.STARVED:
            self._free(node, node.spare)
            return self.line.grant(now)
        self._search.missed()
        if outcome is Outcome.BUSY:
            self._busy(node, now, slots=count)
        else:
            self._failed += 1
            fault = Fault.REFUSED if outcome is Outcome.REFUSED else Fault.SICK
            self._fail(node, fault, reason, now, status=count)
        self._forget_if_drained(node)
        return None

    def _busy(self, node: Node, now: float, *, slots: int | None) -> None:
        self._quarantine.lift(node, proven=True)
        self._failed = 0
        node.slots = slots or node.slots
        node.seen_at = now
        self._others_have(node, now)
        if now - node.closed_at < SETTLES_S:  # it has yet to notice that our last session is over
            node.seen_at, node.rests_until = NEVER, now + SETTLE_REST_S
        self._free(node, 0)

    def _taken(self, node: Node, now: float) -> Ticket | None:
        self._quarantine.lift(node, proven=True)
        self._failed = 0
        node.seen_at = now
        node.held += 1
        self.held += 1
        self._chains.begin(node, now)
        learning = not node.tells and node.slots is None  # it may have more sessions: tried until it says how many
        self._free(node, 1 if learning else max(0, node.spare - 1))
        return None if node.removed else self.line.grant(now)

    def release(
        self, url: str, now: float, *, reusable: bool, wanted_s: float | None = None, asked: bool = False
    ) -> tuple[Release, Ticket | None]:
        """Decide what becomes of a session that is given back; HAND_OVER comes with the ticket that gets it.

        After ASK, call again with `asked` and what the container said of others who wait (`wanted_s`, UNKNOWN when it
        does not tell). CLOSE and LET_GO are to be followed by `closed`.
        """
        node = self.nodes.get(key(url))
        if node is not None and reusable:
            node.unfit = 0
        if node is None or not reusable or node.removed or not self.line:
            return Release.CLOSE, None
        if self._chains.over(node, now):
            if not asked:
                return Release.ASK, None
            if others_wait(wanted_s, len(self.nodes) / self._probe_rate):
                return Release.LET_GO, None
            self._chains.begin(node, now)
        node.chain_length += 1
        node.seen_at = now
        return Release.HAND_OVER, self.line.grant(now)

    def closed(self, url: str, now: float, *, let_go: bool = False, free: bool = True, fault: str = "") -> None:
        """Take in that a session of ours is closed; `free` when its container can be leased again at once."""
        node = self.nodes.get(key(url))
        if node is None:
            return
        node.closed_at, node.taken_at = now, None
        if fault:
            # Where they all go wrong it is not the container, and waiting longer would only put off saying so.
            node.unfit = node.unfit + 1 if any(not other.unfit for other in self.nodes.values()) else 1
            self._fail(node, Fault.SICK, fault, now)
        elif let_go:
            self._chains.let_go(node, now)
            self._look_again(node)
        elif free:
            node.seen_at = now
            self._free(node, node.spare + 1)
        else:
            self._look_again(node)
            self._search.first([node])
        node.held -= 1  # last, so that what an interrupt breaks off before can be done again
        self.held -= 1
        self._forget_if_drained(node)

    def unanswered(self) -> None:
        """No answer will come to the probes that are under way: whoever made them has stopped."""
        self._search.stop()
        for node in list(self.nodes.values()):
            self._forget_if_drained(node)

    def suspicion(self, now: float) -> dict[str, int]:
        """How often each fault was met in the last seconds, when so many met one that the cause may be this process."""
        return self._quarantine.suspicion(now, len(self.nodes))

    def _free(self, node: Node, spare: int) -> None:
        node.spare = spare
        self._ready.pop(node.name, None)
        if spare or node.held:
            node.taken_at = None
        if spare and not node.removed:
            self._ready[node.name] = node

    def _others_have(self, node: Node, now: float) -> None:
        if node.taken_at is None:
            node.taken_at = now

    def _look_again(self, node: Node) -> None:
        node.seen_at = NEVER
        self._free(node, 0)

    def _fail(
        self, node: Node, fault: Fault, reason: str, now: float, *, status: int | None = None, code: int | None = None
    ) -> None:
        self._quarantine.put(node, fault, reason, now, status=status, code=code)
        self._free(node, 0)

    def _forget_if_drained(self, node: Node) -> None:
        if node.removed and not (node.held or node.openings or node.probing_since is not None):
            del self.nodes[node.name]
