"""Whom to ask next."""

from __future__ import annotations

import random

import pytest

from miroir.node import Node
from miroir.search import MAX_PROBES, MAX_WINDOW, Search


@pytest.fixture
def search() -> Search:
    """One whose dice are known, at 100 a second."""
    return Search(random.Random(1), 100.0)


def containers(count: int, seen_at: float = 0.0) -> list[Node]:
    """Containers seen at that time."""
    made = [Node(f"http://10.0.0.{n % 250}:{80 + n // 250}") for n in range(count)]
    for node in made:
        node.seen_at = seen_at
    return made


def asked(search: Search, now: float, missing: int, nodes: list[Node], *, careful: bool = False) -> list[Node]:
    """Those that are asked now."""
    chosen = search.next(now, missing, nodes, careful=careful)
    for node in chosen:
        search.begin(node, now)
    return chosen


def test_first_comes_before_last(search: Search) -> None:
    """Containers that were added are asked before the rest of the scan, and none twice."""
    old, new = containers(4), [Node("http://10.1.1.1:80")]
    search.last(old)
    search.last(old)
    search.first(new)

    assert asked(search, 1.0, 1, old)[0] is new[0]
    assert len(asked(search, 1.0, 10, old)) == 3


def test_twice_as_many_as_are_missing(search: Search) -> None:
    """For three waiters six are asked."""
    nodes = containers(100)
    search.last(nodes)

    assert len(asked(search, 1.0, 3, nodes)) == 6


def test_window_widens_and_narrows(search: Search) -> None:
    """Each miss doubles how many are asked at once, and a find ends that."""
    nodes = containers(2000)
    search.last(nodes)
    for _ in range(20):
        search.missed()

    assert len(asked(search, 1.0, 1, nodes)) == MAX_WINDOW

    for node in nodes:
        search.answered(node)
    search.found()

    assert len(asked(search, 1.0, 1, nodes)) == 2


def test_those_that_hang_are_bounded(search: Search) -> None:
    """However long nobody answers, so many probes are in flight and no more."""
    nodes = containers(2000)
    search.last(nodes)
    for tick in range(100):
        asked(search, tick / 10, 1, nodes)

    assert sum(node.probing_since is not None for node in nodes) == MAX_PROBES


def test_careful_is_one_at_a_time(search: Search) -> None:
    """When the fault may be ours, one is asked at once."""
    nodes = containers(10)
    search.last(nodes)

    assert len(asked(search, 1.0, 10, nodes, careful=True)) == 1
    assert asked(search, 1.0, 10, nodes, careful=True) == []


def test_longest_unseen_at_the_pace(search: Search) -> None:
    """After the scan the one that was not seen for longest is asked, then nobody for a hundredth of a second."""
    nodes = containers(3)
    nodes[1].seen_at = -5.0

    assert asked(search, 1.0, 3, nodes) == [nodes[1]]
    assert asked(search, 1.009, 3, nodes) == []
    assert len(asked(search, 1.013, 3, nodes)) == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"spare": 1},
        {"held": 1},
        {"openings": [0.5]},
        {"probing_since": 0.5},
        {"removed": True},
        {"rests_until": 2.0},
        {"seen_at": 0.99},
        {"seen_at": 0.8, "tells": False},
    ],
)
def test_who_is_not_asked(search: Search, fields: dict[str, object]) -> None:
    """One known to be free, held, being opened or asked, removed, resting, or seen just now."""
    (node,) = containers(1)
    for name, value in fields.items():
        setattr(node, name, value)

    assert asked(search, 1.0, 1, [node]) == []


def test_stop_forgets_who_was_asked(search: Search) -> None:
    """Then all may be asked again."""
    nodes = containers(1)
    asked(search, 1.0, 1, nodes)
    search.stop()

    assert asked(search, 2.0, 1, nodes) == nodes
