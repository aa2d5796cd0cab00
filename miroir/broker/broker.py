"""Threads around the schedule: one broker for each process and source probes, opens and hands over.

A waiter sleeps on its own event and is woken by whoever has a session for it. One thread, `miroir-broker`, probes
and decides while anybody waits, and ends a second after nobody does; each handshake has a thread of its own.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import uuid
import weakref
from collections.abc import Hashable
from typing import Any

from ..deadlines import Deadlines
from ..errors import InvalidArgument, MiroirError, NoFreeContainer
from ..schedule import Outcome, Release
from ..transport import Transport
from ..urls import Source, Urls
from . import descriptors, handshake
from .canceller import Canceller
from .desk import Desk
from .lease import Lease
from .probe import Prober

LINGER_S = 1.0
WATCH_S = 0.25

_log = logging.getLogger("miroir.lease")


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
        self._closed = False
        self._begin(source.read())
        _brokers.add(self)

    def _begin(self, urls: list[str]) -> None:
        """Begin with nothing leased: at first, and in a forked child."""
        self._desk = Desk(urls, **self._schedule_options)
        self._lock = threading.Lock()  # guards the three below, of which the thread is there or not
        self._thread: threading.Thread | None = None
        self._prober: Prober | None = None
        self._read_at = time.monotonic()
        self._dialling = handshake.Dialling()
        self._name = uuid.uuid4().hex  # what it calls itself where it waits

    def lease(self, *, wait_busy: bool = True, timeout_s: float = 600.0, canceller: Canceller | None = None) -> Lease:
        """A session on a free container; NoFreeContainer after `timeout_s` seconds, ConnectionFailed if all refuse."""
        if sys.is_finalizing():
            raise InvalidArgument("the interpreter is ending; lease before it does, or in an atexit function")
        timeout_s = min(timeout_s, threading.TIMEOUT_MAX)
        began = time.monotonic()
        self._catch_up()
        descriptors.require(*self._desk.demand())
        waiter = self._desk.join(wait_busy=wait_busy)
        try:
            if self._closed:
                raise InvalidArgument("this fleet is closed; make a new one")
            self._attend()
            with (canceller or Canceller()).waiting(lambda: self._desk.dismiss(_cancelled, waiter)):
                woken = waiter.wait(timeout_s)
        except BaseException:
            if not self._desk.leave(waiter) and waiter.lease is not None:
                waiter.lease.release(reusable=True)
            raise
        waited_s = time.monotonic() - began
        if not woken and self._desk.leave(waiter):
            raise self._desk.none_free(waited_s)
        self._desk.served(waited_s)
        if waiter.error is not None:
            raise waiter.error
        assert waiter.lease is not None
        return waiter.lease

    def release(self, lease: Lease, *, reusable: bool, free: bool = True, fault: str = "") -> None:
        """Take a session back: hand its connection to the first waiter when it is `reusable`, else close it."""
        if sys.is_finalizing():  # a thread that has ended may hold any lock
            self.drop(lease)
            return
        transport, let_go = lease.transport, False
        try:
            self._desk.returned(time.monotonic() - lease.since, good=free and not fault, lost=not transport.usable)
            let_go = self._decided(lease, reusable=reusable and transport.usable and not fault) is Release.LET_GO
            if lease.open:
                transport.close()
        finally:  # also when the container is asked, or the connection closed, and the user has had enough
            if lease.open:
                self._desk.over(lease, let_go=let_go, free=free, fault=fault)
                transport.abort("its lease is over")
                self._desk.settle()
                self._wake()

    def _decided(self, lease: Lease, *, reusable: bool) -> Release:
        """What becomes of a session that is given back; who gets it has it. Its container is asked if need be."""
        decision = self._desk.release(lease, self._lease, reusable=reusable)
        if decision is Release.ASK:
            wanted_s = handshake.wanted(lease.transport)
            reusable = lease.transport.usable
            return self._desk.release(lease, self._lease, reusable=reusable, wanted_s=wanted_s, asked=True)
        return decision

    def _lease(self, transport: Transport) -> Lease:
        return Lease(self, transport)

    def drop(self, lease: Lease) -> None:
        """Take back a session that nobody closed; called by finalizers, it takes no lock and does no handshake."""
        lease.transport.abort("its session was dropped without close")
        self._desk.over(lease, free=False)
        self._wake()

    def close(self) -> None:
        """Let nobody wait any more; sessions that are leased stay so until they are closed."""
        self._closed = True
        if sys.is_finalizing():
            return  # nobody waits, and nobody would let go of a lock
        self._desk.dismiss(_closed)
        self._dialling.close()
        thread = self._thread
        self._wake()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def stats(self) -> dict[str, Any]:
        """Counters since the start, as psycopg_pool names them, and the state of each container.

        `requests_num` leases asked for, `requests_queued` of them not met at once, `requests_waiting` now,
        `requests_wait_ms` in all, `requests_errors`; `usage_ms` of leases that were given back, `returns_bad` broken;
        `handovers` over an open connection; `connections_num` handshakes, their `connections_ms` and
        `connections_errors`; `connections_lost`; `capacity_refused`; `probes_num`; `pool_size` and `pool_available`
        containers; `quarantined`; `urls` by URL.
        """
        return self._desk.stats()

    def _catch_up(self) -> None:
        """Look at the source in the caller's thread when no broker thread has been watching it."""
        with self._lock:
            now = time.monotonic()
            if self._thread is not None or now - self._read_at < WATCH_S:
                return
            self._read_at = now
        urls = self._source.caught_up()
        if urls is not None:
            self._desk.update(urls)

    def _attend(self) -> None:
        """See to it that the broker's thread runs and looks again."""
        with self._lock:
            if self._thread is None:
                self._start()
        self._wake()

    def _start(self) -> None:
        try:
            prober = Prober(self.token, waiting=self._name, timeout_s=self.deadlines.health_s)
        except OSError as error:
            if error.errno in descriptors.EXHAUSTED:
                raise descriptors.exhausted(sum(self._desk.demand())) from error
            raise
        self._desk.unanswered()  # by the thread that was there before
        thread = threading.Thread(target=self._run, args=[prober], name="miroir-broker", daemon=True)
        try:
            thread.start()
            self._thread, self._prober = thread, prober
        except BaseException:
            prober.close()
            raise

    def _wake(self) -> None:
        prober = self._prober
        if prober is not None:
            prober.wake()

    def _run(self, prober: Prober) -> None:
        """What the broker's thread does, until nobody has waited for a second."""
        with self._lock:  # which its starter holds
            if self._prober is not prober:
                return  # an interrupt came between
        try:
            needed_at = time.monotonic()
            while True:
                self._turn(prober)
                now = time.monotonic()
                if self._desk.waiting:
                    needed_at = now
                elif (self._closed or now - needed_at > LINGER_S) and self._retire():
                    break
        except Exception:
            _log.exception("the thread that leases containers failed")
            self._retire(force=True)
            self._desk.dismiss(_failed)
        finally:
            prober.close()

    def _retire(self, *, force: bool = False) -> bool:
        """End the thread unless somebody has come to wait meanwhile."""
        with self._lock:
            if self._desk.waiting and not force:
                return False
            self._thread = self._prober = None
            return True

    def _turn(self, prober: Prober) -> None:
        """Look, do what is to be done, and wait for what comes."""
        now = time.monotonic()
        if now - self._read_at >= WATCH_S:
            self._read_at = now
            urls = self._source.changed()
            if urls is not None:
                self._desk.update(urls)
            self._desk.look(now)
        plan = self._desk.plan(now)
        for url in plan.open:
            self._start_opening(url)
        for url in plan.probe:
            prober.start(url)
        answers = prober.poll(min(plan.again_s, WATCH_S))
        if answers:
            self._desk.probed(answers)

    def _start_opening(self, url: str) -> None:
        try:
            threading.Thread(target=self._open, args=[url], name="miroir-open", daemon=True).start()
        except RuntimeError:
            self._settle(url, handshake.Attempt(Outcome.STARVED), 0.0, want=_threadless())

    def _open(self, url: str) -> None:
        """Open a session on the container for the first waiter."""
        began = time.monotonic()
        attempt = handshake.attempt(
            url, self.token, waiting=self._name, timeout_s=self.deadlines.handshake_s, dialling=self._dialling
        )
        if attempt.reason:
            _log.info("%s cannot be leased: %s", url, attempt.reason)
        self._settle(url, attempt, time.monotonic() - began, want=descriptors.exhausted(sum(self._desk.demand())))

    def _settle(self, url: str, attempt: handshake.Attempt, took_s: float, *, want: MiroirError) -> None:
        """Give what came of an attempt to whom it is due; `want` is the error of one that was starved."""
        waiter = self._desk.opened(url, attempt, took_s)
        lease = None if attempt.transport is None else self._lease(attempt.transport)
        if waiter is not None and lease is not None:
            waiter.give(lease)
        elif waiter is not None:
            waiter.fail(want)
        elif lease is not None:
            lease.release(reusable=False)
        self._wake()


