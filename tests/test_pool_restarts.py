"""When a container may start again."""

from __future__ import annotations

from miroir.pool.restarts import Restarts


def test_delays_double_from_one_second_to_thirty() -> None:
    """1, 2, 4, 8, 16, 30, 30 seconds for a container that never stays up."""
    restarts = Restarts()
    assert [restarts.delay(0.1, float(now)) for now in range(7)] == [1, 2, 4, 8, 16, 30, 30]


def test_a_container_that_was_steady_begins_again_with_one_second() -> None:
    """A minute of being up makes the next fault the first."""
    restarts = Restarts()
    assert [restarts.delay(up_s, 0.0) for up_s in (1, 1, 59, 60, 1)] == [1, 2, 4, 1, 2]


def test_the_budget_is_ten_restarts_in_ten_minutes() -> None:
    """The eleventh fault within ten minutes gives the container up; older ones no longer count."""
    restarts = Restarts()
    assert None not in [restarts.delay(100.0, float(now)) for now in range(0, 500, 50)]
    assert restarts.delay(100.0, 599.0) is None
    assert restarts.delay(100.0, 600.0) == 1
    assert restarts.delay(100.0, 601.0) is None
