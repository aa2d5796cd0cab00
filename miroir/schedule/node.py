"""A container as one process knows it, and the census of a fleet. Pure values; times are on the caller's clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from ..urls import key

NEVER = float("-inf")


class Fault(Enum):
    """What is wrong with a container: its health, its handshake, or our right to use it."""

    DOWN = "down"
    SICK = "sick"
    REFUSED = "refused"


@dataclass(eq=False)
class Node:
    """A container as this process knows it; times are on the caller's clock."""

    url: str
    slots: int | None = None  # how many sessions it serves, where it has said so
    held: int = 0  # sessions of ours that are open
    spare: int = 0  # sessions that could be opened, as last seen
    tells: bool = True  # its health says whether it is leased
    probing_since: float | None = None
    openings: list[float] = field(default_factory=list)  # since when handshakes of ours are under way
    seen_at: float = NEVER
    fault: Fault | None = None
    reason: str = ""
    status: int | None = None
    failures: int = 0
    unfit: int = 0  # how many sessions of ours in a row came back with a fault of it
    retry_at: float = NEVER  # a fault is not looked at again before
    rests_until: float = NEVER  # it is left to others, or to come to itself, until then
    closed_at: float = NEVER  # when a session of ours on it was closed last
    taken_at: float | None = None  # since when others have been seen to have it
    chain_until: float = NEVER  # until then its open connection may be handed on without a question
    chain_length: int = 0
    removed: bool = False

    def __post_init__(self) -> None:
        self.name = key(self.url)

    @property
    def full(self) -> bool:
        """Whether this process holds every session it has."""
        return self.held > 0 and self.held >= (self.slots or 1)

    @property
    def capacity(self) -> int:
        """How many sessions it can be thought to serve."""
        return max(self.slots or 1, self.held)

    @property
    def askable(self) -> bool:
        """Whether asking it for its health can tell anything new."""
        return self.probing_since is None and not self.openings and not self.full and not self.removed

    def set_aside(self, now: float) -> bool:
        """Whether what it did says to leave it alone; asking one that is only down costs nobody but us."""
        return self.fault in (Fault.SICK, Fault.REFUSED) and self.retry_at > now

    @property
    def state(self) -> str:
        """One word for statistics and messages."""
        if self.held:
            return "held"
        if self.fault:
            return self.fault.value
        if self.seen_at == NEVER:
            return "unknown"
        return "free" if self.spare else "leased"


@dataclass(frozen=True)
class Census:
    """The fleet's containers by state, with the unhealthy and refused ones."""

    total: int
    leased: int
    unhealthy: list[Node]
    refused: list[Node]
    alive: bool


def census(nodes: Iterable[Node]) -> Census:
    """Count the containers by what is known of them."""
    here = [node for node in nodes if not node.removed or node.held]
    refused = [node for node in here if node.fault is Fault.REFUSED and not node.held]
    unhealthy = [node for node in here if node.fault in (Fault.DOWN, Fault.SICK) and not node.held]
    well = [node for node in here if node.held or (node.fault is None and node.seen_at > NEVER)]
    leased = sum(1 for node in well if node.held or not node.spare)
    return Census(len(here), leased, unhealthy, refused, bool(well))