def _closed() -> MiroirError:
    return NoFreeContainer("the fleet was closed while this lease waited; close it after its last lease")


def _cancelled() -> MiroirError:
    return NoFreeContainer("the lease was cancelled while it waited for a container; ask for another")


def _failed() -> MiroirError:
    return MiroirError(
        "BROKER", "the thread that leases containers failed; its traceback is in the log of miroir.lease"
    )


def _threadless() -> MiroirError:
    return MiroirError(
        "THREAD_LIMIT", "this process can start no more threads; raise `ulimit -u` or the container's pids limit"
    )


_brokers: weakref.WeakSet[Broker] = weakref.WeakSet()
_shared: dict[Hashable, Broker] = {}
_shared_lock = threading.Lock()  # guards _shared


def shared(urls: Urls, token: str | None, deadlines: Deadlines) -> Broker:
    """This process's broker for the source, the token and the deadlines."""
    source = Source.of(urls)
    name = (source.key, token or None, deadlines)
    with _shared_lock:
        broker = _shared.get(name)
    if broker is not None:
        return broker
    made = Broker(source, token, deadlines=deadlines)
    with _shared_lock:
        return _shared.setdefault(name, made)


def _begin_anew() -> None:
    global _shared_lock
    _shared_lock = threading.Lock()
    for broker in list(_brokers):
        if broker._prober is not None:
            broker._prober.close()
        broker._begin(broker._desk.urls())


os.register_at_fork(after_in_child=_begin_anew)
