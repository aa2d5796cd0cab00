"""Swarm services that pools own, by the docker command."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import ContainerPoolError
from ..docker.cli import Docker
from ..docker.label import OWNER, POOL
from ..owner import Owner

_NO_MANAGER = "this docker is not a manager of a Swarm; run `docker swarm init`, or set DOCKER_HOST to a manager"


@dataclass(frozen=True)
class Service:
    """A service with a pool's label, as it was seen."""

    name: str
    pool: str
    labels: dict[str, str]
    replicas: int

    @property
    def owner(self) -> Owner | None:
        """The process that owns it; None when that cannot be read, and so cannot be proven dead."""
        return Owner.parse(self.labels.get(OWNER, ""))


def _is_manager(docker: Docker) -> bool:
    """Whether the daemon manages a Swarm."""
    return docker.ask("info", "--format", "{{.Swarm.ControlAvailable}}").strip() == "true"


def require_manager(docker: Docker) -> None:
    """ContainerPoolError unless the daemon manages a Swarm."""
    if not _is_manager(docker):
        raise ContainerPoolError(_NO_MANAGER)


def services(docker: Docker, pool: str | None = None) -> list[Service]:
    """The services of one pool, or of every pool; none where the daemon manages no Swarm."""
    if not _is_manager(docker):
        return []
    wanted = POOL if pool is None else f"{POOL}={pool}"
    names = docker.ask("service", "ls", "--filter", f"label={wanted}", "--format", "{{.Name}}").split()
    if not names:
        return []
    done = docker.call("service", "inspect", *names)  # one that went meanwhile is left out, and the code is 1
    return [_service(found["Spec"]) for found in json.loads(done.out or "[]")]


def remove_services(docker: Docker, names: Sequence[str]) -> str:
    """Remove services; what could not be done, "" when all was."""
    done = docker.call("service", "rm", *names)
    gone = "no such service" in done.err.lower() or "not found" in done.err
    return done.fault if done.code and not gone else ""


def node_address(docker: Docker, node: str) -> str | None:
    """The address at which a node is reached; None while it is unknown."""
    done = docker.call("node", "inspect", node)
    if done.code:
        return None
    found = json.loads(done.out)[0]
    address = str(found["Status"].get("Addr", ""))
    if address in {"", "0.0.0.0"}:  # how some managers see themselves
        address = str((found.get("ManagerStatus") or {}).get("Addr", "")).rpartition(":")[0].strip("[]")
    return address or None


def _service(spec: dict[str, object]) -> Service:
    labels, mode = spec["Labels"], spec["Mode"]
    assert isinstance(labels, dict)
    assert isinstance(mode, dict)
    return Service(str(spec["Name"]), labels[POOL], labels, mode.get("Replicated", {}).get("Replicas", 0))
