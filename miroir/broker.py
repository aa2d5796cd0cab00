"""Threads around the schedule: one broker for each process and source probes, opens, hands over and counts.

A waiter sleeps on its own event and is woken by whoever has a session for it. One thread, `miroir-broker`, probes
and decides while anybody waits, and ends a second after nobody does; each handshake has a thread of its own.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
import uuid
import weakref
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from . import diagnosis, handshake
from .deadlines import Deadlines
from .errors import InvalidArgument, MiroirError, NoFreeContainer, UrlFileError
from .node import census
from .probe import Prober
from .schedule import Outcome, Release, Schedule, Ticket
from .transport import Transport
from .urls import Source, Urls

LINGER_S = 1.0
WATCH_S = 0.25
REREAD_S = 2.0

_log = logging.getLogger("miroir.lease")
_process_id = uuid.uuid4().hex  # what this process calls itself where it waits


@dataclass(eq=False)
class Lease:
    """One open session on a container, held until it is given back to its broker."""

    broker: Broker
    transport: Transport
    url: str


class _Waiter:
    """A thread that waits for a lease."""

    def __init__(self, ticket: Ticket) -> None:
        self.ticket = ticket
        self.woken = threading.Event()
        self.transport: Transport | None = None
        self.error: MiroirError | None = None


class Broker:
    """Leases containers of one source to the threads of this process, in the order in which they came."""

    def __init__(
        self,
        source: Source,
        token: str | None = None,
        *,
        deadlines: Deadlines | None = None,
        **schedule: Any,
    ) -> None:
        self.deadlines = deadlines or Deadlines()
        self.token = token
        self._source = source
        self._schedule_options = schedule
        self._reset()
        self._schedule.update(source.read())
        _brokers.add(self)

    def _reset(self) -> None:
        """Begin anew with nothing leased: at first, and in a forked child."""
        self._lock = threading.Lock()  # guards everything below; no I/O is done under it
        self._schedule = Schedule(dice=random.Random(os.urandom(8)), **self._schedule_options)
        self._waiters: dict[Ticket, _Waiter] = {}
        self._thread: threading.Thread | None = None
        self._prober: Prober | None = None
        self._dialling = handshake.Dialling()
        self._closed = False
        self._read_at = time.monotonic()
        self._dropped: deque[str] = deque()  # appended to by finalizers, which may take no lock
        self._counts: dict[str, float] = dict.fromkeys(COUNTERS, 0)

    # Leasing

    def lease(self, *, wait_busy: bool = True, timeout_s: float = 600.0) -> Lease:
        """A session on a free container; NoFreeContainer after `timeout_s` seconds, ConnectionFailed if all refuse."""
        began = time.monotonic()
        self._reread(began)
        with self._lock:
            if self._closed:
                raise InvalidArgument("this fleet is closed; make a new one")
            self._settle_dropped(began)
            waiter = _Waiter(self._schedule.join(began, wait_busy=wait_busy))
            self._waiters[waiter.ticket] = waiter
            self._counts["requests_num"] += 1
            self._wake()
        try:
            granted = waiter.woken.wait(timeout_s)
        except BaseException:
            if not self._give_up(waiter) and waiter.transport is not None:
                self.release(Lease(self, waiter.transport, waiter.transport.url), reusable=True)
            raise
        waited_s = time.monotonic() - began
        if not granted and self._give_up(waiter):
            with self._lock:
                self._counts["requests_errors"] += 1
                raise diagnosis.none_free(census(self._schedule.nodes.values()), waited_s, timed_out=True)
        with self._lock:
            self._counts["requests_wait_ms"] += round(1000 * waited_s)
        if waiter.error is not None:
            raise waiter.error
        assert waiter.transport is not None
        return Lease(self, waiter.transport, waiter.transport.url)

    def release(self, lease: Lease, *, reusable: bool, free: bool = True, fault: str = "") -> None:
        """Take a session back: hand it to the first waiter when it is `reusable`, else close it.

        `free` says that the container can be leased again at once; `fault`, why it should rather not be.
        """
        transport = lease.transport
        reusable = reusable and transport.usable and not fault
        decision, ticket = self._decide(lease, reusable=reusable)
        if decision is Release.ASK:
            decision, ticket = self._decide(lease, reusable=True, wanted_s=handshake.wanted(transport), asked=True)
        if decision is Release.HAND_OVER and ticket is not None:
            self._grant(ticket, transport)
            return
        if not transport.usable:
            self._counts["connections_lost"] += 1
        transport.close()
        with self._lock:
            let_go = decision is Release.LET_GO
            self._schedule.closed(lease.url, time.monotonic(), let_go=let_go, free=free, fault=fault)
            self._wake(start=False)

    def drop(self, lease: Lease) -> None:
        """Take back a session that nobody closed; called by finalizers, it takes no lock and does no handshake."""
        lease.transport.abort("its session was dropped without close")
        self._dropped.append(lease.url)
        prober = self._prober
        if prober is not None:
            prober.wake()

    def close(self) -> None:
        """Let nobody wait any more; sessions that are leased stay so until they are closed."""
        with self._lock:
            self._closed = True
            for ticket, waiter in list(self._waiters.items()):
                if self._schedule.leave(ticket, time.monotonic()):
                    del self._waiters[ticket]
                    waiter.error = NoFreeContainer("the fleet was closed while this lease waited; lease before closing")
                    waiter.woken.set()
            self._dialling.close()
            thread = self._thread
            self._wake(start=False)
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def stats(self) -> dict[str, Any]:
        """Counters since the start, as psycopg_pool names them, and the state of each container.

        `requests_num` leases asked for, `requests_waiting` now, `requests_wait_ms` in all, `requests_errors`;
        `handovers` over an open connection; `connections_num` handshakes, their `connections_ms` and
        `connections_errors`; `connections_lost`; `capacity_refused`; `probes_num`; `urls` by URL.
        """
        with self._lock:
            self._settle_dropped(time.monotonic())
            return {
                **self._counts,
                "requests_waiting": len(self._schedule.line),
                "quarantined": sum(1 for node in self._schedule.nodes.values() if node.fault),
                "urls": {
                    node.url: {"state": node.state, "held": node.held, "slots": node.slots, "reason": node.reason}
                    for node in self._schedule.nodes.values()
                },
            }

    def _decide(self, lease: Lease, **how: Any) -> tuple[Release, Ticket | None]:
        with self._lock:
            decision, ticket = self._schedule.release(lease.url, time.monotonic(), **how)
            self._counts["handovers"] += decision is Release.HAND_OVER
            return decision, ticket

    def _give_up(self, waiter: _Waiter) -> bool:
        """Leave the line; False when a session came at the same instant, and is in the waiter's hands."""
        with self._lock:
            left = self._schedule.leave(waiter.ticket, time.monotonic())
            if left:
                del self._waiters[waiter.ticket]
        if not left:
            waiter.woken.wait()  # whoever took the ticket out of the line is about to say what came of it
        return left

    def _grant(self, ticket: Ticket, transport: Transport) -> None:
        with self._lock:
            waiter = self._waiters.pop(ticket)
            waiter.transport = transport
        waiter.woken.set()

    def _reread(self, now: float) -> None:
        """Look at the source in the caller's thread when no broker thread has been watching it."""
        with self._lock:
            if self._thread is not None or now - self._read_at < REREAD_S:
                return
            self._read_at = now
        try:
            urls = self._source.read()
        except UrlFileError:
            return  # a bad moment: the last good list stays
        with self._lock:
            self._schedule.update(urls)

    def _settle_dropped(self, now: float) -> None:
        while self._dropped:
            self._schedule.closed(self._dropped.popleft(), now, free=False)

    # The broker's thread

    def _wake(self, *, start: bool = True) -> None:
        """Have the broker's thread look again, starting it when somebody waits; the lock is held."""
        if self._thread is None and start:
            self._prober = Prober(self.token, waiting=_process_id, timeout_s=self.deadlines.health_s)
            self._thread = threading.Thread(target=self._run, args=[self._prober], name="miroir-broker", daemon=True)
            self._thread.start()
        elif self._prober is not None:
            self._prober.wake()

    def _run(self, prober: Prober) -> None:
        needed_at = look_at = time.monotonic()
        watch = diagnosis.Watch(needed_at)
        while True:
            now = time.monotonic()
            looking = now >= look_at
            fresh = self._source.changed() if looking else None
            with self._lock:
                self._settle_dropped(now)
                if looking:
                    look_at, self._read_at = now + WATCH_S, now
                    watch.look(self._schedule, now)
                if fresh is not None:
                    self._schedule.update(fresh)
                if self._schedule.line:
                    needed_at = now
                elif self._closed or now - needed_at > LINGER_S:
                    self._thread = self._prober = None
                    break
                plan = self._schedule.plan(now)
                self._counts["probes_num"] += len(plan.probe)
                self._fail_hopeless(now)
            for url in plan.open:
                threading.Thread(target=self._open, args=[url], name="miroir-open", daemon=True).start()
            for url in plan.probe:
                prober.start(url)
            answers = prober.poll(min(plan.again_s, WATCH_S))
            if answers:
                now = time.monotonic()
                with self._lock:
                    for url, health in answers:
                        self._schedule.probed(url, health, now)
        prober.close()

    def _open(self, url: str) -> None:
        """Open a session on the container for the first waiter; the schedule is told of what went wrong."""
        began = time.monotonic()
        attempt = handshake.attempt(
            url, self.token, waiting=_process_id, timeout_s=self.deadlines.handshake_s, dialling=self._dialling
        )
        now = time.monotonic()
        transport = attempt.transport
        with self._lock:
            self._counts["connections_num"] += 1
            self._counts["connections_ms"] += round(1000 * (now - began))
            if attempt.outcome is Outcome.BUSY:
                self._counts["capacity_refused"] += 1
            elif transport is None:
                self._counts["connections_errors"] += 1
                _log.info("%s cannot be leased: %s", url, attempt.reason)
            ticket = self._schedule.opened(url, attempt.outcome, now, reason=attempt.reason, count=attempt.count)
            self._wake(start=False)
        if transport is not None and ticket is not None:
            self._grant(ticket, transport)
        elif transport is not None:
            transport.close()
            with self._lock:
                self._schedule.closed(url, time.monotonic())

    def _fail_hopeless(self, now: float) -> None:
        for ticket in self._schedule.hopeless(now):
            waiter = self._waiters.pop(ticket)
            self._schedule.leave(ticket, now)
            self._counts["requests_errors"] += 1
            seen = census(self._schedule.nodes.values())
            waiter.error = diagnosis.all_refused(seen) or diagnosis.none_free(seen, now - ticket.joined_at)
            waiter.woken.set()


COUNTERS = (
    "requests_num",
    "requests_wait_ms",
    "requests_errors",
    "handovers",
    "connections_num",
    "connections_ms",
    "connections_errors",
    "connections_lost",
    "capacity_refused",
    "probes_num",
)

_brokers: weakref.WeakSet[Broker] = weakref.WeakSet()
_shared: dict[Hashable, Broker] = {}
_shared_lock = threading.Lock()  # guards _shared


def shared(urls: Urls, token: str | None, deadlines: Deadlines) -> Broker:
    """This process's broker for the source, the token and the deadlines."""
    source = Source.of(urls)
    name = (source.key, token, deadlines)
    with _shared_lock:
        broker = _shared.get(name)
    if broker is not None:
        return broker
    made = Broker(source, token, deadlines=deadlines)
    with _shared_lock:
        return _shared.setdefault(name, made)


def _begin_anew() -> None:
    global _shared_lock, _process_id
    _shared_lock, _process_id = threading.Lock(), uuid.uuid4().hex
    for broker in list(_brokers):
        urls = [node.url for node in broker._schedule.nodes.values() if not node.removed]
        broker._reset()
        broker._schedule.update(urls)


os.register_at_fork(after_in_child=_begin_anew)
