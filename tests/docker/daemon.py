"""A Docker daemon of the tests' own, perhaps in a network namespace; nothing of it is left."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from processes import until

import miroir

IMAGE = "127.0.0.1:9/miroir-test:latest"  # of a registry that does not answer: nothing is ever fetched
SERVE = (sys.executable, "-m", "miroir", "serve", "office", "--host", "0.0.0.0", "--no-token", "--port", "8000")
_READY_S = 60.0
_STOP_S = 30.0
_CGROUPS = Path("/sys/fs/cgroup")


def command(*words: str | os.PathLike[str]) -> str:
    """What a command prints; an error that shows what it said when it fails."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


def visible() -> list[Path]:
    """The folders that a container must see, so that the interpreter of these tests runs in it."""
    needed = [Path(sys.base_prefix), Path(sys.prefix), Path(miroir.__file__).parents[1]]
    system = [Path("/usr"), Path("/bin"), Path("/lib"), Path("/lib64"), Path("/etc")]
    return [*system, *(path for path in dict.fromkeys(needed) if not path.is_relative_to("/usr"))]


class Daemon:
    """dockerd, started by hand; `wrap` is what runs it elsewhere, such as in a network namespace."""

    def __init__(self, name: str, *options: str, wrap: Sequence[str] = ()) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir="/tmp"))  # sockets need a short path
        self.host = f"unix://{self.folder}/docker.sock"
        self._cgroup = name
        self._argv = [
            *wrap, "dockerd", "--data-root", str(self.folder / "data"), "--exec-root", str(self.folder / "exec"),
            "--pidfile", str(self.folder / "pid"), "--host", self.host, "--cgroup-parent", f"/{name}",
            "--iptables=false", "--ip-masq=false", *options,
        ]  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        (self.folder / "pid").unlink(missing_ok=True)
        with (self.folder / "log").open("ab") as log:
            try:
                self._process = subprocess.Popen(self._argv, stdout=log, stderr=log, start_new_session=True)
            except FileNotFoundError as error:
                raise RuntimeError(f"{error.filename} is not installed; apt-get install docker.io iptables") from error
        if not until(lambda: self.answers() or self._process is None or self._process.poll() is not None, _READY_S):
            raise RuntimeError("dockerd does not answer")
        if not self.answers():
            raise RuntimeError(f"dockerd ended: {(self.folder / 'log').read_text()[-4000:]}")

    def answers(self) -> bool:
        """Whether it takes commands."""
        try:
            command("docker", "--host", self.host, "version")
        except (RuntimeError, subprocess.TimeoutExpired):
            return False
        return True

    def __call__(self, *words: str) -> str:
        """What a docker command prints."""
        return command("docker", "--host", self.host, *words)

    def make_image(self) -> None:
        """Make the image, which is empty: containers see the folders of this machine."""
        empty = self.folder / "empty.tar"
        with tarfile.open(empty, "w"):
            pass
        self("import", str(empty), IMAGE)

    def terminate(self) -> None:
        """End it as a system does."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(_STOP_S)

    def crash(self) -> None:
        """End it and all its containers, as when the machine loses its power. May be called again."""
        assert self._process is not None
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._kill_rest()

    def close(self) -> None:
        """End it with everything that it has started, and remove what it has made."""
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(RuntimeError):
                if containers := self("ps", "--all", "--quiet").split():
                    self("rm", "--force", "--volumes", *containers)
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_S)
        self._kill_rest()
        for mount in reversed(_mounts(self.folder)):
            subprocess.run(["umount", "--lazy", mount], check=False)
        shutil.rmtree(self.folder)
        for cgroup in sorted(_CGROUPS.glob(f"**/{self._cgroup}/**/"), reverse=True):
            with contextlib.suppress(OSError):
                cgroup.rmdir()

    def _kill_rest(self) -> None:
        """End the containers by their cgroup, and the daemon's own helpers by its folder."""

        def kill() -> bool:
            left = {*self._contained(), *_with_argument(str(self.folder))}
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return not left

        until(kill, _STOP_S)

    def _contained(self) -> Iterator[int]:
        for processes in _CGROUPS.glob(f"**/{self._cgroup}/**/cgroup.procs"):
            with contextlib.suppress(OSError):
                yield from map(int, processes.read_text().split())


def _with_argument(text: str) -> Iterator[int]:
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if text.encode() in entry.read_bytes() and int(entry.parent.name) != os.getpid():
                yield int(entry.parent.name)


def _mounts(folder: Path) -> list[str]:
    mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    return sorted(path for path in mounted if Path(path).is_relative_to(folder))


@contextlib.contextmanager
def bridged(name: str) -> Iterator[str]:
    """A bridge of this name for containers, so that no other daemon's is used."""
    command("ip", "link", "add", name, "type", "bridge")
    try:
        command("ip", "address", "add", "10.78.0.1/24", "dev", name)
        command("ip", "link", "set", name, "up")
        yield name
    finally:
        command("ip", "link", "delete", name)


@contextlib.contextmanager
def namespace(name: str) -> Iterator[tuple[str, str]]:
    """A network namespace that stands for another machine: this machine's address, and its address."""
    here, there = f"{name}a", f"{name}b"
    command("ip", "netns", "add", name)
    try:
        command("ip", "link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
        command("ip", "address", "add", "10.79.0.1/24", "dev", here)
        command("ip", "link", "set", here, "up")
        for words in (
            ("address", "add", "10.79.0.2/24", "dev", there),
            ("link", "set", there, "up"),
            ("link", "set", "lo", "up"),
        ):
            command("ip", "-netns", name, *words)
        yield "10.79.0.1", "10.79.0.2"
    finally:
        command("ip", "netns", "delete", name)
        until(lambda: not Path(f"/sys/class/net/{here}").exists(), 10.0)


def links() -> set[str]:
    """The network links of this machine."""
    return {path.name for path in Path("/sys/class/net").iterdir()}
