"""A task of a Swarm service, as `docker service ps` shows it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

_BOUND = re.compile(r":(\d+)->(\d+)/tcp")
_ENDED = frozenset({"complete", "shutdown", "failed", "rejected", "orphaned", "remove"})


@dataclass(frozen=True)
class Task:
    """One task: `slot` stays when Swarm replaces the task, `ports` are its node's, IPv4's first, once known."""

    id: str
    slot: str
    node: str
    wanted: bool  # Swarm means it to run
    state: str
    error: str
    ports: tuple[int, ...]

    @property
    def runs(self) -> bool:
        """Whether it can be reached and is meant to be."""
        return self.wanted and self.state == "running" and bool(self.ports)

    def url(self, address: str) -> str:
        """Its base URL at this address of its node. Docker may have had to give the two IP versions different ports."""
        return f"http://[{address}]:{self.ports[-1]}" if ":" in address else f"http://{address}:{self.ports[0]}"

    @property
    def ended(self) -> bool:
        """Whether it will never run again."""
        return self.state in _ENDED

    @property
    def story(self) -> str:
        """How it stands, in words."""
        return f"{self.state}: {self.error}" if self.error else self.state


def parse(listing: str, port: int) -> list[Task]:
    """The tasks of `docker service ps --no-resolve --no-trunc --format '{{json .}}'`, newest first for each slot."""
    return [_task(json.loads(line), port) for line in listing.splitlines() if line.strip()]


def _task(row: dict[str, str], port: int) -> Task:
    return Task(
        row["ID"],
        row["Name"].rpartition(".")[2],
        row["Node"],
        row["DesiredState"].lower() in {"running", "ready"},
        row["CurrentState"].partition(" ")[0].lower(),
        row["Error"].strip('"'),
        tuple(int(outer) for outer, inner in _BOUND.findall(row["Ports"]) if int(inner) == port),
    )
