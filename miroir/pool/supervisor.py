"""An engine over anything that can launch one container: it keeps n of them running."""

from __future__ import annotations

import threading
from abc import abstractmethod
from queue import SimpleQueue

from ..errors import ContainerPoolError, InvalidArgument
from .engine import Engine, Event
from .slot import Container, Shared, Slot, Timing

PARALLEL_STARTS = 8


class Supervisor(Engine):
    """A thread for each container; a subclass says how one is launched.

    With `recycle_after`, a container that has begun so many episodes is replaced between two sessions.
    """

    def __init__(self, prefix: str, timing: Timing, recycle_after: int | None = None) -> None:
        if recycle_after is not None and recycle_after < 1:
            raise InvalidArgument(f"recycle_after is {recycle_after}; a container serves at least 1 lease")
        self.events: SimpleQueue[Event] = SimpleQueue()
        self._prefix = prefix
        # Written by `kill` and `cancel` alone, which a signal handler may call: no lock.
        self._hurried = False
        self._cancelled = False
        self._stopping = threading.Event()
        self._slots: list[Slot] = []
        self._threads: list[threading.Thread] = []
        self._shared = Shared(
            self.launch,
            self.events.put,
            lambda: self._hurried,
            threading.Semaphore(PARALLEL_STARTS),
            self._stopping,
            timing,
            recycle_after,
        )

    @abstractmethod
    def launch(self, name: str) -> Container:
        """Begin a container and return at once; OSError or MiroirError when it cannot be."""

    def start(self, n: int) -> None:
        """Begin n containers and return; what becomes of them arrives in `events`.

        ContainerPoolError when the system has no thread for one of them.
        """
        self._slots = [Slot(f"{self._prefix}-{number}", self._shared) for number in range(n)]
        for slot in self._slots:
            thread = threading.Thread(target=slot.run, name=f"miroir-pool-{slot.name}", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                raise ContainerPoolError(
                    f"only {len(self._threads)} of {n} threads could be started; ask for fewer containers,"
                    " or raise the limit of processes (ulimit -u)"
                ) from error
            self._threads.append(thread)

    def cancel(self) -> None:
        """Have a `start` that still prepares give up. Safe in a signal handler."""
        self._cancelled = True

    def ready(self) -> list[str]:
        """The base URLs of the containers that are ready now."""
        return [url for slot in self._slots if (url := slot.url)]

    def logs(self, name: str) -> tuple[str, ...]:
        """The last lines that a container wrote; KeyError for an unknown name."""
        return {slot.name: slot for slot in self._slots}[name].logs()

    def stop(self) -> None:
        """Stop every container, with some grace, and return when none is left."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def kill(self) -> None:
        """Take the grace from a `stop` that runs or comes. Safe in a signal handler."""
        self._hurried = True
