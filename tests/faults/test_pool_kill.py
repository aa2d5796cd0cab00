"""`miroir pool` with real servers, killed and stopped in every way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from processes import alive, children, stop, until

from miroir.pool import read_statuses
from miroir.urls import read_urls

pytestmark = pytest.mark.faults

EXAMPLES = Path(__file__).parent.parent / "examples"
HANGING = "import time\ntime.sleep(600)\n"
FAILING_ONCE = """
import pathlib, time
from counter import Counter
try:
    pathlib.Path("first").mkdir()
except FileExistsError:
    time.sleep(1)
    raise SystemExit("not again")
"""


class Command:
    """A running `miroir pool`, and the servers that it has started."""

    def __init__(self, folder: Path, env: str, n: int, *options: str) -> None:
        self.urls_file = folder / "urls.txt"
        argv = [sys.executable, "-m", "miroir", "pool", "--env", env, "-n", str(n), "--urls", str(self.urls_file)]
        self._errors = (folder / "stderr").open("w+")
        self.process = subprocess.Popen(
            [*argv, *options],
            cwd=folder,
            stderr=self._errors,
            start_new_session=True,
            env={**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(EXAMPLES)},
        )

    @property
    def servers(self) -> list[int]:
        """The processes of its servers."""
        return children(self.process.pid)

    @property
    def errors(self) -> str:
        """What it has said."""
        self._errors.seek(0)
        return self._errors.read()

    def ready(self) -> bool:
        """Whether it has written its URL file."""
        return until(lambda: self.urls_file.exists() or self.process.poll() is not None) and self.urls_file.exists()

    def close(self) -> None:
        """End it and its servers, whatever state they are in."""
        servers = self.servers if self.process.poll() is None else []
        self.process.kill()
        for pid in filter(alive, servers):
            os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self._errors.close()


Starter = Callable[..., Command]


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Starter]:
    """Start a pool; it is gone after the test."""
    started: list[Command] = []

    def start(env: str = "counter:Counter", n: int = 2, *options: str) -> Command:
        started.append(Command(tmp_path, env, n, *options))
        return started[-1]

    yield start
    for command in started:
        command.close()


def left(folder: Path) -> set[str]:
    """What there is besides the output and what the interpreter and the worlds make."""
    return {path.name for path in folder.iterdir()} - {"stderr", "__pycache__", "first", "hanging.py", "once.py"}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130), (signal.SIGHUP, 0)])
def test_a_signal_ends_the_pool_and_leaves_nothing(
    number: signal.Signals, code: int, pool: Starter, tmp_path: Path
) -> None:
    """0 on SIGTERM, 130 on SIGINT; no server, file, lock or folder remains. A terminal's Ctrl-C goes to the group."""
    command = pool()
    assert command.ready()
    servers = command.servers
    assert len(servers) == 2
    assert all(status.healthy for status in read_statuses(read_urls(command.urls_file)))
    os.killpg(command.process.pid, number)
    assert command.process.wait(20) == code
    assert not any(map(alive, servers))
    assert left(tmp_path) == set()
    assert command.errors.splitlines()[-1] == "stopping"


def test_servers_end_when_the_pool_is_killed(pool: Starter) -> None:
    """SIGKILL of the pool: its servers are gone within 2 s, and the next pool takes the file over."""
    command = pool()
    assert command.ready()
    servers, urls = command.servers, read_urls(command.urls_file)
    command.process.kill()
    assert until(lambda: not any(map(alive, servers)), 2.0)
    command.process.wait()
    assert read_urls(command.urls_file) == urls
    successor = pool()
    assert until(lambda: not successor.urls_file.exists() or read_urls(successor.urls_file) != urls)
    assert successor.ready()
    assert all(status.healthy for status in read_statuses(read_urls(successor.urls_file)))


def test_servers_that_are_still_starting_end_when_the_pool_is_killed(pool: Starter, tmp_path: Path) -> None:
    """Also one that hangs while its world is imported."""
    (tmp_path / "hanging.py").write_text(HANGING)
    command = pool("hanging:World")
    assert until(lambda: len(command.servers) == 2)
    time.sleep(1.5)
    servers = command.servers
    command.process.kill()
    gone = until(lambda: not any(map(alive, servers)), 2.0)
    for pid in filter(alive, servers):
        os.kill(pid, signal.SIGKILL)
    assert gone


def test_a_killed_server_is_out_of_the_file_and_back(pool: Starter) -> None:
    """Out within a second, back when it is ready, and the line says what happened."""
    command = pool("counter:Counter", 3)
    assert command.ready()
    before = read_urls(command.urls_file)
    os.kill(command.servers[0], signal.SIGKILL)
    assert until(lambda: len(read_urls(command.urls_file)) == 2, 1.0)
    assert until(lambda: len(read_urls(command.urls_file)) == 3)
    assert len(set(before) & set(read_urls(command.urls_file))) >= 2
    assert "down: was killed by SIGKILL; starts again in 1 s" in command.errors


