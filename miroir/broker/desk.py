"""The schedule behind a lock, and the threads that wait at it. Its critical sections are short and do no I/O."""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from ..errors import MiroirError
from ..schedule import Outcome, Plan, Release, Schedule
from ..schedule.line import Ticket
from ..schedule.node import census
from ..transport import Transport
from ..wire import Health
from . import diagnosis
from .handshake import Attempt
from .lease import Lease

COUNTERS = (
    "requests_num",
    "requests_queued",
    "requests_wait_ms",
    "requests_errors",
    "usage_ms",
    "returns_bad",
    "handovers",
    "connections_num",
    "connections_ms",
    "connections_errors",
    "connections_lost",
    "capacity_refused",
    "probes_num",
)

_log = logging.getLogger("miroir.lease")


class Waiter:
    """A thread that waits for a lease: woken once, with the lease or the error that ends its waiting."""

    def __init__(self, ticket: Ticket) -> None:
        self.ticket = ticket
        self.lease: Lease | None = None
        self.error: MiroirError | None = None
        self._gate = threading.Lock()  # free once it is woken; an Event may stay locked where an interrupt hits it
        self._gate.acquire()

    @property
    def served(self) -> bool:
        """Whether it has what it waited for."""
        return self.lease is not None or self.error is not None

    def wait(self, timeout_s: float = threading.TIMEOUT_MAX) -> bool:
        """Sleep until it is served, at most so many seconds; whether it is."""
        return self.served or self._gate.acquire(timeout=max(0.0, timeout_s))

    def wake(self) -> None:
        """Let it see that it is served."""
        if self._gate.locked():
            self._gate.release()

    def give(self, lease: Lease) -> None:
        """Wake it with the lease."""
        self.lease = lease
        self.wake()

    def fail(self, error: MiroirError) -> None:
        """Wake it with the error."""
        self.error = error
        self.wake()


