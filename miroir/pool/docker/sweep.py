"""Removing what pools have left behind whose process is provably gone; never anything else."""

from __future__ import annotations

import logging
from collections import defaultdict

from .cli import Docker
from .label import Marked, marked, remove

_log = logging.getLogger("miroir.pool")


def sweep(docker: Docker) -> list[str]:
    """Remove the containers of every pool whose owner is provably dead; their names."""
    pools: defaultdict[str, list[Marked]] = defaultdict(list)
    for container in marked(docker):
        pools[container.pool].append(container)
    swept = []
    for pool, containers in pools.items():
        if not all(container.owner and container.owner.is_dead() for container in containers):
            continue
        names = [container.name for container in containers]
        fault = remove(docker, names)
        if fault:
            _log.error("leftovers of the pool %s could not be removed: %s", pool, fault)
        else:
            _log.warning("removed %d containers of the pool %s, whose process is gone", len(names), pool)
            swept += names
    return swept
