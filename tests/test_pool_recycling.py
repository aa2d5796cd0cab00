"""Containers that are replaced after so many episodes, on a clock of the test's."""

from __future__ import annotations

from miroir.pool.recycling import DRAINED_S, Recycling
from miroir.pool.status import Status


def said(episodes: int | None, *, leased: bool | None = False, active: int = 0) -> Status:
    """A healthy answer."""
    return Status("http://a", True, "", leased, active, 1, episodes=episodes)


def test_a_container_is_spent_after_so_many_episodes() -> None:
    """Not one sooner, and never where nobody asked for it."""
    recycling = Recycling(3)
    assert (recycling.look(said(2), 0.0), recycling.spent) == (False, False)
    assert (recycling.look(said(3), 0.0), recycling.spent) == (False, True)
    kept = Recycling(None)
    assert (kept.look(said(1000), 0.0), kept.spent) == (False, False)


def test_a_spent_container_is_done_when_it_was_free_for_a_while() -> None:
    """Who connects meanwhile, even to one of several slots, keeps it until the session ends."""
    recycling = Recycling(1)
    assert not recycling.look(said(1, leased=True, active=1), 0.0)
    assert not recycling.look(said(1), 100.0)
    assert not recycling.look(said(2, active=1), 100.0 + DRAINED_S)
    assert not recycling.look(said(2), 200.0)
    assert recycling.look(said(2), 200.0 + DRAINED_S)


def test_a_server_that_does_not_count_cannot_be_recycled() -> None:
    """It is said when the container is started, not found out after days."""
    assert Recycling(5).fault(said(None)).startswith("does not say in /health how many episodes it has begun")
    assert Recycling(5).fault(said(0, leased=None)) != ""
    assert Recycling(5).fault(said(0)) == Recycling(None).fault(said(None)) == ""
