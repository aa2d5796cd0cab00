"""A container as it is known, and the census of a fleet."""

from __future__ import annotations

import pytest

from miroir.schedule.node import Fault, Node, census


def node(**fields: object) -> Node:
    """A container with these fields."""
    made = Node("http://10.0.0.1:80")
    for name, value in fields.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({}, "unknown"),
        ({"seen_at": 1.0}, "leased"),
        ({"seen_at": 1.0, "spare": 1}, "free"),
        ({"seen_at": 1.0, "fault": Fault.DOWN}, "down"),
        ({"seen_at": 1.0, "fault": Fault.SICK}, "sick"),
        ({"seen_at": 1.0, "fault": Fault.REFUSED}, "refused"),
        ({"seen_at": 1.0, "fault": Fault.DOWN, "held": 1}, "held"),
    ],
)
def test_state_is_one_word(fields: dict[str, object], state: str) -> None:
    """Statistics show a container's state as a word."""
    assert node(**fields).state == state


def test_full_is_every_session_held() -> None:
    """A container is full when this process holds all its sessions; of one that told no number, one."""
    assert not node().full
    assert node(held=1).full
    assert not node(held=1, slots=2).full
    assert node(held=2, slots=2).full


def test_set_aside_is_for_what_costs_the_container() -> None:
    """A sick or refusing container is left alone until its time; one that is down may always be asked."""
    assert node(fault=Fault.SICK, retry_at=5.0).set_aside(4.9)
    assert not node(fault=Fault.SICK, retry_at=5.0).set_aside(5.0)
    assert not node(fault=Fault.DOWN, retry_at=5.0).set_aside(0.0)


def test_census_counts_by_state() -> None:
    """Leased, unhealthy and refused are counted; what drains without a session is not there any more."""
    seen = census(
        [
            node(),
            node(seen_at=1.0),
            node(seen_at=1.0, spare=1),
            node(held=1, removed=True),
            node(removed=True),
            node(seen_at=1.0, fault=Fault.DOWN),
            node(seen_at=1.0, fault=Fault.SICK),
            node(seen_at=1.0, fault=Fault.REFUSED),
        ]
    )

    assert (seen.total, seen.leased, len(seen.unhealthy), len(seen.refused), seen.alive) == (7, 2, 2, 1, True)


def test_nothing_seen_is_not_alive() -> None:
    """A fleet of which nothing is known yet, or nothing good, is not alive."""
    assert not census([node(), node(seen_at=1.0, fault=Fault.DOWN)]).alive
