"""AppWorld's servers as processes of an interpreter that has `appworld`."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import ContainerPoolError, InvalidArgument
from ..pool.deathpipe import DeathPipe
from ..pool.logfile import LogFile
from ..pool.portpool import PortPool
from ..pool.process import ending
from .data import DataRoot

# A thread of the server's own reads the pipe; what it needs is bound before AppWorld patches the module `os`.
_PROGRAM = """\
import os, signal, sys, threading
def end(read=os.read, kill=os.kill, pid=os.getpid(), pipe=int(sys.argv.pop(1))):
    read(pipe, 1)
    kill(pid, signal.SIGKILL)
threading.Thread(target=end, daemon=True).start()
from appworld.cli import main
main()
"""


class ProcessPool(PortPool):
    """Servers run by the interpreter `python`, each in a temporary root that links to the data and the outputs.

    They end with this process, however it ends. None is asked to: AppWorld ignores SIGTERM once it has frozen its
    clock, and has nothing to save.
    """

    def __init__(
        self,
        *,
        python: str,
        data_root: DataRoot,
        outputs_dir: Path,
        size: int,
        port_base: int,
        startup_timeout_s: float,
    ) -> None:
        super().__init__(size=size, port_base=port_base, readiness_path="/", startup_timeout_s=startup_timeout_s)
        found = shutil.which(python)
        if found is None:
            raise InvalidArgument(f"{python!r} is no program that can be run; name an interpreter that has appworld")
        self._python = found
        self._data = data_root.data
        self._outputs = outputs_dir
        self._folder: Path | None = None
        self._pipe: DeathPipe | None = None
        self._servers: dict[int, _Server] = {}

    @contextlib.contextmanager
    def lease(self) -> Iterator[int]:
        """The port of a server that nobody else has, as soon as there is one; its log is kept in bounds."""
        with super().lease() as port:
            if port in self._servers:
                self._servers[port].log.cap()
            yield port

    def logs(self, port: int) -> str:
        """The last 50 lines of a server."""
        server = self._servers.get(port)
        return "\n".join(server.log.tail() if server else ()) or "<the server printed nothing>"

    @property
    def _kind(self) -> str:
        return self._python

    def _name(self, port: int) -> str:
        return f"appworld-{port}"

    def _prepare(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="miroir-appworld-"))
        self._pipe = DeathPipe()

    def _run(self, port: int) -> None:
        assert self._folder is not None
        assert self._pipe is not None
        _refuse_if_taken(port)
        try:
            self._servers[port] = self._started(port, self._folder / str(port), self._pipe)
        except OSError as error:
            raise ContainerPoolError(
                f"{self._name(port)} could not be started: {error};"
                f" see that {self._python} can be run, and {self._folder} written"
            ) from error

    def _started(self, port: int, folder: Path, pipe: DeathPipe) -> _Server:
        root = self._root(folder)
        log = LogFile(root / "log")
        argv = [self._python, "-c", _PROGRAM, str(pipe.read_end), "serve", "environment"]
        output = log.open()
        try:
            process = subprocess.Popen(
                [*argv, "--port", str(port), "--no-show-usage", "--root", str(root)],
                cwd=root,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(pipe.read_end,),
                start_new_session=True,  # a terminal's Ctrl-C is the pool's to act on
                env=_environment(root),
            )
        finally:
            os.close(output)
        return _Server(process, log)

    def _root(self, root: Path) -> Path:
        """A root as AppWorld wants it, made once for each port."""
        (root / "experiments").mkdir(parents=True, exist_ok=True)
        for link, target in ((root / "data", self._data), (root / "experiments" / "outputs", self._outputs)):
            if not link.is_symlink():
                link.symlink_to(target)
        return root

    def _ended(self, port: int) -> str | None:
        # The process is left to be waited for: until then its group is nobody else's, and can be killed.
        pid = self._servers[port].process.pid
        end = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if end is None:
            return None
        return ending(end.si_status if end.si_code == os.CLD_EXITED else -end.si_status)

    def _remove(self, port: int) -> None:
        server = self._servers.pop(port, None)
        if server is None:
            return
        with contextlib.suppress(PermissionError):  # of a group of zombies
            os.killpg(server.process.pid, signal.SIGKILL)  # the leader, or what it left behind
        server.process.wait()

    def _remove_all(self) -> None:
        for port in list(self._servers):
            self._remove(port)
        if self._pipe is not None:
            self._pipe.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


@dataclass(frozen=True)
class _Server:
    """A process and the file of its output."""

    process: subprocess.Popen[bytes]
    log: LogFile


def _environment(root: Path) -> dict[str, str]:
    """This process's environment without what is meant for its own interpreter."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**inherited, "APPWORLD_ROOT": str(root), "PYTHONUNBUFFERED": "1"}


def _refuse_if_taken(port: int) -> None:
    """ContainerPoolError where someone else listens, whose answer would pass for the server's own."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError as error:
            raise ContainerPoolError(
                f"port {port} cannot be had ({error.strerror}); stop what listens there, or choose another port_base"
            ) from error
