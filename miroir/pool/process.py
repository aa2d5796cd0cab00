"""The engine `process`: containers are `miroir serve` processes on this machine."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import ContainerPoolError, InvalidArgument
from ..rest import secret_from
from .deathpipe import DeathPipe
from .logfile import LogFile
from .owner import Owner
from .slot import Container, Timing
from .supervisor import Supervisor

SERVE = (sys.executable, "-m", "miroir", "serve")
_POLL_S = 0.02
_PREFIX = "miroir-pool-"
_OWNER = "owner"  # the file of a pool's folder that says whose it is


class ProcessEngine(Supervisor):
    """Servers of `env` (a bundled name, or `package.module:Class`) on loopback ports that the kernel gives.

    `options` are the environment's own, as `miroir serve` takes them; `token_env` names the environment variable that
    holds the token; `serve` is the command that serves.
    Output goes to `<log_dir>/<name>.log`; without `log_dir` to a temporary folder that is removed at the end.
    """

    def __init__(
        self,
        env: str,
        *,
        options: Sequence[str] = (),
        token_env: str | None = None,
        allow_code: bool = False,
        max_sessions: int | None = None,
        recycle_after: int | None = None,
        log_dir: str | os.PathLike[str] | None = None,
        timing: Timing | None = None,
        serve: Sequence[str] = SERVE,
    ) -> None:
        super().__init__(re.sub(r"\W+", "-", env.rpartition(":")[2]) or "env", timing or Timing(), recycle_after)
        secret_from(token_env)  # a server without its token would only say so in its log
        if max_sessions is not None and max_sessions < 1:
            raise InvalidArgument(f"max_sessions is {max_sessions}; a server needs at least 1")
        self._argv = [*serve, env, "--port", "0"]
        self._argv += ["--token-env", token_env] if token_env else []
        self._argv += ["--allow-code"] if allow_code else []
        self._argv += ["--max-sessions", str(max_sessions)] if max_sessions else []
        self._env_options = ["--", *options] if options else []
        self._log_dir = Path(log_dir) if log_dir is not None else None
        self._folder: Path | None = None
        self._pipe: DeathPipe | None = None

    def start(self, n: int) -> None:
        """Begin n servers and return; InvalidArgument when the log folder cannot be used.

        ContainerPoolError when the system has no room, descriptors or threads for them.
        """
        if self._log_dir:
            try:
                self._log_dir.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InvalidArgument(
                    f"{self._log_dir} is no folder for logs: {error.strerror}; name another"
                ) from error
        try:
            _sweep()
            self._folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
            (self._folder / _OWNER).write_text(Owner.me().dump())
            self._pipe = DeathPipe()
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)  # tempfile words some of its own
            raise ContainerPoolError(
                f"the pool has nowhere to keep its temporary files: {why}; free space or descriptors, or set TMPDIR"
            ) from error
        super().start(n)

    def launch(self, name: str) -> Container:
        """Begin a server and return at once."""
        assert self._folder is not None
        assert self._pipe is not None
        log_dir = self._log_dir or self._folder
        for folder in (self._folder, log_dir):  # a machine may have tidied them away
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        port_file = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self._folder)) / "port"
        log = LogFile(log_dir / f"{name}.log")
        argv = [*self._argv, "--port-file", str(port_file), "--death-fd", str(self._pipe.read_end), *self._env_options]
        output = log.open()
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(self._pipe.read_end,),
                start_new_session=True,  # a terminal's Ctrl-C is the pool's to act on
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        finally:
            os.close(output)
        return _Server(process, port_file, log)

    def stop(self) -> None:
        """Stop every server and return when none is left."""
        super().stop()
        if self._pipe:
            self._pipe.close()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)


def ending(code: int) -> str:
    """How a process ended, in words; `code` is as subprocess has it, the negative number of a signal that killed it."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal, which has no name
        return f"was killed by signal {-code}"


def _sweep() -> None:
    """Remove the temporary folders of pools that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            owner = Owner.parse((folder / _OWNER).read_text(errors="replace"))
            if owner is not None and owner.is_dead():
                shutil.rmtree(folder)


class _Server(Container):
    """A server process and all of its session."""

    def __init__(self, process: subprocess.Popen[bytes], port_file: Path, log: LogFile) -> None:
        self._process = process
        self._port_file = port_file
        self._log = log

    def url(self) -> str | None:
        try:
            port = int(self._port_file.read_text())
        except (OSError, ValueError):
            return None
        return f"http://127.0.0.1:{port}" if 0 < port < 65536 else None

    def ended(self) -> str | None:
        code = self._process.poll()
        return None if code is None else ending(code)

    def log(self) -> tuple[str, ...]:
        return self._log.tail()

    def tend(self) -> None:
        self._log.cap()

    def stop(self, patient: Callable[[], bool]) -> None:
        self._process.terminate()
        while self._process.poll() is None and patient():
            time.sleep(_POLL_S)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)  # the leader, or what it left behind
        self._process.wait()
        shutil.rmtree(self._port_file.parent, ignore_errors=True)
