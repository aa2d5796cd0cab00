"""Containers on fixed ports of this machine, leased one at a time; what runs inside is not known here."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Sequence

from ..errors import ContainerPoolError
from .docker.cli import DOCKER, Docker
from .docker.container import exited, read_logs
from .docker.label import label_argv, marked, remove
from .docker.mount import Mount
from .docker.sweep import sweep
from .owner import Owner
from .portpool import PortPool

_log = logging.getLogger("miroir.pool")


class ContainerPool(PortPool):
    """`size` containers of `image` on the ports from `port_base`, the same inside and outside; used once.

    A container is called `name_prefix`-port, is run with `container_args(port)`, and is ready when a GET of
    `readiness_path` is answered with 2xx within `startup_timeout_s`. `start` is all or nothing. A lessee has a
    container alone, and brings it back into the state that the next one expects.
    """

    def __init__(
        self,
        *,
        image: str,
        size: int,
        port_base: int,
        name_prefix: str,
        container_args: Callable[[int], Sequence[str]],
        readiness_path: str,
        mounts: Sequence[Mount] = (),
        startup_timeout_s: float,
        docker: Sequence[str] = DOCKER,
    ) -> None:
        super().__init__(
            size=size, port_base=port_base, readiness_path=readiness_path, startup_timeout_s=startup_timeout_s
        )
        self._image = image
        self._prefix = name_prefix
        self._args = container_args
        self._mounts = [word for mount in mounts for word in ("-v", mount.to_arg())]
        self._docker = Docker(docker)
        self._pool = uuid.uuid4().hex[:12]
        self._ran = False  # whether docker was asked to start any
        self._begun: set[str] = set()  # names of containers that it has started for us

    def logs(self, port: int) -> str:
        """The last 50 lines of a container, or why they cannot be had."""
        return read_logs(self._docker, self._name(port))

    @property
    def _kind(self) -> str:
        return self._image

    def _name(self, port: int) -> str:
        return f"{self._prefix}-{port}"

    def _prepare(self) -> None:
        self._docker.check()
        self._docker.have(self._image, given_up=self._abort.is_set)
        sweep(self._docker)

    def _run(self, port: int) -> None:
        name = self._name(port)
        labels = label_argv(pool=self._pool, owner=Owner.me().dump(), slot=name)
        self._ran = True
        done = self._docker.call(
            "run", "-d", "--name", name, *labels, "-p", f"{port}:{port}", *self._mounts, self._image, *self._args(port)
        )  # fmt: skip
        if done.code:
            what = f"{name} could not be started: `docker run` ended with exit code {done.code}"
            raise ContainerPoolError(self._docker.explained(what, done))
        self._begun.add(name)

    def _ended(self, port: int) -> str | None:
        state = json.loads(self._docker.ask("inspect", self._name(port)))[0]["State"]
        return exited(state)

    def _remove(self, port: int) -> None:
        """Remove one container, and only say so when that fails: its survivor would break the next pool."""
        name = self._name(port)
        try:
            fault = remove(self._docker, [name])
        except ContainerPoolError as error:
            fault = error.message
        if fault:
            _log.error("the container %s could not be removed: %s", name, fault)
        else:
            self._begun.discard(name)

    def _remove_all(self) -> None:
        """Remove what docker has started for us, and what a failed `docker run` has made under our label."""
        if not self._ran:
            return
        names = self._begun | {container.name for container in marked(self._docker, self._pool)}
        fault = remove(self._docker, sorted(names))
        self._begun.clear()
        if fault:
            raise ContainerPoolError(f"containers of the pool could not be removed: {fault}; remove them by name")
