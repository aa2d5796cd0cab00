"""The engine `docker`: containers of one image on one Docker daemon."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from ...errors import ContainerPoolError
from ..owner import Owner
from ..slot import Container, Timing
from ..supervisor import Supervisor
from .cli import DOCKER, Docker
from .container import DockerContainer
from .events import Watch
from .label import SLOT, label_argv, marked, remove
from .spec import ContainerSpec
from .sweep import sweep


class DockerEngine(Supervisor):
    """Containers that Docker gives a port each; `docker` is the command, as an argv.

    `alone` says that this process is there for the pool alone, and may be ended to stop it. `pool_id` and `adopted`
    (container ids by slot) are those of a pool that is taken over.
    """

    def __init__(
        self,
        spec: ContainerSpec,
        *,
        docker: Sequence[str] = DOCKER,
        recycle_after: int | None = None,
        timing: Timing | None = None,
        alone: bool = False,
        pool_id: str | None = None,
        adopted: dict[str, str] | None = None,
    ) -> None:
        self.pool_id = pool_id or uuid.uuid4().hex[:12]
        super().__init__(f"miroir-{self.pool_id}", timing or Timing(), recycle_after)
        self._spec = spec
        self._docker = Docker(docker)
        self._watch = Watch(self._docker, self.pool_id)
        self._adopted = dict(adopted or {})
        self._alone = alone
        self._labels: tuple[str, ...] = ()
        self._touched = bool(adopted)  # there may be containers of ours

    def start(self, n: int) -> None:
        """Sweep what dead pools have left and begin n containers; ContainerPoolError when Docker cannot."""
        self._spec.check()
        self._docker.check()
        self._docker.have(self._spec.image, given_up=lambda: self._cancelled)
        sweep(self._docker)
        self._labels = tuple(
            label_argv(
                pool=self.pool_id,
                owner=Owner.me().dump(),
                size=str(n),
                spec=self._spec.dump(),
                stop="SIGTERM" if self._alone else "",
            )
        )
        self._touched = True
        self._watch.start()
        super().start(n)

    def launch(self, name: str) -> Container:
        """Begin a container, or take over the adopted one; ContainerPoolError when `docker run` fails."""
        container = self._adopted.pop(name, None) or self._run(name)
        return DockerContainer(self._docker, self._watch, container, self._spec.port)

    def stop(self) -> None:
        """Stop and remove every container; ContainerPoolError when some cannot be removed."""
        super().stop()
        self._watch.stop()
        if not self._touched:
            return
        fault = remove(self._docker, [container.name for container in marked(self._docker, self.pool_id)])
        if fault:
            raise ContainerPoolError(
                f"containers of the pool {self.pool_id} are left: {fault};"
                f" `miroir pool --stop {self.pool_id}` removes them"
            )

    def _run(self, name: str) -> str:
        earlier = [container.name for container in marked(self._docker, self.pool_id) if container.labels[SLOT] == name]
        remove(self._docker, earlier)  # what an earlier try has left, which still has the name
        done = self._docker.call(
            "run", "--detach", "--name", name, *self._labels, *label_argv(slot=name), *self._spec.run_argv(),
            given_up=lambda: self._hurried,
        )  # fmt: skip
        if done.code:
            raise ContainerPoolError(self._docker.explained(f"`docker run` ended with exit code {done.code}", done))
        return done.out.split()[-1]
