"""Pools on a real Swarm, of one node and of two, scaled and broken while episodes run."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

import pytest
from docker.daemon import IMAGE, SERVE, Daemon, command, namespace, visible
from docker.test_docker import Running, Told, playing
from processes import until

from miroir.cli import main
from miroir.errors import ContainerPoolError
from miroir.pool import Change, ContainerSpec, Mount, Pool, SwarmEngine, Timing, control, read_statuses
from miroir.urls import read_urls

pytestmark = pytest.mark.docker

TIMING = Timing(start_s=90.0)
OPTIONS = ("--mount", "type=tmpfs,dst=/tmp", "--restart-delay", "1s")
SECOND = "mirdk2"


def spec(*args: str) -> ContainerSpec:
    """Tasks that serve the office, or do as told."""
    return ContainerSpec(IMAGE, args or SERVE, mounts=tuple(Mount(str(path), str(path), "ro") for path in visible()))


def engine(*args: str, options: tuple[str, ...] = ()) -> SwarmEngine:
    """An engine of such tasks."""
    return SwarmEngine(spec(*args), options=(*OPTIONS, *options), timing=TIMING)


@pytest.fixture(scope="module")
def machines(daemon: Daemon) -> Iterator[tuple[str, str]]:
    """The addresses of this machine and of another one, a network namespace."""
    with namespace(SECOND) as addresses:
        yield addresses


@pytest.fixture(scope="module")
def swarm(daemon: Daemon, machines: tuple[str, str]) -> Iterator[Daemon]:
    """The daemon as manager of a Swarm, which notices a dead node soon."""
    daemon("swarm", "init", "--advertise-addr", machines[0])
    daemon("swarm", "update", "--dispatcher-heartbeat", "2s")
    yield daemon
    daemon("swarm", "leave", "--force")


@pytest.fixture
def second(swarm: Daemon, machines: tuple[str, str]) -> Iterator[Daemon]:
    """A second node on the other machine."""
    # `ip netns exec` would mount /sys anew, in which dockerd then finds no cgroups.
    wrap = (
        "nsenter",
        f"--net=/run/netns/{SECOND}",
        "unshare",
        "--uts",
        "sh",
        "-c",
        f'hostname {SECOND}; exec "$@"',
        "sh",
    )
    node = Daemon(SECOND, wrap=wrap)
    try:
        node.start()
        node.make_image()
        token = swarm("swarm", "join-token", "--quiet", "worker")
        node("swarm", "join", "--advertise-addr", machines[1], "--token", token, f"{machines[0]}:2377")
        yield node
        node.crash()
        assert until(lambda: f"{SECOND} Down" in swarm("node", "ls", "--format", "{{.Hostname}} {{.Status}}"), 60.0)
        swarm("node", "rm", "--force", SECOND)
    finally:
        node.close()


def test_a_pool_is_scaled_during_a_run(swarm: Daemon, tmp_path: Path) -> None:
    """Six tasks, then ten, then three: the URL file follows, every episode is graded in the end, and none with 0."""
    path, used = tmp_path / "urls.txt", engine()
    with Pool(used, n=6, urls_file=path) as pool:
        assert len({url.rpartition(":")[2] for url in read_urls(path)}) == 6
        running = Running(path, tmp_path / "traces", count=24, pause_s=0.2)
        assert until(lambda: playing(pool.urls), 90.0)
        assert main(["pool", "--scale", used.pool_id, "10"]) == 0
        assert until(lambda: len(read_urls(path)) == 10, 90.0)
        began = time.monotonic()
        swarm("service", "scale", "--detach", f"miroir-{used.pool_id}=3")
        assert until(lambda: len(read_urls(path)) == 3, 10.0)
        assert time.monotonic() - began < 3.0 + 1.0
        running.check(24, lambda lost: lost <= 7)
        assert all(status.healthy for status in read_statuses(pool.urls))
    assert swarm("service", "ls", "--quiet") == ""
    assert not path.exists()
    assert until(lambda: swarm("ps", "--all", "--quiet") == "")


@dataclass
class Lag:
    """How long the URL file lists a node after Swarm wants none of its tasks any more; looks in a thread."""

    swarm: Daemon
    service: str
    path: Path
    address: str
    decided: float | None = None
    followed: float | None = None
    stopping: Event = field(default_factory=Event)

    def look(self) -> None:
        """Look until it has followed."""
        filters = ("--filter", f"node={SECOND}", "--filter", "desired-state=running")
        while self.followed is None and not self.stopping.wait(0.05):
            if self.decided is None and not self.swarm("service", "ps", "--quiet", *filters, self.service):
                self.decided = time.monotonic()
            if f"//{self.address}:" not in self.path.read_text():
                self.followed = time.monotonic()


def test_the_tasks_of_a_dead_node_come_back_on_the_other(
    swarm: Daemon, second: Daemon, machines: tuple[str, str], tmp_path: Path
) -> None:
    """Its episodes are void and run again, the URL file follows Swarm's decision within 3 s, and none is scored 0."""
    path, told, used = tmp_path / "urls.txt", Told(), engine()
    with Pool(used, n=4, urls_file=path, on_event=told.append) as pool:
        there = [url for url in pool.urls if f"//{machines[1]}:" in url]
        assert len(there) == 2
        running = Running(path, tmp_path / "traces", count=12, pause_s=0.5)
        assert until(lambda: playing(there) == there, 90.0)
        lag = Lag(swarm, f"miroir-{used.pool_id}", path, machines[1])
        looking = Thread(target=lag.look)
        looking.start()
        command("ip", "link", "set", f"{SECOND}a", "down")
        second.crash()
        try:
            assert until(lambda: lag.followed, 60.0)
            assert until(lambda: len(pool.urls) == 4, 60.0)
        finally:
            lag.stopping.set()
            looking.join()
            command("ip", "link", "set", f"{SECOND}a", "up")
        assert all(f"//{machines[0]}:" in url for url in pool.urls)
        assert lag.decided is None or lag.followed is None or lag.followed - lag.decided < 3.0
        running.check(12, lambda lost: lost >= 2)
        void = [record for record in running.records() if record["reward"] is None]
        assert {record["container"] for record in void} <= set(there)


