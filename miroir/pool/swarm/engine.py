"""The engine `swarm`: a service whose tasks are containers, each at its node's address and a port that Docker gave."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from ...errors import ContainerPoolError
from ..docker.cli import DOCKER, Docker
from ..docker.label import label_argv
from ..docker.spec import ContainerSpec
from ..engine import Change, Engine, Event
from ..logfile import TAIL_LINES, last_lines
from ..owner import Owner
from ..slot import Timing
from ..status import PARALLEL, read_status
from .roster import Roster, Told
from .service import node_address, remove_services, require_manager, services
from .task import Task, parse

FOLLOW_S = 0.5
_LOGS_S = 5.0  # the node of a task may be dead, and its log out of reach
_CALL_S = 10.0
_END_S = 20.0  # Docker's own grace of 10 s, and what it needs around it
_log = logging.getLogger("miroir.pool")


class SwarmEngine(Engine):
    """`options` are those of `docker service create` (constraints, secrets, registry login); `docker` is an argv.

    Swarm replaces tasks that end, and anyone may scale the service: the list follows. `alone` says that this process
    is there for the pool alone, and may be ended to stop it; `adopted` is the id of a pool that is taken over.
    """

    def __init__(
        self,
        spec: ContainerSpec,
        *,
        options: Sequence[str] = (),
        docker: Sequence[str] = DOCKER,
        timing: Timing | None = None,
        alone: bool = False,
        adopted: str | None = None,
    ) -> None:
        self.pool_id = adopted or uuid.uuid4().hex[:12]
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._name = f"miroir-{self.pool_id}"
        self._spec = replace(spec, options=(*options, *spec.options))
        self._docker = Docker(docker)
        self._timing = timing or Timing()
        self._lock = threading.Lock()  # guards the roster
        self._roster = Roster(self._name, self._timing)
        self._addresses: dict[str, str] = {}  # by node
        self._untold: queue.SimpleQueue[Told | None] = queue.SimpleQueue()
        self._alone = alone
        self._adopted = adopted is not None
        self._created = self._adopted
        self._stopping = threading.Event()
        self._hurried = False  # written by `kill` alone, which a signal handler may call: no lock
        self._threads: list[threading.Thread] = []
        self._n = 0

    def start(self, n: int) -> None:
        """Create a service of n replicas, or follow the adopted one; ContainerPoolError when Swarm refuses."""
        self._n = n
        if not self._adopted:
            self._create(n)
        for work in (self._follow, self._probe, self._tell):
            thread = threading.Thread(target=work, name=f"miroir-pool{work.__name__}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def cancel(self) -> None:
        """Nothing that takes long is prepared here."""

    def ready(self) -> list[str]:
        """The base URLs of the tasks that Swarm wants and that are well."""
        with self._lock:
            return self._roster.ready()

    def logs(self, name: str) -> tuple[str, ...]:
        """The last lines of the task behind an event's name; empty when its node is out of reach."""
        with self._lock:
            task = self._roster.task(name)
        return self._read_logs(task) if task else ()

    def stop(self) -> None:
        """Remove the service and return when its tasks have ended; ContainerPoolError when it cannot be removed."""
        self._stopping.set()
        self._untold.put(None)
        for thread in self._threads:
            thread.join()
        if not self._created:
            return
        self._docker.call("service", "scale", "--detach", f"{self._name}=0")
        self._await_end()
        fault = remove_services(self._docker, [self._name])
        if fault:
            raise ContainerPoolError(
                f"the service {self._name} could not be removed: {fault};"
                f" `miroir pool --stop {self.pool_id}` tries again"
            )

    def kill(self) -> None:
        """Take the grace from a `stop` that runs or comes. Safe in a signal handler."""
        self._hurried = True

    def _create(self, n: int) -> None:
        self._spec.check()
        self._docker.check()
        require_manager(self._docker)
        _sweep_services(self._docker)
        labels = label_argv(
            pool=self.pool_id,
            owner=Owner.me().dump(),
            spec=self._spec.dump(),
            stop="SIGTERM" if self._alone else "",
        )
        self._created = True
        done = self._docker.call(
            "service", "create", "--detach", "--name", self._name, "--replicas", str(n), *labels,
            *self._spec.service_argv(),
        )  # fmt: skip
        if done.code:
            raise ContainerPoolError(self._docker.explained("the service could not be created", done))

    def _follow(self) -> None:
        """Take what Swarm says of the tasks, until the pool stops."""
        while not self._stopping.wait(FOLLOW_S):
            try:
                tasks = self._tasks()
                if tasks is None:
                    self._give_up()
                    return
                for node in {task.node for task in tasks if task.runs} - self._addresses.keys():
                    if address := node_address(self._docker, node):
                        self._addresses[node] = address
            except ContainerPoolError as error:
                _log.debug("Swarm cannot be asked: %s", error.message)
                continue  # the manager is away; tasks that answer are still well
            with self._lock:
                told = self._roster.see(tasks, self._addresses, time.monotonic())
            self._pass_on(told)

    def _probe(self) -> None:
        """Ask the servers how they are, more often while they are not ready, until the pool stops."""
        asked: dict[str, tuple[float, Future[None]]] = {}
        with ThreadPoolExecutor(PARALLEL, thread_name_prefix="miroir-pool-probe") as workers:
            while not self._stopping.wait(self._timing.ready_every_s):
                now = time.monotonic()
                with self._lock:
                    probed = self._roster.probed()
                asked = {task: last for task, last in asked.items() if task in probed}
                for task, (url, ready) in probed.items():
                    at, last = asked.get(task, (0.0, None))
                    pause_s = self._timing.health_every_s if ready else FOLLOW_S
                    if last is None or (last.done() and now >= at + pause_s):
                        asked[task] = now, workers.submit(self._probe_one, task, url)

    def _probe_one(self, task: str, url: str) -> None:
        status = read_status(url, timeout_s=self._timing.health_s)
        with self._lock:
            told = self._roster.hear(task, status)
        self._pass_on(told)

    def _pass_on(self, told: Sequence[Told]) -> None:
        for one in told:
            self._untold.put(one)

    def _tell(self) -> None:
        """Tell the pool of each change, with the log where a task failed; in a thread, for logs take long."""
        while (told := self._untold.get()) is not None:
            log = self._read_logs(told.task) if told.event.change is Change.FAILED else ()
            self.events.put(replace(told.event, log=log))

    def _read_logs(self, task: str) -> tuple[str, ...]:
        with contextlib.suppress(ContainerPoolError):
            done = self._docker.call("service", "logs", "--raw", "--tail", str(TAIL_LINES), task, timeout_s=_LOGS_S)
            return last_lines(done.out + done.err) if done.code == 0 else ()
        return ()

    def _give_up(self) -> None:
        with self._lock:
            self._roster = Roster(self._name, self._timing)
        for slot in range(1, self._n + 1):
            self.events.put(Event(f"{self._name}.{slot}", Change.GIVEN_UP, "its service was removed"))

    def _tasks(self) -> list[Task] | None:
        """The service's tasks; None when there is no such service any more."""
        done = self._docker.call(
            "service", "ps", "--no-resolve", "--no-trunc", "--format", "{{json .}}", self._name, timeout_s=_CALL_S
        )
        if done.code and "no such service" in done.err.lower():
            return None
        if done.code:
            raise ContainerPoolError(done.fault)
        return parse(done.out, self._spec.port)

    def _await_end(self) -> None:
        deadline = time.monotonic() + _END_S
        while time.monotonic() < deadline and not self._hurried:
            with contextlib.suppress(ContainerPoolError):
                if all(task.ended for task in self._tasks() or ()):
                    return
            time.sleep(self._timing.ended_every_s)


def _sweep_services(docker: Docker) -> list[str]:
    """Remove the services whose owner is provably dead; their names."""
    dead = [service.name for service in services(docker) if service.owner and service.owner.is_dead()]
    if dead:
        fault = remove_services(docker, dead)
        _log.warning("removed services of pools whose process is gone: %s%s", ", ".join(dead), fault and f" ({fault})")
    return dead
