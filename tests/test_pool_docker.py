"""The engine `docker` on a fake Docker, whose containers are processes."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from dockerfake import DockerFake
from processes import alive, stop, until

from miroir.cli import main
from miroir.errors import ContainerPoolError, InvalidArgument
from miroir.pool import Change, ContainerSpec, DockerEngine, Event, Mount, Pool, Timing, control
from miroir.pool.docker.cli import Done
from miroir.pool.docker.label import POOL
from miroir.pool.owner import Owner
from miroir.urls import read_urls

FAST = Timing(start_s=20.0, ready_every_s=0.02, ended_every_s=0.02, health_every_s=0.2, health_s=1.0)


@pytest.fixture
def docker(tmp_path: Path) -> Iterator[DockerFake]:
    """A fake Docker without containers."""
    fake = DockerFake(tmp_path / "docker")
    yield fake
    fake.close()


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first restart comes after a tenth of a second."""
    monkeypatch.setattr("miroir.pool.restarts.FIRST_DELAY_S", 0.1)


def engine(docker: DockerFake, kind: str = "well", timing: Timing = FAST, **options: object) -> DockerEngine:
    """An engine whose containers do as told."""
    return DockerEngine(ContainerSpec("world:1", args=(kind,)), docker=docker.command, timing=timing, **options)  # type: ignore[arg-type]


class Told(list[Event]):
    """The events that a pool told."""

    def __getitem__(self, change: Change) -> list[Event]:  # type: ignore[override]
        return [event for event in self if event.change is change]


def test_a_pool_of_containers_is_listed_and_leaves_nothing(docker: DockerFake, tmp_path: Path) -> None:
    """Ports are Docker's, names and labels say whose they are; afterwards there is no container and no file."""
    path = tmp_path / "urls.txt"
    used = engine(docker)
    with Pool(used, n=3, urls_file=path) as pool:
        assert sorted(read_urls(path)) == sorted(pool.urls)
        assert sorted(docker.containers) == [f"miroir-{used.pool_id}-{number}" for number in range(3)]
        (run, *_) = docker.calls("run")
        labels = docker.containers[f"miroir-{used.pool_id}-0"]["labels"]
        assert isinstance(labels, dict)
        assert labels[POOL] == used.pool_id
        assert Owner.parse(labels["miroir.owner"]) == Owner.me()
    assert run[run.index("--publish") :] == ["--publish", "127.0.0.1::8000", "world:1", "well"]
    assert docker.containers == {}
    assert not path.exists()


def test_every_option_reaches_docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of `docker run`, and of `docker service create` by its names."""
    spec = ContainerSpec(
        "world:1", ("a", "b"), 9000, "10.0.0.5", (Mount("/d", "/e", "ro"),), "/f", ("T",), "4g", "1.5", "net", ("--in",)
    )  # fmt: skip
    common = shlex.split(
        "--mount type=bind,src=/d,dst=/e,readonly --env-file /f --env T --network net --in world:1 a b"
    )
    assert [*spec.run_argv()] == ["--publish", "10.0.0.5::9000", "--memory", "4g", "--cpus", "1.5", *common]
    assert [*spec.service_argv()] == [
        "--publish", "mode=host,target=9000", "--limit-memory", "4g", "--limit-cpu", "1.5", *common,
    ]  # fmt: skip
    assert ContainerSpec.load(spec.dump()) == spec
    with pytest.raises(ContainerPoolError, match="started by another version of miroir"):
        ContainerSpec.load('{"image": 1}')


def test_a_killed_container_is_out_of_the_file_and_back(docker: DockerFake, tmp_path: Path) -> None:
    """The line says how it ended; another one takes its place, on whatever port Docker gives."""
    path, told, used = tmp_path / "urls.txt", Told(), engine(docker)
    with Pool(used, n=2, urls_file=path, on_event=told.append):
        before = read_urls(path)
        docker.kill(f"miroir-{used.pool_id}-1")
        assert until(lambda: len(read_urls(path)) == 1, 10.0)
        assert until(lambda: len(read_urls(path)) == 2)
        assert len({*before, *read_urls(path)}) == 3
    assert f"miroir-{used.pool_id}-1 down: ended with exit code 137 (SIGKILL); starts again in 0.1 s" in map(str, told)


def test_a_container_that_someone_removes_comes_back(docker: DockerFake) -> None:
    """It is told as what was seen of it: Docker kills a container before it removes it."""
    told, used = Told(), engine(docker)
    with Pool(used, n=1, on_event=told.append) as pool:
        docker.do("rm", "-f", f"miroir-{used.pool_id}-0")
        assert until(lambda: told[Change.DOWN])
        assert until(lambda: pool.urls)
    assert any(seen in str(told[Change.DOWN][0]) for seen in ("was removed", "ended with exit code 137 (SIGKILL)"))


def test_a_death_that_nobody_told_is_found(docker: DockerFake) -> None:
    """While `docker events` does not work, the containers are looked at."""
    docker.fail("events", "Error response from daemon: told to fail")
    told, used = Told(), engine(docker, timing=replace(FAST, health_every_s=60.0))
    with Pool(used, n=1, on_event=told.append):
        docker.kill(f"miroir-{used.pool_id}-0")
        assert until(lambda: told[Change.DOWN])
    assert "ended with exit code 137 (SIGKILL)" in str(told[Change.DOWN][0])


def test_containers_that_answer_are_kept_while_the_daemon_is_away(docker: DockerFake) -> None:
    """Nothing is known of them, and nothing is done to them."""
    told, used = Told(), engine(docker)
    with Pool(used, n=1, on_event=told.append) as pool:
        for command in ("events", "ps"):
            docker.fail(command, "Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?")
        asked = len(docker.calls("events"))
        os.kill(next(iter(_streams(docker))), signal.SIGKILL)
        assert until(lambda: len(docker.calls("events")) > asked + 1)
        assert len(pool.urls) == 1
        docker.heal("ps")
    assert told[Change.DOWN] == []


def _streams(docker: DockerFake) -> Iterator[int]:
    """The processes of `docker events`."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        words = entry.read_bytes().split(b"\0")
        if str(docker.folder).encode() in words and b"events" in words:
            yield int(entry.parent.name)


