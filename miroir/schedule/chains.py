"""Chains of hand-overs: how long a process keeps a container to itself while other processes may want it. Pure."""

from __future__ import annotations

import random

from .node import Node

CHAIN_HANDOVERS = 8
CHAIN_S = 30.0
CHAIN_JITTER = (1.0, 1.4)  # so that processes do not let go of all they have at the same moment
WANTED_S = 5.0
REST_S = (0.15, 0.3)  # how long a container that was let go is left to others
UNKNOWN = float("inf")  # what a container that does not say whether others wait has said


class Chains:
    """Counts a container's hand-overs in this process; after `handovers` of them and `seconds`, its chain is over."""

    def __init__(self, dice: random.Random, handovers: int, seconds: float) -> None:
        self._dice = dice
        self._handovers = handovers
        self._seconds = seconds

    def begin(self, node: Node, now: float) -> None:
        """Its connection was opened, or it turned out that nobody else wants it."""
        node.chain_length, node.chain_until = 0, now + self._seconds * self._dice.uniform(*CHAIN_JITTER)

    def over(self, node: Node, now: float) -> bool:
        """Whether it is time to ask whether others wait."""
        return node.chain_length >= self._handovers and now >= node.chain_until

    def let_go(self, node: Node, now: float) -> None:
        """Leave it to others for a moment."""
        node.rests_until = now + self._dice.uniform(*REST_S)


def others_wait(wanted_s: float | None, round_s: float) -> bool:
    """Whether others were seen so recently that they must still be waiting: within 5 s, or two rounds of asking.

    `wanted_s` is the container's word, and UNKNOWN means that they may; `round_s` is how long a look at all takes.
    """
    return wanted_s is not None and (wanted_s == UNKNOWN or wanted_s <= max(WANTED_S, 2 * round_s))
