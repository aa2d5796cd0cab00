"""Pools on a real Docker engine, whose containers serve the office, broken in every way."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import requests
from docker.daemon import IMAGE, SERVE, Daemon, visible
from processes import until

from miroir import Session, tasks
from miroir.agents import load_agent
from miroir.cli import main
from miroir.errors import ConnectionLost, ContainerPoolError
from miroir.pool import (
    Change,
    ContainerPool,
    ContainerSpec,
    DockerEngine,
    Event,
    Mount,
    Pool,
    Timing,
    control,
    read_statuses,
)
from miroir.records import load
from miroir.run import Report, run
from miroir.urls import read_urls

pytestmark = pytest.mark.docker

MOUNTS = tuple(Mount(str(path), str(path), "ro") for path in visible())
TIMING = Timing(start_s=60.0)
# A container that is the first to make a folder serves; the others say why they do not, and end.
ONCE = (sys.executable, "-c", "import os, sys\ntry: os.mkdir('/shared/first')\nexcept OSError: sys.exit('not again')\n"
        f"os.execv(sys.executable, {SERVE!r})")  # fmt: skip


def spec(*args: str, mounts: tuple[Mount, ...] = (), **options: Any) -> ContainerSpec:
    """Containers that serve the office, or do as told."""
    return ContainerSpec(IMAGE, args or SERVE, mounts=(*MOUNTS, *mounts), options=("--tmpfs", "/tmp"), **options)


class Told(list[Event]):
    """The events that a pool told."""

    def of(self, change: Change) -> list[str]:
        """Those of a kind, as lines."""
        return [str(event) for event in self if event.change is change]


class Running:
    """A run of slow episodes, each of which could succeed, in a thread of its own."""

    def __init__(self, urls: Path, out: Path, *, count: int, pause_s: float = 0.3, k: int = 1) -> None:
        self.out = out
        self._outcome: list[Report | BaseException] = []
        agent = load_agent(f"docker.slowly:play?pause_s={pause_s}")

        def play() -> None:
            try:
                options = {"narrow": lambda listed: listed[:count], "k": k, "concurrency": 32, "retries": 5}
                self._outcome.append(run(urls, out, agent, **options))
            except BaseException as error:
                self._outcome.append(error)

        self._thread = Thread(target=play)
        self._thread.start()

    def report(self, seconds: float = 120.0) -> Report:
        """What came of it; it must end in time."""
        self._thread.join(seconds)
        assert not self._thread.is_alive(), "the run hangs"
        (outcome,) = self._outcome
        assert isinstance(outcome, Report), outcome
        return outcome

    def records(self) -> list[dict[str, Any]]:
        """Every record."""
        return list(load([self.out]))

    def check(self, wanted: int, lost: Callable[[int], bool]) -> None:
        """All were graded in the end, none with 0; what was lost has one void record for each time, and ran again."""
        report = self.report()
        records = self.records()
        graded = Counter((record["task_id"], record["trial"]) for record in records if record["reward"] is not None)
        void = [record for record in records if record["reward"] is None]
        assert (len(graded), set(graded.values()), report.unfinished) == (wanted, {1}, 0)
        assert {record["reward"] for record in records} <= {None, 1.0}
        assert {record["metadata"]["ended_by"] for record in void} <= {"lost"}
        assert lost(len(void)), [record["metadata"] for record in void]
        assert {(record["task_id"], record["trial"]) for record in void} <= graded.keys()


def playing(urls: list[str]) -> list[str]:
    """Those that have a session, and have begun an episode."""
    return [status.url for status in read_statuses(urls) if status.leased and status.episodes]


def container_at(daemon: Daemon, url: str) -> str:
    """The container behind a URL."""
    return daemon("ps", "--quiet", "--filter", f"publish={url.rpartition(':')[2]}")


def test_a_quarter_of_the_containers_is_killed_during_a_run(daemon: Daemon, tmp_path: Path) -> None:
    """Eight containers: nothing hangs, each hit episode has one void record and runs again, and all eight come back."""
    path, told = tmp_path / "urls.txt", Told()
    with Pool(DockerEngine(spec(), timing=TIMING), n=8, urls_file=path, on_event=told.append) as pool:
        running = Running(path, tmp_path / "traces", count=24)
        assert until(lambda: len(playing(pool.urls)) >= 4, 90.0)
        hit = playing(pool.urls)[:2]
        daemon("kill", *(container_at(daemon, url) for url in hit))
        assert until(lambda: not set(hit) & set(read_urls(path)), 2.0)
        running.check(24, lambda lost: 1 <= lost <= 2)
        assert {record["container"] for record in running.records() if record["reward"] is None} <= set(hit)
        assert until(lambda: len(pool.urls) == 8)
    assert len(told.of(Change.DOWN)) == 2
    assert all("ended with exit code 137 (SIGKILL); starts again in 1 s" in line for line in told.of(Change.DOWN))
    assert not path.exists()


def test_a_container_that_hangs_is_replaced(daemon: Daemon, tmp_path: Path) -> None:
    """`docker pause`: connections stay open and nothing answers, until the pool takes the container away."""
    path, told = tmp_path / "urls.txt", Told()
    with Pool(DockerEngine(spec(), timing=TIMING), n=2, urls_file=path, on_event=told.append) as pool:
        paused = pool.urls[0]
        with Session.lease([paused]) as session:
            session.reset(tasks(paused)[0]["id"])
            daemon("pause", container_at(daemon, paused))
            with pytest.raises(ConnectionLost, match=r"the server closed it|reset"):
                while True:
                    session.state()
        assert paused not in read_urls(path)
        assert until(lambda: len(pool.urls) == 2)
    assert "was unhealthy 3 times in a row (timed out)" in told.of(Change.DOWN)[0]


def test_a_start_that_fails_half_way_leaves_nothing(daemon: Daemon, tmp_path: Path) -> None:
    """The error has what the container said before it was removed."""
    shared = Mount(str(tmp_path), "/shared", "rw")
    with pytest.raises(ContainerPoolError, match="ended with exit code 1 before it was ready: not again;") as raised:
        Pool(DockerEngine(spec(*ONCE, mounts=(shared,)), timing=TIMING), n=3, urls_file=tmp_path / "urls.txt").start()
    assert raised.value.log == ("not again",)
    assert not (tmp_path / "urls.txt").exists()
    assert daemon("ps", "--all", "--quiet") == ""


def test_a_pool_starts_with_those_that_are_ready(tmp_path: Path) -> None:
    """With `least`; the others come as soon as they can."""
    shared = Mount(str(tmp_path), "/shared", "rw")
    with Pool(DockerEngine(spec(*ONCE, mounts=(shared,)), timing=TIMING), n=2, least=1) as pool:
        assert len(pool.urls) == 1
        (tmp_path / "first").rmdir()
        assert until(lambda: len(pool.urls) == 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"args": ("/no/such/program",)}, "exec: .*no such file or directory"),
        ({"mounts": (Mount("/no/such/folder", "/x", "ro"),)}, "bind source path does not exist: /no/such/folder"),
        ({"memory": "lots"}, 'invalid argument "lots" for "-m, --memory" flag'),
        ({"network": "no-such-network"}, "network no-such-network not found"),
        ({"address": "192.0.2.1"}, "cannot assign requested address"),
    ],
)
def test_what_docker_refuses_is_told_in_its_words(daemon: Daemon, options: dict[str, Any], message: str) -> None:
    """One error; what docker had made is removed."""
    with pytest.raises(ContainerPoolError, match=message) as raised:
        Pool(DockerEngine(ContainerSpec(IMAGE, **{"args": SERVE, **options}), timing=TIMING), n=2).start()
    assert str(raised.value).count("\n") == 0
    assert "nothing was left running" in str(raised.value)


def test_a_container_without_memory_says_so(tmp_path: Path) -> None:
    """The limit is docker's, and its end is told as what it was."""
    hungry = "import time; time.sleep(1); hog = [bytearray(1 << 20) for _ in range(200)]; time.sleep(60)"
    with pytest.raises(ContainerPoolError, match=r"ran out of memory and was killed|exit code 137"):
        Pool(DockerEngine(spec(sys.executable, "-c", hungry, memory="64m"), timing=TIMING), n=1).start()


