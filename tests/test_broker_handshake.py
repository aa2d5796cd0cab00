"""What attempts to open a session mean for the lease: mode of the container against outcome, over real sockets."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from fakefleet import FakeFleet

from miroir.broker import handshake
from miroir.broker.handshake import Attempt, Dialling
from miroir.schedule import Outcome
from miroir.schedule.chains import UNKNOWN, others_wait
from miroir.transport import HandshakeFailed, open_transport

IDLE: dict[str, Any] = {"episode_id": None, "done": False}


@pytest.fixture
def fleet() -> Iterator[FakeFleet]:
    """One container."""
    with FakeFleet("free") as running:
        yield running


def attempt(fleet: FakeFleet, timeout_s: float = 0.3) -> Attempt:
    """An attempt on it."""
    made = handshake.attempt(fleet.urls[0], None, waiting="me", timeout_s=timeout_s, dialling=Dialling())
    if made.transport is not None:
        made.transport.close()
    return made


@pytest.mark.parametrize(
    ("mode", "outcome", "reason"),
    [
        ("free", Outcome.OPENED, ""),
        ("plain", Outcome.OPENED, ""),
        ("held", Outcome.BUSY, ""),
        ("hang", Outcome.SICK, "the handshake took more than 0.3 s"),
        ("half_hang", Outcome.SICK, "the handshake took more than 0.3 s"),
        ("slow", Outcome.SICK, "the handshake took more than 0.3 s"),
        ("mute", Outcome.SICK, "its first frame did not come: no reply came within 0.3 s"),
        ("first", Outcome.SICK, "its first frame did not come: the server went away without a closing handshake"),
        ("factory", Outcome.SICK, "FACTORY_ERROR: no"),
    ],
)
def test_mode_and_outcome(fleet: FakeFleet, mode: str, outcome: Outcome, reason: str) -> None:
    """Each kind of container has its outcome and reason."""
    fleet[0].mode = mode
    made = attempt(fleet)

    assert (made.outcome, made.reason) == (outcome, reason)
    assert (made.transport is not None) is (outcome is Outcome.OPENED)
    assert fleet.settled(0)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (401, Outcome.REFUSED),
        (403, Outcome.REFUSED),
        (404, Outcome.REFUSED),
        (408, Outcome.SICK),
        (425, Outcome.SICK),
        (429, Outcome.SICK),
        (500, Outcome.SICK),
        (503, Outcome.SICK),
    ],
)
def test_status_and_outcome(fleet: FakeFleet, status: int, outcome: Outcome) -> None:
    """A 4xx refuses this client for good, unless it says to try again; a 5xx is the container's fault."""
    fleet[0].mode, fleet[0].status = "half", status
    made = attempt(fleet)

    assert (made.outcome, made.count) == (outcome, status)
    assert made.reason == f"the handshake was refused with HTTP {status}"


def test_a_busy_container_says_how_many_sessions_it_has(fleet: FakeFleet) -> None:
    """CAPACITY_REACHED carries the number of sessions."""
    fleet[0].mode, fleet[0].slots = "held", 3

    assert attempt(fleet).count == 3


@pytest.mark.parametrize("told", [None, 0, -1, "3", True])
def test_a_number_of_sessions_that_is_none(fleet: FakeFleet, told: object) -> None:
    """What is no positive number is not believed."""
    refusal = {"code": "CAPACITY_REACHED", "message": "no", "max_sessions": told}
    fleet[0].reply = lambda frame: [{"type": "error", "data": refusal}]
    made = attempt(fleet)

    assert (made.outcome, made.count) == (Outcome.BUSY, None)


def test_any_answer_but_a_closing_error_proves_the_lease(fleet: FakeFleet) -> None:
    """An environment whose state fails before the first reset is leased all the same."""
    fleet[0].reply = lambda frame: [{"type": "error", "data": {"code": "EXECUTION_ERROR", "message": "no state yet"}}]

    assert attempt(fleet).outcome is Outcome.OPENED


def test_a_descriptor_that_is_wanting_is_our_own_fault(fleet: FakeFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """EMFILE says nothing of the container."""

    def no_descriptor(*_: object, **__: object) -> None:
        raise HandshakeFailed(os.strerror(errno.EMFILE), errno.EMFILE)

    monkeypatch.setattr(handshake, "open_transport", no_descriptor)

    assert attempt(fleet).outcome is Outcome.STARVED


def test_all_attempts_can_be_ended_at_once(fleet: FakeFleet) -> None:
    """Those under way fail, and so do those that begin later."""
    fleet[0].mode = "half_hang"
    dialling = Dialling()
    threading.Timer(0.2, dialling.close).start()
    began = time.monotonic()
    for _ in range(2):
        made = handshake.attempt(fleet.urls[0], None, waiting="me", timeout_s=30, dialling=dialling)

        assert made.outcome is Outcome.SICK

    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({**IDLE, "wanted_s": None}, None),
        ({**IDLE, "wanted_s": 1.5}, 1.5),
        ({**IDLE, "wanted_s": 0}, 0.0),
        (IDLE, UNKNOWN),
        ({**IDLE, "wanted_s": "soon"}, None),
    ],
)
def test_whether_others_wait(fleet: FakeFleet, data: dict[str, Any], expected: float | None) -> None:
    """The container's word on it; UNKNOWN when it has none."""
    fleet[0].reply = lambda frame: [{"type": "state", "data": data}]
    transport = open_transport(fleet.urls[0])

    assert handshake.wanted(transport) == expected

    transport.close()


def test_whether_others_wait_cannot_be_asked_of_a_lost_one(fleet: FakeFleet) -> None:
    """A connection that broke does not say."""
    transport = open_transport(fleet.urls[0])
    fleet.drop(0)

    assert handshake.wanted(transport) == UNKNOWN


@pytest.mark.parametrize("code", [["CAPACITY_REACHED"], {"a": 1}, None])
def test_a_first_frame_whose_code_is_no_text(fleet: FakeFleet, code: Any) -> None:
    """An error frame that ends nothing proves the lease, whatever its code is."""
    fleet[0].reply = lambda _: [{"type": "error", "data": {"code": code}}]

    assert attempt(fleet).outcome is Outcome.OPENED


def test_others_who_waited_before_all_time(fleet: FakeFleet) -> None:
    """A number of any size is compared, and raises nothing in the user who gives a lease back."""
    transport = open_transport(fleet.urls[0])
    fleet[0].reply = lambda _: [{"type": "state", "data": {"wanted_s": 10**400}}]
    told = handshake.wanted(transport)
    transport.close()

    assert told == 10**400
    assert not others_wait(told, 1.0)
