"""A container as one process knows it, and the census of a fleet. Pure values; times are on the caller's clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

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
    slots: int | None = None
    held: int = 0
    spare: int = 0  # sessions that could be opened, as last seen
    tells: bool = True  # its health says whether it is leased
    probing_since: float | None = None
    openings: list[float] = field(default_factory=list)
    seen_at: float = NEVER
    fault: Fault | None = None
    reason: str = ""
    status: int | None = None
    failures: int = 0
    retry_at: float = NEVER
    rests_until: float = NEVER
    closed_at: float = NEVER  # when a session of ours on it was closed last
    chain_since: float = 0.0
    chain_length: int = 0
    removed: bool = False

    @property
    def full(self) -> bool:
        """Whether this process holds every session it has."""
        return self.held > 0 and self.held >= (self.slots or 1)

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