def test_a_container_is_replaced_after_so_many_leases(tmp_path: Path) -> None:
    """Between two sessions: no episode of a run is lost."""
    path = tmp_path / "urls.txt"
    with Pool(DockerEngine(spec(), recycle_after=3, timing=TIMING), n=2, urls_file=path) as pool:
        before = {status.boot_id for status in read_statuses(pool.urls)}
        Running(path, tmp_path / "traces", count=10, pause_s=0.05).check(10, lambda lost: lost == 0)
        assert until(lambda: len(pool.urls) == 2)
        assert not before & {status.boot_id for status in read_statuses(pool.urls)}


def test_containers_come_back_when_the_daemon_does(tmp_path: Path) -> None:
    """A daemon that restarts ends its containers; the pool starts them again."""
    own = Daemon("mirdk3", "--bridge", "mirdk0")
    try:
        own.start()
        own.make_image()
        with Pool(DockerEngine(spec(), docker=("docker", "--host", own.host), timing=TIMING), n=2) as pool:
            before = {status.boot_id for status in read_statuses(pool.urls)}
            own.terminate()
            assert until(lambda: not pool.urls)
            own.start()
            assert until(lambda: len(pool.urls) == 2, 60.0)
            assert not before & {status.boot_id for status in read_statuses(pool.urls)}
    finally:
        own.close()