def test_a_second_signal_kills_at_once(pool: Starter, tmp_path: Path) -> None:
    """A server that cannot end in time (here: it is stopped) is waited for until the second signal comes."""
    command = pool()
    assert command.ready()
    servers = command.servers
    stop(servers[0])
    command.process.send_signal(signal.SIGINT)
    assert until(lambda: not command.urls_file.exists())
    assert command.process.poll() is None
    command.process.send_signal(signal.SIGINT)
    began = time.monotonic()
    assert command.process.wait(20) == 130
    assert time.monotonic() - began < 4
    assert not any(map(alive, servers))
    assert left(tmp_path) == set()


def test_a_start_that_fails_half_way_leaves_nothing(pool: Starter, tmp_path: Path) -> None:
    """One server comes up, the other one does not: exit code 2, the reason, and nothing left."""
    (tmp_path / "once.py").write_text(FAILING_ONCE)
    command = pool("once:Counter")
    assert command.process.wait(30) == 2
    assert "not again; nothing was left running" in command.errors.splitlines()[-1]
    assert command.errors.count(" ready: http://") <= 1
    assert left(tmp_path) == set()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_a_start_that_hangs(number: signal.Signals, code: int, pool: Starter, tmp_path: Path) -> None:
    """Servers that never become ready do not keep the pool."""
    (tmp_path / "hanging.py").write_text(HANGING)
    command = pool("hanging:World")
    assert until(lambda: len(command.servers) == 2)
    servers = command.servers
    command.process.send_signal(number)
    assert command.process.wait(20) == code
    assert not any(map(alive, servers))
    assert left(tmp_path) == set()


def test_a_start_that_hangs_is_given_up(pool: Starter, tmp_path: Path) -> None:
    """--wait bounds it."""
    (tmp_path / "hanging.py").write_text(HANGING)
    command = pool("hanging:World", 2, "--wait", "1")
    assert command.process.wait(20) == 2
    assert "was not ready within 1 s (it does not listen)" in command.errors.splitlines()[-1]
    assert left(tmp_path) == set()


def test_a_pool_outlives_whoever_reads_its_lines(tmp_path: Path) -> None:
    """With stderr gone it replaces a killed server, and ends with 0."""
    urls_file = tmp_path / "urls.txt"
    argv = [sys.executable, "-m", "miroir", "pool", "--env", "counter:Counter", "-n", "1", "--urls", str(urls_file)]
    process = subprocess.Popen(argv, cwd=EXAMPLES, stderr=subprocess.PIPE)
    assert process.stderr is not None
    try:
        assert until(urls_file.exists)
        process.stderr.readline()
        process.stderr.close()
        before = read_urls(urls_file)
        (server,) = children(process.pid)
        os.kill(server, signal.SIGKILL)
        assert until(lambda: "http" in urls_file.read_text() and read_urls(urls_file) != before)
    finally:
        process.terminate()
        assert process.wait(20) == 0
    assert not urls_file.exists()


def test_a_pool_does_not_wait_for_a_terminal_that_stands_still(tmp_path: Path) -> None:
    """After Ctrl-S the file stays true, and the pool can be stopped."""
    urls_file = tmp_path / "urls.txt"
    argv = [sys.executable, "-m", "miroir", "pool", "--env", "counter:Counter", "-n", "1", "--urls", str(urls_file)]
    ours, its = os.openpty()
    process = subprocess.Popen(argv, cwd=EXAMPLES, stdin=its, stderr=its, start_new_session=True)
    os.close(its)
    try:
        assert until(urls_file.exists)
        os.write(ours, b"\x13")
        for _ in range(2):
            before = read_urls(urls_file)
            (server,) = children(process.pid)
            os.kill(server, signal.SIGKILL)
            assert until(lambda: "http" in urls_file.read_text() and read_urls(urls_file) != before)  # noqa: B023
        process.terminate()
        assert process.wait(20) == 0
    finally:
        process.kill()
        os.close(ours)
    assert not urls_file.exists()


def test_a_second_pool_on_the_same_file_is_refused(pool: Starter) -> None:
    """One line, exit code 2, and the first pool is not touched."""
    first = pool()
    assert first.ready()
    urls = read_urls(first.urls_file)
    second = pool()
    assert second.process.wait(20) == 2
    assert f"belongs to the pool of process {first.process.pid}" in second.errors
    assert read_urls(first.urls_file) == urls
    assert all(status.healthy for status in read_statuses(urls))
