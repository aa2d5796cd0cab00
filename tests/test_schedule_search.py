"""Whom to ask next."""

from __future__ import annotations

import random

import pytest

from miroir.schedule.node import Node
from miroir.schedule.search import MAX_PROBES, MAX_WINDOW, Search


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


def rounds(search: Search, nodes: list[Node], count: int, *, took_s: float = 0.001) -> list[int]:
    """How many are asked in each round, when all answer that they are leased."""
    sizes, now = [], 1.0
    for _ in range(count):
        chosen = asked(search, now, 1, nodes)
        sizes.append(len(chosen))
        now += took_s
        for node in chosen:
            search.answered(node, now)
            search.missed()
    return sizes


def test_window_doubles_and_narrows(search: Search) -> None:
    """Each round that finds nothing doubles how many are asked at once, and a find ends that."""
    nodes = containers(2000)
    search.last(nodes)

    assert rounds(search, nodes, 10) == [2, 4, 8, 16, 32, 64, 128, 256, 256, 256]
    assert MAX_WINDOW == 256

    search.found()

    assert len(asked(search, 9.0, 1, nodes)) == 2


def test_slow_answers_widen_nothing(search: Search) -> None:
    """Servers that take long to answer are not asked ever more at once."""
    nodes = containers(2000)
    search.last(nodes)

    assert max(rounds(search, nodes, 40, took_s=0.8)) <= 32


def test_what_is_slow_as_usual_is_not_given_up(search: Search) -> None:
    """Where answers take 200 ms, probes of 300 ms are still waited for before others take their place."""
    nodes = containers(2000)
    search.last(nodes)
    rounds(search, nodes, 10, took_s=0.2)
    before = len(asked(search, 20.0, 1, nodes))

    assert asked(search, 20.3, 1, nodes) == []
    assert len(asked(search, 21.0, 1, nodes)) >= before


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


def test_what_others_have_just_taken_is_asked_more_rarely() -> None:
    """Whoever takes a container keeps it for a while, so that the others are looked at sooner."""
    search = Search(random.Random(1), 100.0, in_use_s=30.0)
    nodes = containers(10)
    for node in nodes[:9]:
        node.taken_at = 0.0
    times: dict[str, int] = {}
    for tick in range(1000):
        now = 1.0 + tick / 100
        for node in asked(search, now, 1, nodes):
            times[node.url] = times.get(node.url, 0) + 1
            search.answered(node, now)
            node.seen_at = now

    assert times[nodes[9].url] > 3 * max(times[node.url] for node in nodes[:9])
    assert len(times) == 10


def test_the_pace_is_the_same_for_each_container_in_every_process(search: Search) -> None:
    """A process that holds three quarters of the fleet asks a quarter as often."""
    nodes = containers(16)
    for node in nodes[:12]:
        node.held = 1
    count = 0
    for tick in range(1000):
        now = 1.0 + tick / 100
        for node in asked(search, now, 1, nodes):
            count += 1
            search.answered(node, now)
            node.seen_at = now

    assert 190 <= count <= 260
