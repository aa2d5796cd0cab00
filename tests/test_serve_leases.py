"""Slots and the memory of waiting clients, on a clock of the test's."""

from __future__ import annotations

from miroir.serve.leases import Leases


class Clock:
    """A clock that a test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_remembers_a_waiting_client_for_a_minute() -> None:
    """The age of the latest asking counts, and none is older than sixty seconds."""
    clock = Clock()
    leases = Leases(1, clock)
    assert leases.wanted_s("me") is None
    leases.note("a")
    clock.now += 30
    assert leases.wanted_s("me") == 30
    leases.note("b")
    clock.now += 10
    assert leases.wanted_s("me") == 10
    leases.note("a")
    assert leases.wanted_s("me") == 0
    clock.now += 60
    assert leases.wanted_s("me") == 60
    clock.now += 0.1
    assert leases.wanted_s("me") is None


def test_does_not_count_the_holder_itself() -> None:
    """A holder is told of others only; one that sent no id is told of all."""
    clock = Clock()
    leases = Leases(1, clock)
    leases.note("a")
    clock.now += 5
    leases.note("me")
    assert leases.wanted_s("me") == 5
    assert leases.wanted_s(None) == 0


def test_forgets_more_clients_than_there_can_be() -> None:
    """Neither made-up ids nor long ones fill the memory."""
    leases = Leases(1, Clock())
    for number in range(10_050):
        leases.note(f"client-{number}")
    leases.note("x" * 201)
    leases.note("")
    leases.note(None)
    assert len(leases._seen) == 10_000
    assert "client-49" not in leases._seen