def test_a_start_that_fails_half_way_leaves_nothing(docker: DockerFake, tmp_path: Path) -> None:
    """The error has the log, which was read before the container was removed."""
    path = tmp_path / "urls.txt"
    with pytest.raises(ContainerPoolError, match="ended with exit code 3 before it was ready: told to fail;") as raised:
        Pool(engine(docker, "once"), n=3, urls_file=path).start()
    assert len(raised.value.log) == 50
    assert docker.containers == {}
    assert not path.exists()


def test_a_container_that_docker_made_and_could_not_start_is_removed(docker: DockerFake) -> None:
    """docker's own words say why."""
    docker.take(0)
    with pytest.raises(
        ContainerPoolError,
        match=r"could not be started: .*`docker run` ended with exit code 125: Bind for 0.0.0.0:0 failed: port is alr",
    ):
        Pool(engine(docker), n=2).start()
    assert docker.containers == {}


def test_what_failed_at_the_start_is_tried_again(docker: DockerFake) -> None:
    """With `least`, the pool starts with those that are ready."""
    with Pool(engine(docker, "once"), n=2, least=1) as pool:
        assert len(pool.urls) == 1
        (docker.folder / "first").rmdir()
        assert until(lambda: len(pool.urls) == 2)


def test_a_container_that_does_not_end_is_killed(docker: DockerFake) -> None:
    """After the grace; `docker stop` came first."""
    used = engine(docker, "stubborn", timing=replace(FAST, grace_s=0.3))
    with Pool(used, n=1):
        pid = docker.pid(f"miroir-{used.pool_id}-0")
    assert len(docker.calls("stop")) == 1
    assert not alive(pid)