def test_a_task_that_ends_is_replaced_by_swarm(swarm: Daemon, tmp_path: Path) -> None:
    """Its URL leaves at once, and the one of its successor comes."""
    path, told = tmp_path / "urls.txt", Told()
    with Pool(engine(), n=2, urls_file=path, on_event=told.append) as pool:
        before = pool.urls
        swarm("kill", swarm("ps", "--quiet").split()[0])
        assert until(lambda: len(read_urls(path)) == 1 if "http" in path.read_text() else False, 5.0)
        assert until(lambda: len(read_urls(path)) == 2, 60.0)
        assert len(set(before) & set(pool.urls)) == 1
    (line,) = told.of(Change.DOWN)
    assert "left: Swarm has it failed: task: non-zero exit (137)" in line


def test_a_start_that_cannot_work_tells_why_and_leaves_nothing(swarm: Daemon) -> None:
    """A container that ends, with its log; a constraint that no node meets; an image that is nowhere."""
    with pytest.raises(ContainerPoolError, match=r"has failed: task: non-zero exit \(1\): no world here; nothing was"):
        Pool(engine(sys.executable, "-c", "import sys; sys.exit('no world here')"), n=2).start()
    picky = SwarmEngine(spec(), options=("--constraint", "node.labels.gpu==yes"), timing=Timing(start_s=3.0))
    with pytest.raises(ContainerPoolError, match=r"was not ready within 3 s \(it is pending: .*no suitable node"):
        Pool(picky, n=1).start()
    missing = SwarmEngine(ContainerSpec("127.0.0.1:9/missing:1"), timing=TIMING)
    with pytest.raises(ContainerPoolError, match=r"has rejected: No such image: 127.0.0.1:9/missing:1"):
        Pool(missing, n=1).start()
    with pytest.raises(ContainerPoolError, match=r"the service could not be created: .*secret not found: nothing"):
        Pool(engine(options=("--secret", "nothing")), n=1).start()
    assert swarm("service", "ls", "--quiet") == ""
    assert until(lambda: swarm("ps", "--all", "--quiet") == "")


def test_a_task_whose_ports_differ_by_ip_version_is_reached(swarm: Daemon, tmp_path: Path) -> None:
    """Docker takes the next port where something else has one, for IPv4 and IPv6 apart."""
    used = engine()
    with Pool(used, n=1, urls_file=tmp_path / "urls.txt") as pool, socket.socket() as taken:
        taken.bind(("127.0.0.1", int(pool.urls[0].rpartition(":")[2]) + 1))
        taken.listen()
        swarm("service", "scale", "--detach", f"miroir-{used.pool_id}=3")
        assert until(lambda: len(pool.urls) == 3, 60.0)
        listed = swarm("service", "ps", "--format", "{{.Ports}}", f"miroir-{used.pool_id}")
        assert any(len(set(line.split(","))) == 2 for line in listed.splitlines())
        assert all(status.healthy for status in read_statuses(pool.urls))


def test_a_pool_on_swarm_is_stopped_by_its_id_and_swept(
    swarm: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Adopted when its process is gone, and then kept from the sweep; removed by its id, or by the next pool."""
    used = engine()
    first = Pool(used, n=1)
    first.start()
    monkeypatch.setattr("miroir.pool.owner.Owner.is_dead", lambda owner: True)
    adopted, n = control.adopt(used.pool_id, timing=TIMING)
    monkeypatch.undo()
    with Pool(adopted, n=n, least=0) as pool:
        assert until(lambda: len(pool.urls) == 1)
        with Pool(engine(), n=1):
            assert len(swarm("service", "ls", "--quiet").split()) == 2
        with pytest.raises(ContainerPoolError, match="belongs to the running process"):
            control.stop_pool(used.pool_id, force=True)
    assert swarm("service", "ls", "--quiet") == ""
    first.stop()
