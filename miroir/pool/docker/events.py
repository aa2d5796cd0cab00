"""Which containers of a pool have ended, as the daemon tells it."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import threading
import time
from typing import Any

from ...errors import ContainerPoolError
from .cli import Docker
from .label import POOL

_STREAM_S = 60  # a stream ends by itself, so that none outlives a killed pool for long
_AGAIN_S = 1.0
_EXITED = re.compile(r"Exited \((\d+)\)")


def ending(code: int) -> str:
    """An exit code in words; above 128 it is a signal's."""
    try:
        return f"ended with exit code {code} ({signal.Signals(code - 128).name})"
    except ValueError:
        return f"ended with exit code {code}"


class Watch:
    """Follows `docker events` of a pool's containers in a thread of its own."""

    def __init__(self, docker: Docker, pool: str) -> None:
        self._docker = docker
        self._label = f"label={POOL}={pool}"
        self._stopping = threading.Event()
        self._lock = threading.Lock()  # guards the fields below
        self._ended: dict[str, str | None] = {}  # how each known container ended; None while it runs
        self._starved: set[str] = set()  # those that have run out of memory
        self._stream: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._follow, name="miroir-pool-events", daemon=True)

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; may be called without `start`, and again."""
        self._stopping.set()
        with self._lock:
            if self._stream:
                self._stream.kill()
        if self._thread.is_alive():
            self._thread.join()

    def ended(self, container: str) -> str | None:
        """How a container ended, in words; None while it runs, as far as is known."""
        with self._lock:
            return self._ended.setdefault(container, None)

    def _follow(self) -> None:
        since = time.time()
        while not self._stopping.is_set():
            began = time.time()
            with contextlib.suppress(ContainerPoolError):  # the daemon is away; who still answers is still well
                self._read_stream(since, began + _STREAM_S)
            since = began
            if time.time() < began + _STREAM_S:
                self._stopping.wait(_AGAIN_S)

    def _read_stream(self, since: float, until: float) -> None:
        window = ("--since", str(int(since)), "--until", str(int(until)))
        process = self._docker.popen(
            "events", *window, "--filter", "type=container", "--filter", self._label, "--format", "{{json .}}"
        )
        with process:
            with self._lock:
                self._stream = process
            try:
                if not self._stopping.is_set():  # a `stop` that comes later finds the stream to end
                    self._compare()
                    assert process.stdout is not None
                    for line in process.stdout:
                        self._take(line)
            finally:
                process.kill()
                with self._lock:
                    self._stream = None

    def _compare(self) -> None:
        """Look at every container, for what was missed while nobody followed."""
        with self._lock:
            known = list(self._ended)
        listing = self._docker.ask(
            "ps", "--all", "--no-trunc", "--filter", self._label, "--format", "{{.ID}}\t{{.Status}}"
        )
        found = dict(line.split("\t", 1) for line in listing.splitlines())
        for container in known:
            exited = _EXITED.match(found.get(container, ""))
            if exited:
                self._note(container, ending(int(exited[1])))
            elif container not in found:
                self._note(container, "was removed")

    def _take(self, line: bytes) -> None:
        try:
            event: dict[str, Any] = json.loads(line)
            container, action = event["Actor"]["ID"], event["Action"]
            code = int(event["Actor"]["Attributes"].get("exitCode", 0))
        except (ValueError, TypeError, KeyError, AttributeError):
            return
        if action == "oom":
            with self._lock:
                self._starved.add(container)
        elif action == "die":
            with self._lock:
                starved = container in self._starved
            self._note(container, "ran out of memory and was killed" if starved else ending(code))
        elif action == "destroy":
            self._note(container, "was removed")

    def _note(self, container: str, how: str) -> None:
        with self._lock:
            if self._ended.get(container) is None:
                self._ended[container] = how