def test_a_container_is_replaced_after_so_many_leases(docker: DockerFake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two sessions; one whose server does not count cannot be started so."""
    monkeypatch.setattr("miroir.pool.recycling.DRAINED_S", 0.1)
    with pytest.raises(ContainerPoolError, match="does not say in /health how many episodes"):
        Pool(engine(docker, recycle_after=1), n=1).start()
    (docker.folder / "episodes").touch()
    told, used = Told(), engine(docker, recycle_after=1)
    with Pool(used, n=1, on_event=told.append):
        first = docker.pid(f"miroir-{used.pool_id}-0")
        assert until(lambda: len(told[Change.READY]) == 2)
        assert not alive(first)
    with pytest.raises(InvalidArgument, match="recycle_after is 0; a container serves at least 1 lease"):
        engine(docker, recycle_after=0)


def test_containers_that_cannot_be_removed_are_told(docker: DockerFake, caplog: pytest.LogCaptureFixture) -> None:
    """The error names the command that removes them."""
    used = engine(docker)
    pool = Pool(used, n=1)
    pool.start()
    docker.fail("rm", "Error response from daemon: driver failed")
    with pytest.raises(ContainerPoolError, match=f"driver failed; `miroir pool --stop {used.pool_id}` removes them"):
        pool.stop()
    docker.heal("rm")
    assert "may be left" in caplog.text


def test_a_pull_is_given_up_when_the_pool_is_cancelled(docker: DockerFake) -> None:
    """It may take an hour; a signal must not. It is no error."""
    pool = Pool(DockerEngine(ContainerSpec("missing:slow"), docker=docker.command), n=1)
    waiting = threading.Thread(target=lambda: until(lambda: docker.calls("pull")) and pool.cancel())
    waiting.start()
    pool.start()
    waiting.join()
    assert pool.urls == []
    assert docker.calls("run") == []


def test_a_leftover_of_a_dead_pool_is_swept_by_the_next(docker: DockerFake) -> None:
    """A pool of which one container has an owner that may live is spared whole."""
    here = Owner.me()
    dead, far = replace(here, pid=2**22 + 1), replace(here, host="elsewhere")
    for name, pool, owner in [("a", "one", dead), ("b", "one", dead), ("c", "two", dead), ("d", "two", far)]:
        docker.do(
            "run", "--name", name, "--label", f"miroir.pool={pool}", "--label", f"miroir.owner={owner.dump()}", "i"
        )
    with Pool(engine(docker), n=1):
        assert until(lambda: docker.containers.keys() >= {"c", "d"})  # a listing may miss a file that is being replaced
        assert not docker.containers.keys() & {"a", "b"}


def test_an_error_of_docker_is_one_line() -> None:
    """Without its help."""
    noisy = (
        'docker: invalid argument "lots" for "-m": invalid size.\n\nUsage:  docker run\n\nRun \'docker run --help\' for'
    )
    assert Done(125, "", noisy).fault == 'invalid argument "lots" for "-m": invalid size'
    assert Done(1, "", "\n").fault == "exit code 1"


class Command:
    """`miroir pool` in a process of its own, on a fake Docker."""

    def __init__(self, docker: DockerFake, folder: Path, n: int = 2) -> None:
        self.urls = folder / "urls.txt"
        self._errors = (folder / "stderr").open("w+")
        options = ["--image", "world:1", "-n", str(n), "--urls", str(self.urls), "--docker", shlex.join(docker.command)]
        argv = [sys.executable, "-m", "miroir", "pool", *options, "--", "well"]
        self.process = subprocess.Popen(argv, stderr=self._errors)
        assert until(self.urls.exists)

    @property
    def errors(self) -> str:
        """What it has said."""
        self._errors.seek(0)
        return self._errors.read()

    @property
    def pool(self) -> str:
        """The id of its pool."""
        assert until(lambda: " in the pool " in self.errors)
        return self.errors.partition(" in the pool ")[2].partition(",")[0]

    def close(self) -> None:
        """End it, whatever state it is in."""
        self.process.kill()
        self.process.wait()
        self._errors.close()


@pytest.fixture
def command(docker: DockerFake, tmp_path: Path) -> Iterator[Command]:
    """A running pool of two."""
    command = Command(docker, tmp_path)
    yield command
    command.close()


def test_a_pool_whose_process_died_is_adopted(docker: DockerFake, command: Command, tmp_path: Path) -> None:
    """Its containers run on, are kept from then on, and are nobody's leftovers."""
    pool_id, urls = command.pool, read_urls(command.urls)
    command.process.kill()
    command.process.wait()
    pids = sorted(docker.pid(name) for name in docker.containers)
    adopted, n = control.adopt(pool_id, docker=docker.command, timing=FAST)
    told = Told()
    with Pool(adopted, n=n, least=0, urls_file=command.urls, on_event=told.append) as pool:
        assert sorted(docker.pid(name) for name in docker.containers) == pids
        assert sorted(pool.urls) == sorted(urls)
        with Pool(engine(docker), n=1):
            assert len(docker.containers) == 3
        with pytest.raises(ContainerPoolError, match=f"belongs to the running process {os.getpid()}; stop that first"):
            control.adopt(pool_id, docker=docker.command)
        docker.kill(sorted(docker.containers)[0])
        assert until(lambda: told[Change.DOWN])
        assert until(lambda: len(pool.urls) == 2)
    assert docker.containers == {}


def test_of_two_that_adopt_at_once_one_is_refused(docker: DockerFake, command: Command) -> None:
    """The name that it saw is gone."""
    pool_id = command.pool
    command.process.kill()
    command.process.wait()
    docker.fail("rename", "Error response from daemon: No such container: x")
    with pytest.raises(ContainerPoolError, match="could not be adopted: No such container: x; see who else has it"):
        control.adopt(pool_id, docker=docker.command)


def test_a_pool_is_stopped_by_its_id(docker: DockerFake, command: Command) -> None:
    """Its process ends as by a signal, and has removed everything when the command returns."""
    assert main(["pool", "--stop", command.pool, "--docker", shlex.join(docker.command)]) == 0
    assert docker.containers == {}
    assert command.process.wait(20) == 0
    assert not command.urls.exists()


def test_a_pool_that_does_not_stop_is_told(
    docker: DockerFake, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process stands still: who it is, and what to do about it."""
    monkeypatch.setattr(control, "STOP_S", 0.3)
    pool_id, pid = command.pool, command.process.pid
    stop(pid)
    try:
        with pytest.raises(ContainerPoolError, match=f"still runs 0.3 s after it was told to stop; kill process {pid}"):
            control.stop_pool(pool_id, docker=docker.command)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert command.process.wait(20) == 0


def test_what_a_dead_pool_left_is_removed_by_its_id(docker: DockerFake, command: Command) -> None:
    """There is no process to ask."""
    pool_id = command.pool
    command.process.kill()
    command.process.wait()
    control.stop_pool(pool_id, docker=docker.command)
    assert docker.containers == {}


def test_a_pool_of_another_is_stopped_by_force_alone(docker: DockerFake) -> None:
    """One of another machine with it; one of a running program never."""
    far = replace(Owner.me(), host="elsewhere").dump()
    for name, owner in (("far", far), ("mine", Owner.me().dump())):
        docker.do(
            "run", "--name", name, "--label", f"miroir.pool={name}", "--label", f"miroir.owner={owner}", "i", "well"
        )
    with pytest.raises(
        ContainerPoolError, match=r"belongs to process \d+ on elsewhere, which may still run; stop it th"
    ):
        control.stop_pool("far", docker=docker.command)
    control.stop_pool("far", docker=docker.command, force=True)
    with pytest.raises(ContainerPoolError, match=f"belongs to the running process {os.getpid()}; stop that first"):
        control.stop_pool("mine", docker=docker.command, force=True)
    assert list(docker.containers) == ["mine"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--image", "i", "-n", "0"], "a pool of 0 has no container; ask for at least 1"),
        (["--image", "i"], "how many servers? add -n N"),
        (["--image", "i", "-n", "2", "--min", "3"], "at least 3 of 2 containers cannot be"),
        (["--image", "i", "-n", "1", "--mount", "/a:/b:z"], "the mount mode 'z' is neither 'ro' nor 'rw'"),
        (["--image", "i", "-n", "1", "--mount", "a"], "'a' mounts nothing; write /HOST:/CONTAINER:ro"),
        (["--image", "i", "-n", "1", "--port", "65536"], "65536 is not a port; name one from 1 to 65535"),
        (["--image", "i", "-n", "1", "--env-file", "/no/env"], "the env file /no/env is not there"),
        (["--image", "i", "-n", "1", "--token-env", "NO_TOKEN"], "the environment variable NO_TOKEN is not set"),
        (["--image", "i", "-n", "1", "--network", "host"], "the network 'host' gives a container no port of its own"),
        (["--image", "i", "-n", "1", "--memroy", "4g"], "--memroy is no option of miroir pool"),
        (
            ["--image", "i", "-n", "1", "--publish", "0.0.0.0"],
            "'0.0.0.0' is no address to reach a container at; name an",
        ),
        (["--image", "", "-n", "1"], "'' is not the name of an image; write name:tag"),
        (["--image", "i", "-n", "1", "--docker", "/no/docker"], "the command '/no/docker' cannot be run: no such file"),
        (["--image", "i", "-n", "1", "--docker", ""], "--docker names no command"),
        (["--image", "i", "-n", "1", "--secret", "s"], "--constraint, --secret and --registry-auth are Swarm's"),
        (["--image", "i", "-n", "1", "--engine", "process"], "the engine process runs no image"),
        (["--image", "i", "-n", "1", "--engine", "kubernetes"], "prints a manifest, and nothing else does"),
        (
            ["--image", "i", "-n", "1", "--engine", "swarm", "--publish", "10.0.0.1"],
            "leave --recycle-after and --publish out",
        ),
        (["--env", "office", "-n", "1", "--engine", "docker"], "the engine docker runs an image; name it with --image"),
        (["--scale", "x", "many"], "'many' is not a number of containers"),
        (["--scale", "x", "0"], "a pool of 0 has no container; scale it to at least 1"),
    ],
)
def test_what_cannot_work_is_one_line_and_exit_code_2(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything starts."""
    monkeypatch.delenv("NO_TOKEN", raising=False)
    assert main(["pool", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert message in line


def test_an_unknown_pool_is_told_with_those_that_are_known(
    docker: DockerFake, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line each for stop, attach and scale."""
    docker.do("run", "--name", "a", "--label", "miroir.pool=known", "--label", "miroir.owner=", "i", "well")
    command = ["--docker", shlex.join(docker.command)]
    for words in (["--stop", "x"], ["--attach", "x"], ["--scale", "x", "2"]):
        assert main(["pool", *words, *command]) == 2
        assert "no pool x is on this Docker; there are known" in capsys.readouterr().err
    assert main(["pool", "--attach", "known", *command]) == 2
    assert "the pool known was not started by `miroir pool`" in capsys.readouterr().err
    assert main(["pool", "--scale", "known", "2", *command]) == 2
    assert "is not of the engine swarm, which alone scales" in capsys.readouterr().err
