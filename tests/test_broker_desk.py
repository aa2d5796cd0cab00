"""The desk: the schedule behind a lock, and the threads that wait at it."""

from __future__ import annotations

import threading
import time
from typing import Any, cast

import pytest

from miroir.broker.desk import COUNTERS, Desk
from miroir.broker.handshake import Attempt
from miroir.broker.lease import Lease
from miroir.deadlines import Deadlines
from miroir.errors import MiroirError, NoFreeContainer
from miroir.schedule import Outcome, Release
from miroir.transport import Transport
from miroir.wire import Health

URL = "http://h:1"
FREE = Health(True, leased=False, active=0, slots=1, status=200)
LEASED = Health(True, leased=True, active=1, slots=1, status=200)


class Link:
    """Stands for a connection."""

    url = URL

    def abort(self, why: str) -> None:
        """Nothing to cut."""


class Giver:
    """Takes back what nobody released."""

    deadlines = Deadlines()
    token = None

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def release(self, lease: Lease, **how: Any) -> None:
        """Take it back."""
        self._desk.over(lease, **how)

    def drop(self, lease: Lease) -> None:
        """Take it back."""
        self._desk.over(lease, free=False)


LINK = cast("Transport", Link())
OPEN = Attempt(Outcome.OPENED, LINK)


def lease(desk: Desk) -> Lease:
    """The hold on the session that was opened."""
    return Lease(Giver(desk), LINK)


def closed(desk: Desk) -> None:
    """A session that was opened is over."""
    desk.over(lease(desk))
    desk.settle()


@pytest.fixture
def desk() -> Desk:
    """One with a single container."""
    return Desk([URL])


def opening(desk: Desk, health: Health = FREE) -> list[str]:
    """What is to be opened once the container has answered."""
    now = time.monotonic()
    desk.probed([(url, health) for url in desk.plan(now).probe])
    return desk.plan(now).open


def test_a_waiter_is_served_once(desk: Desk) -> None:
    """The session that comes about is for the first waiter, who cannot give up any more."""
    waiter = desk.join(wait_busy=True)

    assert opening(desk) == [URL]
    assert desk.opened(URL, OPEN, 0.01) is waiter

    given = lease(desk)
    waiter.give(given)

    assert not desk.leave(waiter)
    assert waiter.lease is given


def test_leaving_waits_for_what_is_on_its_way(desk: Desk) -> None:
    """Who gives up at the instant of a grant gets the session, however long its giver takes."""
    waiter = desk.join(wait_busy=True)
    opening(desk)
    assert desk.opened(URL, OPEN, 0.01) is waiter
    given = lease(desk)
    threading.Timer(0.2, waiter.give, [given]).start()

    assert not desk.leave(waiter)
    assert waiter.lease is given


def test_whoever_waits_in_vain_is_told(desk: Desk) -> None:
    """A lease that does not wait ends with the error that counts."""
    waiter = desk.join(wait_busy=False)
    opening(desk, LEASED)
    desk.plan(time.monotonic())

    assert isinstance(waiter.error, NoFreeContainer)
    assert waiter.wait(0)
    assert desk.waiting == 0


def test_demand_is_no_more_than_the_fleet_has(desk: Desk) -> None:
    """However many wait, one container is one session more."""
    assert desk.demand() == (0, 1)

    for _ in range(10):
        desk.join(wait_busy=True)

    assert desk.demand() == (0, 1)


def test_dismissed_all_are_told(desk: Desk) -> None:
    """Each with an error of its own."""
    waiters = [desk.join(wait_busy=True) for _ in range(3)]
    desk.dismiss(lambda: MiroirError("X", "y"))

    assert len({id(waiter.error) for waiter in waiters}) == 3
    assert desk.waiting == 0


def test_counters(desk: Desk) -> None:
    """Requests, handshakes, hand-overs, returns and their times are counted."""
    desk.join(wait_busy=True)
    opening(desk)
    desk.opened(URL, OPEN, 0.25)
    desk.served(0.5)
    waiting = desk.join(wait_busy=True)

    assert desk.release(lease(desk), lambda _: lease(desk), reusable=True) is Release.HAND_OVER
    assert waiting.lease is not None

    desk.returned(2.0, good=False, lost=True)
    closed(desk)
    stats = desk.stats()

    assert {name: stats[name] for name in COUNTERS if stats[name]} == {
        "requests_num": 2,
        "requests_queued": 2,
        "requests_wait_ms": 500,
        "usage_ms": 2000,
        "returns_bad": 1,
        "handovers": 1,
        "connections_num": 1,
        "connections_ms": 250,
        "connections_lost": 1,
        "probes_num": 1,
    }
    assert stats["urls"] == {URL: {"state": "free", "held": 0, "slots": 1, "reason": ""}}


def test_what_was_forgotten_is_taken_in_without_a_lock(desk: Desk) -> None:
    """A finalizer may run in a thread that holds the desk's lock."""
    desk.join(wait_busy=True)
    opening(desk)
    desk.opened(URL, OPEN, 0.01)
    with desk._lock:
        lease(desk).forget()

    assert desk.stats()["urls"][URL]["held"] == 0


def test_who_was_interrupted_as_he_joined_does_not_stand_in_line(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place that nobody waits at would be given a session, and keep the broker's thread for ever."""

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("miroir.broker.desk.Waiter", interrupted)
        with pytest.raises(KeyboardInterrupt):
            desk.join(wait_busy=True)
    waiter = desk.join(wait_busy=True)

    assert opening(desk) == [URL]
    assert desk.waiting == 1
    assert desk.opened(URL, OPEN, 0.01) is waiter


def test_a_session_that_comes_for_nobody_is_closed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the one who stood first was interrupted as he joined, and the line was not looked at since."""
    desk.join(wait_busy=True)
    assert opening(desk) == [URL]
    desk._waiters.clear()  # as an interrupt leaves it

    assert desk.opened(URL, OPEN, 0.01) is None

    closed(desk)
    desk.join(wait_busy=True)

    assert desk.release(lease(desk), lambda _: lease(desk), reusable=True) is Release.HAND_OVER


def test_whose_session_was_lost_on_its_way_stands_in_line_again(desk: Desk) -> None:
    """Whoever gave it was interrupted: the waiter would sleep for ever."""
    waiter = desk.join(wait_busy=True)
    opening(desk)
    desk._schedule.opened(URL, Outcome.OPENED, time.monotonic())  # and nothing was done with its ticket
    closed(desk)

    assert desk.plan(time.monotonic()).open == [URL]
    assert desk.opened(URL, OPEN, 0.01) is waiter
