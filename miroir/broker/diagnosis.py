"""What is said of a fleet: why nothing could be leased, and what its operator should know while threads wait."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ..errors import ConnectionFailed, NoFreeContainer
from ..schedule import Schedule
from ..schedule.node import Census, Node, census

SILENT_S = 3.0  # nothing alive for so long is worth a warning
REPORT_S = 60.0
SHOWN = 3


def all_refused(seen: Census) -> ConnectionFailed | None:
    """The error of a fleet of which every container refuses this client, else None."""
    if not seen.refused or len(seen.refused) < seen.total:
        return None
    node = seen.refused[0]
    return ConnectionFailed(
        f"all {seen.total} containers refuse this client, such as {node.url}: {node.reason}; "
        "check the URLs and the token",
        url=node.url,
        status=node.status,
    )


def none_free(seen: Census, waited_s: float, *, timed_out: bool = False) -> NoFreeContainer:
    """The error of a lease that found nothing: counts by state, up to three reasons, and what to do."""
    when = f"came free within {waited_s:.1f} s" if timed_out else "is free"
    refused = f", {len(seen.refused)} refused" if seen.refused else ""
    advice = (
        "start more containers, or run fewer episodes at once"
        if seen.alive
        else "start the containers (`miroir pool`), or correct their URLs"
    )
    return NoFreeContainer(
        f"no container of {seen.total} {when}: {seen.leased} leased, {len(seen.unhealthy)} unhealthy{refused}"
        f"{_examples([*seen.unhealthy, *seen.refused])}; {advice}",
        leased=seen.leased,
        unhealthy=len(seen.unhealthy),
        refused=len(seen.refused),
    )


Remark = tuple[int, str]  # a logging level and what is said


class Watch:
    """Says once what is worth it: nothing alive, faults that may be our own, and a line a minute while threads wait."""

    def __init__(self, now: float) -> None:
        self._silent_since = now
        self._warned = False
        self._suspected = False
        self._report_at = now + REPORT_S

    def look(self, schedule: Schedule, now: float) -> list[Remark]:
        """Look at the fleet as it is at `now`; what is to be logged."""
        seen = census(schedule.nodes.values())
        remarks = [*self._silence(schedule, seen, now), *self._suspicion(schedule.suspicion(now))]
        if schedule.line and now >= self._report_at:
            self._report_at = now + REPORT_S
            longest_s = now - next(iter(schedule.line)).joined_at
            remarks.append(
                (
                    logging.INFO,
                    f"{len(schedule.line)} waiting, the first for {longest_s:.0f} s; of {seen.total} containers "
                    f"{seen.leased} leased ({schedule.held} by this process), {len(seen.unhealthy)} unhealthy, "
                    f"{len(seen.refused)} refused",
                )
            )
        return remarks

    def _silence(self, schedule: Schedule, seen: Census, now: float) -> list[Remark]:
        if not schedule.line or seen.alive:
            self._silent_since, self._warned = now, False
        if self._warned or now - self._silent_since <= SILENT_S:
            return []
        self._warned = True
        why = _examples([*seen.unhealthy, *seen.refused])
        return [(logging.WARNING, f"no container of {seen.total} is alive{why}; waiting for one")]

    def _suspicion(self, faults: dict[str, int]) -> list[Remark]:
        new, self._suspected = bool(faults) and not self._suspected, bool(faults)
        if not new:
            return []
        counted = ", ".join(f"{fault} ({count})" for fault, count in sorted(faults.items()))
        return [
            (
                logging.WARNING,
                f"most containers failed within seconds, so the cause may be this process or its network: {counted}; "
                "check `ulimit -n`, DNS and proxies",
            )
        ]


def _examples(nodes: Sequence[Node]) -> str:
    if not nodes:
        return ""
    shown = "; ".join(f"{node.url}: {node.reason}" for node in nodes[:SHOWN])
    more = f"; and {len(nodes) - SHOWN} more" if len(nodes) > SHOWN else ""
    return f" ({shown}{more})"
