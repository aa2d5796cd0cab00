"""One container of a pool on Docker."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable
from typing import Any

from ...errors import ContainerPoolError
from ..logfile import TAIL_LINES, last_lines
from ..slot import Container
from .cli import Docker
from .events import Watch, ending

_DAYS_S = "86400"
_log = logging.getLogger("miroir.pool")


def inspect(docker: Docker, container: str) -> dict[str, Any]:
    """What the daemon knows of a container; ContainerPoolError when it knows none."""
    found = json.loads(docker.ask("inspect", container))[0]
    return found if isinstance(found, dict) else {}


def exited(state: dict[str, Any]) -> str | None:
    """How the container of an inspected `State` ended, in words; None while it runs."""
    return None if state.get("Running") or state.get("Status") == "created" else ending(state.get("ExitCode", -1))


def read_logs(docker: Docker, container: str) -> str:
    """The last 50 lines that a container wrote, or why they cannot be had; never empty."""
    done = docker.call("logs", "--tail", str(TAIL_LINES), container)
    if done.code:
        return f"<its log cannot be read: exit code {done.code}: {done.fault}>"
    return done.out + done.err or "<the container printed nothing>"


class DockerContainer(Container):
    """A container that `docker run` has started, with a port that Docker gave it."""

    def __init__(self, docker: Docker, watch: Watch, container: str, port: int) -> None:
        self.id = container
        self._docker = docker
        self._watch = watch
        self._port = port
        self._url: str | None = None

    def url(self) -> str | None:
        if self._url is None:
            settings = inspect(self._docker, self.id)["NetworkSettings"]
            bound = (settings.get("Ports") or {}).get(f"{self._port}/tcp") or []
            if bound:
                self._url = f"http://{bound[0]['HostIp']}:{bound[0]['HostPort']}"
        return self._url

    def ended(self) -> str | None:
        return self._watch.ended(self.id)

    def log(self) -> tuple[str, ...]:
        return last_lines(read_logs(self._docker, self.id))

    def tend(self) -> None:
        """Docker looks after it."""

    def stop(self, patient: Callable[[], bool]) -> None:
        with contextlib.suppress(ContainerPoolError):  # out of patience, or the daemon is away
            if not self.ended():
                self._docker.call("stop", "-t", _DAYS_S, self.id, given_up=lambda: not patient())
        try:
            done = self._docker.call("rm", "--force", "--volumes", self.id)
        except ContainerPoolError as error:
            _log.error("the container %s may be left: %s", self.id[:12], error.message)
            return
        if done.code and "No such container" not in done.err:
            _log.error("the container %s may be left: %s", self.id[:12], done.fault)
