"""The waiting line."""

from __future__ import annotations

from miroir.schedule.line import Line


def test_first_come_first_served() -> None:
    """Tickets are granted in the order in which they joined."""
    line = Line()
    tickets = [line.join(float(n), wait_busy=True) for n in range(3)]

    assert list(line) == tickets
    assert [line.grant(5.0) for _ in range(4)] == [*tickets, None]


def test_a_ticket_is_granted_or_gone_once() -> None:
    """Whoever left is not granted, whoever was granted cannot leave, and nobody leaves twice."""
    line = Line()
    gone, granted = line.join(0.0, wait_busy=True), line.join(0.0, wait_busy=True)

    assert line.leave(gone, 1.0)
    assert line.grant(2.0) is granted
    assert not line.leave(granted, 3.0)
    assert not line.leave(gone, 3.0)
    assert (gone.state, granted.state, len(line)) == ("gone", "granted", 0)


def test_the_line_knows_when_it_moved() -> None:
    """Both a grant and a give-up move it."""
    line = Line()
    first, _ = line.join(0.0, wait_busy=True), line.join(0.0, wait_busy=True)
    line.leave(first, 3.0)
    left = line.moved_at
    line.grant(4.0)

    assert (left, line.moved_at) == (3.0, 4.0)
