"""How long a process keeps a container to itself."""

from __future__ import annotations

import random

import pytest

from miroir.schedule.chains import REST_S, UNKNOWN, Chains, others_wait
from miroir.schedule.node import Node


def test_over_after_both_limits() -> None:
    """So many hand-overs and so many seconds, the seconds lengthened by up to two fifths."""
    ends = set()
    for seed in range(20):
        chains, node = Chains(random.Random(seed), 3, 10.0), Node("http://h:1")
        chains.begin(node, 100.0)
        node.chain_length = 2

        assert not chains.over(node, 1000.0)

        node.chain_length = 3

        assert not chains.over(node, 109.9)
        assert chains.over(node, 114.1)

        ends.add(node.chain_until)

    assert len(ends) == 20


def test_a_new_chain_counts_from_nothing() -> None:
    """Hand-overs and seconds begin anew."""
    chains, node = Chains(random.Random(0), 1, 1.0), Node("http://h:1")
    chains.begin(node, 0.0)
    node.chain_length = 5
    chains.begin(node, 50.0)

    assert (node.chain_length, node.chain_until > 51) == (0, True)


def test_let_go_is_for_a_jittered_moment() -> None:
    """Long enough for others to find it, and not the same for all."""
    chains, node = Chains(random.Random(0), 1, 1.0), Node("http://h:1")
    moments = set()
    for _ in range(20):
        chains.let_go(node, 10.0)
        moments.add(node.rests_until - 10.0)

    assert len(moments) == 20
    assert REST_S[0] <= min(moments) <= max(moments) <= REST_S[1]


@pytest.mark.parametrize(
    ("wanted_s", "round_s", "waiting"),
    [
        (None, 0.1, False),
        (0.0, 0.1, True),
        (4.9, 0.1, True),
        (5.1, 0.1, False),
        (19.0, 10.0, True),
        (21.0, 10.0, False),
        (UNKNOWN, 0.1, True),
    ],
)
def test_others_wait(wanted_s: float | None, round_s: float, waiting: bool) -> None:
    """When they were seen within five seconds or two rounds, or when the container cannot say."""
    assert others_wait(wanted_s, round_s) is waiting
