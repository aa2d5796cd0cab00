"""What is said of a fleet."""

from __future__ import annotations

import logging
import random

import pytest

from miroir.broker.diagnosis import REPORT_S, Watch, all_refused, none_free
from miroir.schedule import Schedule
from miroir.schedule.node import Fault, Node, census
from miroir.wire import Health

LEASED = Health(True, leased=True, status=200)
DOWN = Health(False, reason="timed out")


def nodes(*faults: Fault | None) -> list[Node]:
    """Containers with these faults, or leased."""
    made = []
    for number, fault in enumerate(faults):
        node = Node(f"http://c{number}:1")
        node.seen_at, node.fault, node.reason, node.status = 1.0, fault, "why", 403 if fault is Fault.REFUSED else None
        made.append(node)
    return made


@pytest.mark.parametrize(
    ("faults", "timed_out", "text"),
    [
        (
            [None, None],
            False,
            "no container of 2 is free: 2 leased, 0 unhealthy; start more containers, or run fewer episodes at once",
        ),
        (
            [None, Fault.DOWN],
            True,
            "no container of 2 came free within 7.5 s: 1 leased, 1 unhealthy (http://c1:1: why); "
            "start more containers, or run fewer episodes at once",
        ),
        (
            [Fault.DOWN] * 5,
            False,
            "no container of 5 is free: 0 leased, 5 unhealthy (http://c0:1: why; http://c1:1: why; http://c2:1: why; "
            "and 2 more); start the containers (`miroir pool`), or correct their URLs",
        ),
        (
            [None, Fault.REFUSED],
            False,
            "no container of 2 is free: 1 leased, 0 unhealthy, 1 refused (http://c1:1: why); "
            "start more containers, or run fewer episodes at once",
        ),
    ],
)
def test_none_free(faults: list[Fault | None], timed_out: bool, text: str) -> None:
    """Counts by state, three reasons at most, and what to do."""
    error = none_free(census(nodes(*faults)), 7.5, timed_out=timed_out)

    assert error.message == text
    assert (error.leased, error.unhealthy, error.refused) == (
        faults.count(None),
        faults.count(Fault.DOWN),
        faults.count(Fault.REFUSED),
    )


def test_all_refused() -> None:
    """URL and status of one of them; None while one does not refuse."""
    error = all_refused(census(nodes(Fault.REFUSED, Fault.REFUSED)))

    assert error is not None
    assert (error.url, error.status) == ("http://c0:1", 403)
    assert all_refused(census(nodes(Fault.REFUSED, None))) is None
    assert all_refused(census([])) is None


def fleet(health: Health, count: int = 2) -> Schedule:
    """A schedule whose containers have all answered so, with one waiter."""
    schedule = Schedule(dice=random.Random(0))
    schedule.update(f"http://c{number}:1" for number in range(count))
    schedule.join(0.0)
    for _ in range(5):
        for url in schedule.plan(0.0).probe:
            schedule.probed(url, health, 0.0)
    return schedule


def test_silence_is_told_once_after_three_seconds() -> None:
    """And again only after something was alive in between."""
    watch, schedule = Watch(0.0), fleet(DOWN)

    assert watch.look(schedule, 2.9) == []
    assert watch.look(schedule, 3.1) == [
        (
            logging.WARNING,
            "no container of 2 is alive (http://c0:1: timed out; http://c1:1: timed out); waiting for one",
        )
    ]
    assert watch.look(schedule, 20.0) == []


def test_nobody_waits_nothing_is_said() -> None:
    """A dead fleet that nobody wants is no news."""
    watch, schedule = Watch(0.0), fleet(DOWN)
    schedule.leave(next(iter(schedule.line)), 1.0)

    assert watch.look(schedule, 100.0) == []


def test_suspicion_is_told_once() -> None:
    """While it lasts."""
    watch, schedule = Watch(0.0), fleet(DOWN, 6)
    said = [watch.look(schedule, now) for now in (1.0, 2.0)]

    assert said[0][0][1] == (
        "most containers failed within seconds, so the cause may be this process or its network: timed out (6); "
        "check `ulimit -n`, DNS and proxies"
    )
    assert said[1] == []


def test_a_report_a_minute() -> None:
    """While somebody waits, one INFO line every minute."""
    watch, schedule = Watch(0.0), fleet(LEASED)
    lines = [watch.look(schedule, float(now)) for now in range(1, 200)]

    assert REPORT_S == 60.0
    assert sum(map(len, lines)) == 3
    assert lines[59] == [
        (
            logging.INFO,
            "1 waiting, the first for 60 s; of 2 containers 2 leased (0 by this process), 0 unhealthy, 0 refused",
        )
    ]