class Command:
    """`miroir pool` on the engine, as a command."""

    def __init__(self, folder: Path, n: int) -> None:
        self.urls = folder / "urls.txt"
        self._errors = (folder / "stderr").open("w+")
        mounts = [word for mount in MOUNTS for word in ("--mount", mount.to_arg())]
        options = ["--image", IMAGE, "-n", str(n), "--urls", str(self.urls), "--docker-option=--tmpfs=/tmp", *mounts]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "miroir", "pool", *options, "--", *SERVE], stderr=self._errors
        )
        assert until(lambda: "in the pool" in self.errors or self.process.poll() is not None, 60.0)
        self.pool = self.errors.partition("in the pool ")[2].partition(",")[0]

    @property
    def errors(self) -> str:
        """What it has said."""
        self._errors.seek(0)
        return self._errors.read()

    def kill(self) -> None:
        """As the kernel does when memory is short."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """End it."""
        self.kill()
        self._errors.close()


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Command]:
    """A pool of two in a process of its own."""
    command = Command(tmp_path, 2)
    yield command
    command.close()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_the_pool_and_leaves_nothing(pool: Command, number: signal.Signals, code: int) -> None:
    """No container, no file."""
    assert all(status.healthy for status in read_statuses(read_urls(pool.urls)))
    pool.process.send_signal(number)
    assert pool.process.wait(30) == code
    assert not pool.urls.exists()


def test_what_a_killed_pool_left_is_swept_by_the_next(daemon: Daemon, pool: Command) -> None:
    """Another pool's containers and those of nobody are not touched, and serve on."""
    daemon("run", "--detach", "--name", "foreign", "-v", "/usr:/usr:ro", "-v", "/lib:/lib:ro", "-v", "/lib64:/lib64:ro",
           IMAGE, "/usr/bin/sleep", "600")  # fmt: skip
    with Pool(DockerEngine(spec(), timing=TIMING), n=1) as other:
        pool.kill()
        assert len(daemon("ps", "--quiet").split()) == 4
        with Pool(DockerEngine(spec(), timing=TIMING), n=1) as following:
            assert all(status.healthy for status in read_statuses([*other.urls, *following.urls]))
            names = daemon("ps", "--format", "{{.Names}}").split()
            assert len(names) == 3
            assert not any(pool.pool in name for name in names)
    assert daemon("ps", "--format", "{{.Names}}") == "foreign"
    daemon("rm", "--force", "foreign")


def test_a_killed_pool_is_adopted_under_a_session(daemon: Daemon, pool: Command) -> None:
    """An episode that runs meanwhile is graded; the adopter replaces what fails, and removes all at its end."""
    pool.kill()
    urls = read_urls(pool.urls)
    task = tasks(urls[0])[0]
    with Session.lease(urls) as session:
        session.reset(task["id"])
        engine, n = control.adopt(pool.pool, timing=TIMING)
        told = Told()
        with Pool(engine, n=n, least=0, urls_file=pool.urls, on_event=told.append) as adopted:
            assert sorted(adopted.urls) == sorted(urls)
            assert session.finish()["record"]["metadata"]["ended_by"] == "submit"
            daemon("kill", container_at(daemon, urls[1]))
            assert until(lambda: told.of(Change.DOWN))
            assert until(lambda: len(adopted.urls) == 2)


def test_a_pool_is_stopped_by_its_id(pool: Command, capsys: pytest.CaptureFixture[str]) -> None:
    """Whether its process runs or is gone; a second time there is none."""
    assert main(["pool", "--stop", pool.pool]) == 0
    assert pool.process.wait(30) == 0
    assert main(["pool", "--stop", pool.pool]) == 2
    assert f"no pool {pool.pool} is on this Docker; there is none" in capsys.readouterr().err


def test_what_a_killed_pool_left_is_removed_by_its_id(pool: Command) -> None:
    """There is no process to ask."""
    pool.kill()
    assert main(["pool", "--stop", pool.pool]) == 0


