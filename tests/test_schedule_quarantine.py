"""What is remembered of containers that failed."""

from __future__ import annotations

import errno
import random

import pytest

from miroir.schedule.node import Fault, Node
from miroir.schedule.quarantine import Quarantine


@pytest.fixture
def quarantine() -> Quarantine:
    """One whose dice are known."""
    return Quarantine(random.Random(1))


def container(number: int = 1) -> Node:
    """A container."""
    return Node(f"http://10.0.0.{number}:80")


@pytest.mark.parametrize(
    ("fault", "waits"),
    [
        (Fault.DOWN, [0.5, 1, 2, 4, 5, 5]),
        (Fault.SICK, [0.5, 1, 2, 4, 8, 16, 30, 30]),
        (Fault.REFUSED, [30, 30]),
    ],
)
def test_each_failure_costs_twice_as_long(quarantine: Quarantine, fault: Fault, waits: list[float]) -> None:
    """Half a second, doubled each time to the limit of its kind, with 20 % jitter either way."""
    node = container()
    for wait_s in waits:
        quarantine.put(node, fault, "x", 100.0)

        assert 0.8 * wait_s <= node.retry_at - 100.0 <= 1.2 * wait_s


def test_health_does_not_make_good_what_handshakes_did(quarantine: Quarantine) -> None:
    """A half-dead container that says it is healthy keeps its count of failures; a session clears it."""
    node = container()
    quarantine.put(node, Fault.SICK, "HTTP 500", 0.0)
    quarantine.lift(node, proven=False)

    assert (node.fault, node.failures) == (None, 1)

    quarantine.lift(node, proven=True)

    assert node.failures == 0


def test_health_makes_good_what_health_did(quarantine: Quarantine) -> None:
    """A container that was down and answers again begins anew."""
    node = container()
    quarantine.put(node, Fault.DOWN, "connection refused", 0.0)
    quarantine.lift(node, proven=False)

    assert node.failures == 0


def test_a_fault_of_ours_is_held_against_nobody(quarantine: Quarantine) -> None:
    """Too many open files is our own want: the container is asked again soon, and we are suspect at once."""
    node = container()
    for _ in range(5):
        quarantine.put(node, Fault.DOWN, "too many open files", 0.0, code=errno.EMFILE)

    assert node.retry_at <= 0.6
    assert node.failures == 0
    assert quarantine.local
    assert quarantine.suspicion(0.0, total=100) == {"EMFILE": 1}


def test_suspicion_takes_more_than_half_and_four(quarantine: Quarantine) -> None:
    """More than half of the containers, and at least four, failed within ten seconds and did not recover."""
    nodes = [container(n) for n in range(5)]
    for node in nodes[:3]:
        quarantine.put(node, Fault.DOWN, "timed out", 0.0)

    assert quarantine.suspicion(0.0, total=5) == {}

    for node in nodes[3:]:
        quarantine.put(node, Fault.DOWN, "connection refused", 1.0, code=errno.ECONNREFUSED)

    assert quarantine.suspicion(2.0, total=5) == {"timed out": 3, "ECONNREFUSED": 2}
    assert quarantine.suspicion(2.0, total=10) == {}

    quarantine.lift(nodes[0], proven=False)
    quarantine.lift(nodes[1], proven=False)

    assert quarantine.suspicion(2.0, total=5) == {}
