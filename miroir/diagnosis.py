"""What is said of a fleet: why nothing could be leased, and what its operator should know while threads wait."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from .errors import ConnectionFailed, NoFreeContainer
from .node import Census, Node, census
from .schedule import Schedule

SILENT_S = 3.0  # nothing alive for so long is worth a warning
REPORT_S = 60.0
SHOWN = 3

_log = logging.getLogger("miroir.lease")


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


class Watch:
    """Logs once what is worth it: nothing alive, faults that may be our own, and a line a minute while threads wait."""

    def __init__(self, now: float) -> None:
        self._silent_since = now
        self._warned = False
        self._suspected = False
        self._report_at = now + REPORT_S

    def look(self, schedule: Schedule, now: float) -> None:
        """Look at the fleet as it is at `now`."""
        seen = census(schedule.nodes.values())
        if not schedule.line or seen.alive:
            self._silent_since, self._warned = now, False
        elif now - self._silent_since > SILENT_S and not self._warned:
            self._warned = True
            _log.warning("no container is alive yet%s; waiting for one", _examples([*seen.unhealthy, *seen.refused]))
        if schedule.line and now >= self._report_at:
            self._report_at = now + REPORT_S
            _log.info(
                "%d waiting; of %d containers %d leased, %d unhealthy",
                len(schedule.line),
                seen.total,
                seen.leased,
                len(seen.unhealthy),
            )
        self._suspect(schedule.suspicion(now))

    def _suspect(self, faults: dict[str, int]) -> None:
        if faults and not self._suspected:
            _log.warning(
                "most containers failed within seconds, so the cause may be this process or its network: %s; "
                "check `ulimit -n`, DNS and proxies",
                ", ".join(f"{reason} ({count})" for reason, count in sorted(faults.items())),
            )
        self._suspected = bool(faults)


def _examples(nodes: Sequence[Node]) -> str:
    if not nodes:
        return ""
    shown = "; ".join(f"{node.url}: {node.reason}" for node in nodes[:SHOWN])
    more = f"; and {len(nodes) - SHOWN} more" if len(nodes) > SHOWN else ""
    return f" ({shown}{more})"