class TestFixedPorts:
    """`ContainerPool`, whose names and ports can be others'."""

    def make(self, base: int, **options: Any) -> ContainerPool:
        """A pool of two that serve the office."""
        given = {
            "image": IMAGE, "size": 2, "port_base": base, "name_prefix": "fixed", "readiness_path": "/health",
            "container_args": lambda port: [*SERVE[:-1], str(port)], "mounts": MOUNTS, "startup_timeout_s": 60.0,
        }  # fmt: skip
        return ContainerPool(**{**given, **options})

    def test_containers_are_leased_and_replaced(self, daemon: Daemon, base: int) -> None:
        """On their own ports, the same inside and outside."""
        with self.make(base) as pool, pool.lease() as port:
            url = f"http://127.0.0.1:{port}/health"
            boot_id = requests.get(url, timeout=5).json()["boot_id"]
            daemon("kill", f"fixed-{port}")
            pool.restart(port)
            assert requests.get(url, timeout=5).json()["boot_id"] != boot_id
            assert pool.logs(port).startswith("http://0.0.0.0:")

    @pytest.mark.parametrize("taken", ["name", "port", "process"])
    def test_what_is_anothers_is_not_touched(self, daemon: Daemon, base: int, taken: str) -> None:
        """A container of that name, a container or a process on that port: an error, and nothing is left."""
        foreign = ["run", "--detach", "--name", f"fixed-{base + 1}" if taken == "name" else "foreign"]
        foreign += ["--publish", f"{base + 1}:8000"] if taken == "port" else []
        mounts = [word for mount in MOUNTS for word in ("-v", mount.to_arg())]
        process = socket.create_server(("0.0.0.0", base + 1)) if taken == "process" else None
        name = None if process else daemon(*foreign, *mounts, IMAGE, *SERVE)
        try:
            message = (
                "is already in use by container" if taken == "name" else "already allocated|address already in use"
            )
            with pytest.raises(ContainerPoolError, match=message):
                self.make(base).start()
            left = daemon("ps", "--all", "--quiet", "--no-trunc")
            assert left == (name or "")
            if name:
                assert daemon("inspect", "--format", "{{.State.Running}}", name) == "true"
        finally:
            if name:
                daemon("rm", "--force", name)
            if process:
                process.close()

    def test_a_container_that_dies_while_it_starts_is_told_at_once(self, daemon: Daemon, base: int) -> None:
        """With its log, and not after the whole time for a start."""
        silent = [sys.executable, "-c", "import time; print('waiting', flush=True); time.sleep(600)"]
        pool = self.make(base, size=1, container_args=lambda port: silent)
        killer = Thread(target=lambda: until(lambda: daemon("ps", "--quiet")) and daemon("kill", f"fixed-{base}"))
        killer.start()
        began = time.monotonic()
        with pytest.raises(ContainerPoolError, match=r"ended with exit code 137 \(SIGKILL\)") as raised:
            pool.start()
        killer.join()
        assert time.monotonic() - began < 30
        assert raised.value.log in {("waiting",), ("<the container printed nothing>",)}

    def test_what_a_killed_program_left_is_swept(self, daemon: Daemon, base: int) -> None:
        """By the next pool; the names are free again."""
        program = (
            "import sys\nfrom miroir.pool import ContainerPool, Mount\n"
            f"pool = ContainerPool(image={IMAGE!r}, size=2, port_base={base}, name_prefix='fixed',"
            f" readiness_path='/health', container_args=lambda port: [*{SERVE[:-1]!r}, str(port)],"
            f" startup_timeout_s=60.0,"
            f" mounts=[Mount.parse(text) for text in {[mount.to_arg() for mount in MOUNTS]!r}])\n"
            "pool.start()\nprint('ready', flush=True)\nsys.stdin.read()\n"
        )
        with subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            process.kill()
        assert len(daemon("ps", "--quiet").split()) == 2
        with self.make(base) as pool, pool.lease() as port:
            assert port in (base, base + 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--image", IMAGE, "-n", "2", "--docker", "docker --host unix:///no/daemon"], "no Docker daemon answers"),
        (
            ["--image", IMAGE, "-n", "2", "--docker", "setpriv --reuid 65534 --clear-groups docker"],
            "join the group docker",
        ),
        (
            ["--image", "127.0.0.1:9/missing:1", "-n", "2"],
            "the image 127.0.0.1:9/missing:1 is not here and cannot be pulled",
        ),
        (["--attach", "nobody"], "no pool nobody is on this Docker; there is none; has it been stopped?"),
        (["--image", IMAGE, "-n", "2", "--engine", "swarm"], "not a manager of a Swarm; run `docker swarm init`"),
    ],
)
def test_what_cannot_work_is_one_line_and_exit_code_2(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No daemon, no permission, no image, no pool, no Swarm: before anything starts."""
    assert main(["pool", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert message in line
