"""The docker command: run by argv, bounded in time, its failures told in one line."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...errors import ContainerPoolError

DOCKER = ("docker",)
CALL_S = 120.0
PULL_S = 3600.0
_PARALLEL = 32  # commands at a time: each is a process
_POLL_S = 0.1
_SHOWN = 2000
_NO_DAEMON = ("cannot connect to the docker daemon", "failed to connect to the docker api", "error during connect")
_NO_PERMISSION = "permission denied while trying to connect"
_HINT = re.compile(r"(See|Run) '\w+ .*", re.DOTALL)  # what docker appends to advertise its help


@dataclass(frozen=True)
class Done:
    """What a command that ended has left."""

    code: int
    out: str
    err: str

    @property
    def fault(self) -> str:
        """What its error output says, in one line."""
        text = self.err.partition("\nUsage:")[0]
        text = " ".join(_HINT.sub("", text).replace("docker: ", "").split())
        return text.removeprefix("Error response from daemon: ").rstrip(".")[:_SHOWN] or f"exit code {self.code}"


def _never() -> bool:
    return False


class Docker:
    """The command `command` (an argv, such as `docker --context far`); it reads DOCKER_HOST by itself."""

    def __init__(self, command: Sequence[str] = DOCKER) -> None:
        self.command = tuple(command)
        self._running = threading.BoundedSemaphore(_PARALLEL)

    def call(self, *args: str, timeout_s: float = CALL_S, given_up: Callable[[], bool] = _never) -> Done:
        """Run `docker ARGS` to its end, however it ends.

        ContainerPoolError when it cannot be run, takes longer than `timeout_s`, or `given_up()` comes true.
        """
        with self._running, self.popen(*args) as process:
            try:
                out, err = _output(process, self._shown(args), time.monotonic() + timeout_s, given_up)
            except BaseException:
                process.kill()
                raise
        return Done(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))

    def ask(self, *args: str, timeout_s: float = CALL_S) -> str:
        """What `docker ARGS` prints; ContainerPoolError when it fails."""
        done = self.call(*args, timeout_s=timeout_s)
        if done.code:
            raise ContainerPoolError(self.explained(f"{self._shown(args)} failed", done))
        return done.out

    def popen(self, *args: str) -> subprocess.Popen[bytes]:
        """Begin `docker ARGS`, with its output to be read; ContainerPoolError when there is no such command."""
        try:
            return subprocess.Popen(
                [*self.command, *args],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # a terminal's Ctrl-C is the pool's to act on
            )
        except OSError as error:
            raise ContainerPoolError(
                f"the command {self.command[0]!r} cannot be run: {(error.strerror or str(error)).lower()};"
                " install Docker's client, or name the command with --docker"
            ) from error

    def explained(self, what: str, done: Done) -> str:
        """`what` with its cause and what to do about it."""
        said = done.err.lower()
        if _NO_PERMISSION in said:
            return (
                f"{what}: this user may not use the Docker daemon ({done.fault});"
                " join the group docker, or set DOCKER_HOST to a daemon of your own"
            )
        if any(sign in said for sign in _NO_DAEMON):
            return f"{what}: no Docker daemon answers ({done.fault}); start dockerd, or set DOCKER_HOST"
        return f"{what}: {done.fault}"

    def check(self) -> None:
        """ContainerPoolError unless a daemon answers and lets us in."""
        done = self.call("version", "--format", "{{.Server.Version}}")
        if done.code:
            raise ContainerPoolError(self.explained("no container can be started", done))

    def have(self, image: str, given_up: Callable[[], bool] = _never) -> None:
        """See that the daemon has the image, pull it otherwise; ContainerPoolError when it cannot be had."""
        if self.call("image", "inspect", "--format", "{{.Id}}", image).code == 0:
            return
        done = self.call("pull", "--quiet", image, timeout_s=PULL_S, given_up=given_up)
        if done.code:
            raise ContainerPoolError(
                f"the image {image} is not here and cannot be pulled: {done.fault}; build it, or correct its name"
            )

    def _shown(self, args: Sequence[str]) -> str:
        return f"`{self.command[0]} {args[0]}`"


def _output(
    process: subprocess.Popen[bytes], shown: str, deadline: float, given_up: Callable[[], bool]
) -> tuple[bytes, bytes]:
    while True:
        try:
            return process.communicate(timeout=_POLL_S)
        except subprocess.TimeoutExpired:
            pass
        if given_up():
            raise ContainerPoolError(f"{shown} was given up; the pool was told to stop")
        if time.monotonic() > deadline:
            raise ContainerPoolError(f"{shown} did not end in time; see whether the Docker daemon is well")