class Desk:
    """Where threads wait for leases, and where what happens to the fleet is reported."""

    def __init__(self, urls: Iterable[str], **options: Any) -> None:
        self._lock = threading.Lock()  # guards everything below
        self._schedule = Schedule(dice=random.Random(os.urandom(8)), **options)
        self._waiters: dict[Ticket, Waiter] = {}
        self._watch = diagnosis.Watch(time.monotonic())
        self._counts: dict[str, float] = dict.fromkeys(COUNTERS, 0)
        self._links: set[Transport] = set()  # those that are open, and counted as held
        self._over: deque[tuple[Transport, dict[str, Any]]] = deque()  # appended to by finalizers, without the lock
        self._schedule.update(urls)

    def update(self, urls: Iterable[str]) -> None:
        """Make `urls` the fleet."""
        with self._lock:
            self._schedule.update(urls)

    def urls(self) -> list[str]:
        """The fleet's URLs; takes no lock, for a process that was forked while another thread held it."""
        return [node.url for node in list(self._schedule.nodes.values()) if not node.removed]

    @property
    def waiting(self) -> int:
        """How many threads wait."""
        return len(self._schedule.line)

    def demand(self) -> tuple[int, int]:
        """How many sessions are open, and how many more there will be if one more thread waits."""
        with self._lock:
            held = self._schedule.held
            return held, min(len(self._schedule.line) + 1, max(1, len(self._schedule.nodes) - held))

    def join(self, *, wait_busy: bool) -> Waiter:
        """Stand in line."""
        with self._lock:
            now = time.monotonic()
            self._settle_over(now)
            self._counts["requests_num"] += 1
            self._counts["requests_queued"] += not self._schedule.plenty
            waiter = Waiter(self._schedule.join(now, wait_busy=wait_busy))
            self._waiters[waiter.ticket] = waiter
            return waiter

    def leave(self, waiter: Waiter) -> bool:
        """Give up; False when a lease or an error came at the same instant, and is in the waiter's hands."""
        with self._lock:
            left = self._schedule.leave(waiter.ticket, time.monotonic())
            if left:
                del self._waiters[waiter.ticket]
                self._counts["requests_errors"] += 1
        if not left:
            waiter.wait()  # whoever took the ticket out of the line is about to say what came of it
        return left

    def served(self, waited_s: float) -> None:
        """Count what a lease had to wait for."""
        with self._lock:
            self._counts["requests_wait_ms"] += round(1000 * waited_s)

    def none_free(self, waited_s: float) -> MiroirError:
        """The error of a lease whose time is over."""
        with self._lock:
            return diagnosis.none_free(census(self._schedule.nodes.values()), waited_s, timed_out=True)

    def plan(self, now: float) -> Plan:
        """What is to be done now; whoever waits in vain is told so."""
        with self._lock:
            self._settle_over(now)
            self._settle_strays(now)
            plan = self._schedule.plan(now)
            self._counts["probes_num"] += len(plan.probe)
            for ticket in self._schedule.hopeless(now):
                seen = census(self._schedule.nodes.values())
                error = diagnosis.all_refused(seen) or diagnosis.none_free(seen, now - ticket.joined_at)
                self._schedule.leave(ticket, now)
                self._counts["requests_errors"] += 1
                self._waiters.pop(ticket).fail(error)
            return plan

    def look(self, now: float) -> None:
        """Log what is worth it."""
        with self._lock:
            remarks = self._watch.look(self._schedule, now)
        for level, remark in remarks:
            _log.log(level, "%s", remark)

    def probed(self, answers: Iterable[tuple[str, Health]]) -> None:
        """Take in answers to probes."""
        with self._lock:
            now = time.monotonic()
            for url, health in answers:
                self._schedule.probed(url, health, now)

    def unanswered(self) -> None:
        """No answer will come to the probes that are under way."""
        with self._lock:
            self._schedule.unanswered()

    def opened(self, url: str, attempt: Attempt, took_s: float) -> Waiter | None:
        """Take in what came of an attempt; the waiter who gets it, or None: close it then, if it is open."""
        with self._lock:
            now = time.monotonic()
            self._settle_over(now)
            self._counts["connections_num"] += 1
            self._counts["connections_ms"] += round(1000 * took_s)
            self._counts["capacity_refused"] += attempt.outcome is Outcome.BUSY
            self._counts["connections_errors"] += attempt.outcome not in (Outcome.OPENED, Outcome.BUSY)
            ticket = self._schedule.opened(url, attempt.outcome, now, reason=attempt.reason, count=attempt.count)
            if attempt.transport is not None:
                self._links.add(attempt.transport)
            return self._waiters.pop(ticket, None) if ticket else None

    def release(self, lease: Lease, heir: Callable[[Transport], Lease], **how: Any) -> Release:
        """Decide what becomes of a session that is given back, as `Schedule.release` does; hand it over by `heir`.

        It is not open any more when somebody has it.
        """
        with self._lock:
            decision, ticket = self._schedule.release(lease.url, time.monotonic(), **how)
            waiter = self._waiters.get(ticket) if ticket else None
            if ticket and waiter:
                self._counts["handovers"] += 1
                made = heir(lease.transport)
                lease.open, waiter.lease = False, made  # at one stroke: an interrupt comes before or after
                waiter.wake()
                del self._waiters[ticket]
            return decision

    def returned(self, usage_s: float, *, good: bool, lost: bool) -> None:
        """Count a session that is given back."""
        with self._lock:
            self._counts["usage_ms"] += round(1000 * usage_s)
            self._counts["returns_bad"] += not good
            self._counts["connections_lost"] += lost

    def over(self, lease: Lease, **how: Any) -> None:
        """Take in that a session of ours is over, as `Schedule.closed` does when it is settled; takes no lock."""
        lease.open = False  # at one stroke with the next: an interrupt comes before or after
        self._over.append((lease.transport, how))

    def settle(self) -> None:
        """Settle what is over."""
        with self._lock:
            self._settle_over(time.monotonic())

    def dismiss(self, error: Callable[[], MiroirError], only: Waiter | None = None) -> None:
        """Let nobody wait any more, or not this one; `error` makes what each is told."""
        with self._lock:
            for ticket, waiter in list(self._waiters.items()) if only is None else [(only.ticket, only)]:
                if self._schedule.leave(ticket, time.monotonic()):
                    del self._waiters[ticket]
                    self._counts["requests_errors"] += 1
                    waiter.fail(error())

    def stats(self) -> dict[str, Any]:
        """The counters, what is so now, and the state of each container under `urls`."""
        with self._lock:
            self._settle_over(time.monotonic())
            nodes = list(self._schedule.nodes.values())
            return {
                **self._counts,
                "requests_waiting": len(self._schedule.line),
                "pool_size": len(nodes),
                "pool_available": sum(1 for node in nodes if node.spare),
                "quarantined": sum(1 for node in nodes if node.fault),
                "urls": {
                    node.url: {"state": node.state, "held": node.held, "slots": node.slots, "reason": node.reason}
                    for node in nodes
                },
            }

    def _settle_strays(self, now: float) -> None:
        """Where an interrupt broke off a thread at the desk: let all in line wait, and all who wait be in line."""
        if len(self._schedule.line) == len(self._waiters):
            return
        line = set(self._schedule.line)
        for ticket in line - self._waiters.keys():
            self._schedule.leave(ticket, now)
        for ticket in self._waiters.keys() - line:
            waiter = self._waiters.pop(ticket)
            if waiter.served:
                waiter.wake()
            else:
                waiter.ticket = self._schedule.join(now, wait_busy=ticket.wait_busy)
                self._waiters[waiter.ticket] = waiter

    def _settle_over(self, now: float) -> None:
        """Close what is over in the schedule, once: an interrupt may have come between that and its mark."""
        while self._over:
            transport, how = self._over[0]
            self._links.discard(transport)
            if self._schedule.held > len(self._links):
                self._schedule.closed(transport.url, now, **how)
            self._over.popleft()
