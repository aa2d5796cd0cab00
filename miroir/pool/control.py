"""Pools as another process sees them, by their ids: stop one, scale one, take one over."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import ContainerPoolError, InvalidArgument
from .docker.cli import DOCKER, Docker
from .docker.engine import DockerEngine
from .docker.label import OWNER, SIZE, SLOT, SPEC, STOP, Marked, marked, remove
from .docker.spec import ContainerSpec
from .owner import Owner, described
from .slot import Timing
from .swarm.engine import SwarmEngine
from .swarm.service import Service, remove_services, services

STOP_S = 60.0
_POLL_S = 0.2


@dataclass(frozen=True)
class _Pool:
    """A pool as Docker has it: containers of the engine `docker`, or a service of the engine `swarm`."""

    id: str
    containers: Sequence[Marked]
    service: Service | None

    @property
    def labels(self) -> Mapping[str, str]:
        return self.service.labels if self.service else self.containers[0].labels

    @property
    def owners(self) -> list[Owner | None]:
        return [self.service.owner] if self.service else [container.owner for container in self.containers]

    def living(self) -> Owner | None:
        """An owner that runs on this machine."""
        return next((owner for owner in self.owners if owner and owner.is_here() and not owner.is_dead()), None)

    def refuse_if_owned(self, *, force: bool) -> None:
        """ContainerPoolError unless every owner is dead, or `force` says so of those who cannot be looked at."""
        living = self.living()
        if living:
            raise ContainerPoolError(f"the pool {self.id} belongs to the running process {living.pid}; stop that first")
        unknown = [owner for owner in self.owners if owner is None or not owner.is_dead()]
        if unknown and not force:
            raise ContainerPoolError(
                f"the pool {self.id} belongs to {described(unknown[0])}, which may still run;"
                " stop it there, or add --force if it is gone"
            )


def stop_pool(pool_id: str, *, docker: Sequence[str] = DOCKER, force: bool = False) -> None:
    """End a pool: its process, when that runs here for the pool alone, or what a dead one has left.

    ContainerPoolError when the pool is another's, or something of it remains.
    """
    command = Docker(docker)
    pool = _find(command, pool_id)
    living = pool.living()
    if living and pool.labels.get(STOP):
        with contextlib.suppress(ProcessLookupError):
            os.kill(living.pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_S
        while _look(command, pool_id):
            if time.monotonic() > deadline:
                raise ContainerPoolError(
                    f"the pool {pool_id} still runs {STOP_S:g} s after it was told to stop;"
                    f" kill process {living.pid}, and then stop the pool again"
                )
            time.sleep(_POLL_S)
        return
    pool.refuse_if_owned(force=force)
    if pool.service:
        fault = remove_services(command, [pool.service.name])
    else:
        fault = remove(command, [container.name for container in pool.containers])
    if fault:
        raise ContainerPoolError(f"the pool {pool_id} could not be removed whole: {fault}; try again")


def scale_pool(pool_id: str, n: int, *, docker: Sequence[str] = DOCKER) -> None:
    """Have a pool of the engine `swarm` run n containers; its URL file follows."""
    if n < 1:
        raise InvalidArgument(f"a pool of {n} has no container; scale it to at least 1, or stop it")
    command = Docker(docker)
    pool = _find(command, pool_id)
    if pool.service is None:
        raise ContainerPoolError(
            f"the pool {pool_id} is not of the engine swarm, which alone scales; start another one"
        )
    command.ask("service", "scale", "--detach", f"{pool.service.name}={n}")


def adopt(
    pool_id: str,
    *,
    docker: Sequence[str] = DOCKER,
    force: bool = False,
    recycle_after: int | None = None,
    timing: Timing | None = None,
    alone: bool = False,
) -> tuple[DockerEngine | SwarmEngine, int]:
    """Become the owner of a pool whose process is gone: an engine over what runs, and how many it shall be.

    Running sessions are not disturbed. ContainerPoolError when it is another's, or someone else was faster.
    """
    command = Docker(docker)
    pool = _find(command, pool_id)
    if not pool.labels.get(SPEC):
        raise ContainerPoolError(f"the pool {pool_id} was not started by `miroir pool`; stop it with its own program")
    spec = ContainerSpec.load(pool.labels[SPEC])
    spec.check()
    pool.refuse_if_owned(force=force)
    if pool.service:
        if recycle_after is not None:
            raise InvalidArgument("Swarm replaces its tasks itself; leave --recycle-after out")
        _take_over_service(command, pool.service, alone=alone)
        return SwarmEngine(spec, docker=docker, timing=timing, adopted=pool_id), pool.service.replicas
    _take_over(command, pool)
    adopted = {container.labels[SLOT]: container.id for container in pool.containers}
    engine = DockerEngine(
        spec, docker=docker, recycle_after=recycle_after, timing=timing, alone=alone, pool_id=pool_id, adopted=adopted
    )
    return engine, int(pool.labels[SIZE])


def _take_over(docker: Docker, pool: _Pool) -> None:
    """Name each container for its new owner; of two who try at once, the second finds the old name gone."""
    me = Owner.me()
    for container in sorted(pool.containers, key=lambda container: container.name):
        done = docker.call("rename", container.name, container.adopted_name(me))
        if done.code:
            raise ContainerPoolError(f"the pool {pool.id} could not be adopted: {done.fault}; see who else has it")


def _take_over_service(docker: Docker, service: Service, *, alone: bool) -> None:
    me = Owner.me()
    labels = (f"{OWNER}={me.dump()}", f"{STOP}={'SIGTERM' if alone else ''}")
    docker.ask(
        "service", "update", "--detach", *(word for label in labels for word in ("--label-add", label)), service.name
    )
    if [found.owner for found in services(docker, service.pool)] != [me]:
        raise ContainerPoolError(f"the pool {service.pool} could not be adopted; see who else has it")


def _find(docker: Docker, pool_id: str) -> _Pool:
    docker.check()
    pool = _look(docker, pool_id)
    if pool is None:
        known = {container.pool for container in marked(docker)} | {service.pool for service in services(docker)}
        there = f"there are {', '.join(sorted(known))}" if known else "there is none; has it been stopped?"
        raise ContainerPoolError(f"no pool {pool_id} is on this Docker; {there}")
    return pool


def _look(docker: Docker, pool_id: str) -> _Pool | None:
    containers = marked(docker, pool_id)
    found = [] if containers else services(docker, pool_id)
    return _Pool(pool_id, containers, next(iter(found), None)) if containers or found else None
