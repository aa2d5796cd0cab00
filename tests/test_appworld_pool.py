"""A pool of AppWorld servers, as containers of a fake Docker and as processes. R<n> are in the table."""

from __future__ import annotations

import dataclasses
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests
from appworldhome import SERVER, data_root, docker_on_path, fake_python
from dockerfake import DockerFake
from ports import listens
from processes import alive, children, until

import miroir.appworld
from miroir.appworld import (
    CONTAINER_NAME_PREFIX,
    DEFAULT_IMAGE,
    DEFAULT_PORT_BASE,
    AppWorldError,
    AppWorldPool,
    ContainerPoolError,
    container_args_for_port,
)
from miroir.appworld import session as session_module
from miroir.errors import InvalidArgument, MiroirError

Maker = Callable[..., AppWorldPool]


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DockerFake]:
    """A fake Docker on the path, whose containers are fake AppWorld servers."""
    fake = DockerFake(tmp_path / "docker")
    monkeypatch.setenv("PATH", docker_on_path(tmp_path, fake.command, [sys.executable, str(SERVER)]))
    yield fake
    fake.close()


@pytest.fixture
def make(request: pytest.FixtureRequest, tmp_path: Path, base: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Maker]:
    """Make a pool of processes, or of containers where a test asks for them; it is stopped after the test."""
    engine = getattr(request, "param", "process")
    monkeypatch.setattr("miroir.pool.portpool.POLL_S", 0.05)
    if engine == "docker":
        request.getfixturevalue("docker")
    python = None if engine == "docker" else fake_python(tmp_path / "interpreter")
    made: list[AppWorldPool] = []

    def make(**options: object) -> AppWorldPool:
        given = {"size": 1, "port_base": base, "outputs_dir": tmp_path / "outputs", "startup_timeout_s": 30.0}
        if not (tmp_path / "root").exists():
            data_root(tmp_path / "root")
        made.append(AppWorldPool(**{"data_root": tmp_path / "root", **given, "python": python, **options}))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for pool in made:
        pool.stop()


on_both = pytest.mark.parametrize("make", ["docker", "process"], indirect=True)


def server_pid(port: int) -> int:
    """The process that listens on the port."""
    table = Path("/proc/net/tcp").read_text().splitlines()[1:]
    inodes = {
        f"socket:[{row.split()[9]}]"
        for row in table
        if row.split()[1].endswith(f":{port:04X}") and row.split()[3] == "0A"
    }
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if any(str(entry.readlink()) in inodes for entry in (process / "fd").iterdir()):
                return int(process.name)
        except OSError:
            continue
    raise AssertionError(f"nobody listens on {port}")


# What it is, before it starts


def test_the_public_names_are_these() -> None:
    """R5: and all of them are there."""
    assert set(miroir.appworld.__all__) >= {
        "AppWorldError", "AppWorldPool", "AppWorldSession", "CONTAINER_NAME_PREFIX", "ContainerPool",
        "ContainerPoolError", "DEFAULT_IMAGE", "DEFAULT_PORT_BASE", "Mount", "TaskScore", "container_args_for_port",
    }  # fmt: skip
    assert all(hasattr(miroir.appworld, name) for name in miroir.appworld.__all__)
    for kind in (AppWorldError, ContainerPoolError):
        assert issubclass(kind, MiroirError)
        assert issubclass(kind, RuntimeError)


def test_appworld_is_never_imported() -> None:
    """R2: neither by the library nor by the gateway, nor does either load asyncio for itself."""
    code = (
        "import sys, miroir.appworld, miroir.envs.appworld; print('appworld' in sys.modules, 'pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["False", "False"]


def test_constants_and_defaults_are_these(tmp_path: Path) -> None:
    """R6, R7, R8, R11: the image is rolling, and what is Miroir's own carries its name."""
    pool = AppWorldPool(data_root=tmp_path, size=3)

    assert DEFAULT_IMAGE == "ghcr.io/stonybrooknlp/appworld:latest"
    assert (DEFAULT_PORT_BASE, CONTAINER_NAME_PREFIX) == (8200, "miroir-appworld")
    assert pool.ports == (8200, 8201, 8202)
    assert pool.outputs_dir.name == "miroir-appworld"
    assert dataclasses.asdict(pool._settings) == {
        "experiment_name": "miroir",
        "max_interactions": 40,
        "execution_timeout_s": 100,
        "extra": {},
    }
    assert pool._servers._startup_timeout_s == 180.0


def test_the_arguments_of_a_container_are_a_function_of_its_port() -> None:
    """R35: as the image's entrypoint takes them; no Docker is needed to know them."""
    assert container_args_for_port(8207) == ["environment", "--port", "8207", "--no-show-usage"]


def test_making_a_pool_starts_nothing(make: Maker, base: int) -> None:
    """R17, R21, R58: no server, no folder; the ports are known."""
    pool = make(size=2)

    assert pool.ports == (base, base + 1)
    assert not pool.outputs_dir.exists()
    assert not listens(base)
    assert children(os.getpid()) == []


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"size": 0}, "a pool of size 0 has no container"),
        ({"port_base": 80}, "the ports 80 to 80 are not all from 1024 to 65535"),
        ({"port_base": 65535, "size": 2}, "the ports 65535 to 65536 are not all from 1024 to 65535"),
        ({"startup_timeout_s": 0}, "startup_timeout_s is 0"),
        ({"max_interactions": 0}, "max_interactions and execution_timeout_s must be above 0"),
        ({"execution_timeout_s": float("nan")}, "max_interactions and execution_timeout_s must be above 0"),
        ({"extra_init_params": {"x": {1}}}, "extra_init_params are not JSON"),
        ({"extra_init_params": {"x": float("inf")}}, "extra_init_params are not JSON"),
        ({"python": "/no/such/python"}, "'/no/such/python' is no program that can be run"),
    ],
)
def test_bad_arguments_are_refused_when_the_pool_is_made(make: Maker, options: dict[str, object], why: str) -> None:
    """R18, R19, R20: each a ValueError, before anything starts."""
    with pytest.raises(ValueError, match=why):
        make(**options)


# Start and stop


@on_both
def test_a_container_sees_the_data_read_only_and_the_outputs(make: Maker, request: pytest.FixtureRequest) -> None:
    """R10, R16: two mounts and no other; a process sees the same by links."""
    with make() as pool:
        if "docker" in request.node.callspec.params.values():
            (run,) = request.getfixturevalue("docker").calls("run")
            mounts = [run[index + 1] for index, word in enumerate(run) if word == "-v"]
            data = pool._data.data
            assert mounts == [f"{data}:/run/data:ro", f"{pool.outputs_dir}:/run/experiments/outputs:rw"]
        root = Path(f"/proc/{server_pid(pool.ports[0])}/cwd").readlink()
        assert (root / "data").resolve() == pool._data.data
        assert (root / "experiments" / "outputs").resolve() == pool.outputs_dir


def test_outputs_are_kept(make: Maker, tmp_path: Path) -> None:
    """R61, R66: the folder is made at start, with its parents, and is never removed."""
    with make(outputs_dir=tmp_path / "a" / "b") as pool:
        assert pool.outputs_dir == tmp_path / "a" / "b"
        (pool.outputs_dir / "kept").touch()

    assert (tmp_path / "a" / "b" / "kept").exists()


def test_outputs_that_cannot_be_a_folder_are_refused(make: Maker, tmp_path: Path) -> None:
    """Before anything starts."""
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgument, match="file/x is no folder for outputs"):
        make(outputs_dir=tmp_path / "file" / "x").start()


def test_a_missing_data_root_is_told_before_anything_starts(make: Maker, base: int, tmp_path: Path) -> None:
    """R60: with what fills it."""
    with pytest.raises(FileNotFoundError, match="appworld install && appworld download data --root"):
        make(data_root=tmp_path / "nowhere").start()

    assert not listens(base)
    assert not (tmp_path / "outputs").exists()


def test_a_pool_starts_once(make: Maker) -> None:
    """R23, R59, R64, R65: a second start changes nothing; one after stop, and a session too soon, are told apart."""
    pool = make()
    with pytest.raises(AppWorldError, match="the pool is not started; call start"), pool.session("toy_1"):
        pytest.fail("it opened")
    with pool:
        with pytest.raises(AppWorldError, match="the pool was already started"):
            pool.start()
        with pool.session("toy_1") as session:
            assert session.execute("print 2") == "2"
    pool.stop()
    with pytest.raises(ContainerPoolError, match="the pool was stopped; make a new pool"):
        pool.start()
    with pytest.raises(ContainerPoolError, match="the pool was stopped; make a new pool"), pool.session("toy_1"):
        pytest.fail("it opened")


@on_both
def test_a_start_that_fails_leaves_nothing(
    make: Maker, base: int, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """R28, R33, R37, R63: the error has the server's log; the pool is not started, and may be started again."""
    monkeypatch.setenv("FAKE_APPWORLD", f"fail {base + 1}")
    pool = make(size=2)
    with pytest.raises(ContainerPoolError, match="error while starting: it ended with exit code ") as caught:
        pool.start()
    assert "AppWorld is not fully installed" in caught.value.message
    assert not listens(base)
    with pytest.raises(AppWorldError, match="the pool is not started"), pool.session("toy_1"):
        pytest.fail("it opened")

    monkeypatch.delenv("FAKE_APPWORLD")
    with pool, pool.session("toy_1") as session:
        assert session.execute("print 2") == "2"
    assert children(os.getpid()) == []


def test_a_server_that_never_listens_is_given_up(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """R38, R43: after the time limit, which the error names."""
    monkeypatch.setenv("FAKE_APPWORLD", "never")
    with pytest.raises(ContainerPoolError, match=r"not ready \(timeout\), within 1 s"):
        make(startup_timeout_s=1.0).start()


@on_both
def test_one_that_dies_while_it_starts_is_not_waited_for(
    make: Maker, monkeypatch: pytest.MonkeyPatch, base: int
) -> None:
    """R37: killed in the midst, it is told at once, far before the time limit."""
    monkeypatch.setenv("FAKE_APPWORLD", "never")
    pool = make(startup_timeout_s=600.0)
    errors: list[BaseException] = []

    def start() -> None:
        try:
            pool.start()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    assert until(lambda: _waiting(pool, base))
    os.kill(_waiting(pool, base), signal.SIGKILL)
    thread.join(20)
    (error,) = errors
    assert isinstance(error, ContainerPoolError)
    assert "SIGKILL" in str(error) or "exit code 137" in str(error)


def _waiting(pool: AppWorldPool, port: int) -> int:
    """The process that is to listen on the port, 0 before there is one."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if {b"environment", str(port).encode()} <= {*words} and b"run" not in words:
            return int(entry.parent.name)
    return 0


@on_both
def test_a_port_of_someone_else_is_not_ours(make: Maker, base: int, request: pytest.FixtureRequest) -> None:
    """R9: however it answers there, the start fails, and the other server is left alone."""
    if request.node.callspec.params["make"] == "docker":
        request.getfixturevalue("docker").take(base)  # Docker itself sees that the port is taken
    argv = [sys.executable, str(SERVER), "environment", "--port", str(base)]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as foreign:
        try:
            assert until(lambda: listens(base))
            with pytest.raises(ContainerPoolError, match=r"cannot be had|already allocated"):
                make().start()
            assert requests.get(f"http://127.0.0.1:{base}/", timeout=5).status_code == 200
        finally:
            foreign.kill()


def test_servers_end_with_the_process_that_started_them(tmp_path: Path, base: int) -> None:
    """However it ends: killed, too."""
    data_root(tmp_path / "root")
    code = (
        "import sys, time; from miroir.appworld import AppWorldPool\n"
        f"AppWorldPool(data_root={str(tmp_path / 'root')!r}, size=1, port_base={base}, startup_timeout_s=30,"
        f" outputs_dir={str(tmp_path / 'out')!r}, python={fake_python(tmp_path / 'interpreter')!r}).start()\n"
        "print('started', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "started\n"
        pid = server_pid(base)
        owner.kill()
    assert until(lambda: not alive(pid), 10.0)


# Sessions


@on_both
def test_sessions_have_a_server_each(make: Maker) -> None:
    """R3, R42, R69, R79: nine sessions of three threads over two servers, right and wrong, each alone on its own."""
    lock, busy, scores = threading.Lock(), set(), []

    def play(pool: AppWorldPool, number: int) -> None:
        for answer in ("right", "wrong", "right"):
            with pool.session(f"toy_{1 + number % 2}") as session:
                with lock:
                    assert session.base_url not in busy
                    busy.add(session.base_url)
                session.execute(f"complete {answer}")
                score = session.evaluate()
                with lock:
                    scores.append((answer, score.success))
                    busy.discard(session.base_url)

    with make(size=2) as pool:
        threads = [threading.Thread(target=play, args=(pool, number)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert sorted(scores) == [("right", True)] * 6 + [("wrong", False)] * 3


def test_ids_are_listed_without_a_start(make: Maker) -> None:
    """R68: a local file is read, and nothing else."""
    assert make().list_task_ids("dev") == ["toy_2", "toy_1"]


def test_proxies_are_ignored(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """R41: a dead one in the environment changes nothing, at the start and in sessions."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with make() as pool, pool.session("toy_1") as session:
        assert session.execute("print 2") == "2"


@on_both
def test_a_server_that_dies_is_replaced_before_anyone_gets_it(make: Maker, caplog: pytest.LogCaptureFixture) -> None:
    """R91: its own session has an AppWorldError; the next one has a new server on the same port; the other is well."""
    with make(size=2) as pool:
        with pool.session("toy_1") as other:
            before = server_pid(int(other.base_url.rpartition(":")[2]))
            with pytest.raises(AppWorldError, match="/execute did not complete"), pool.session("toy_1") as session:
                port = int(session.base_url.rpartition(":")[2])
                dead = server_pid(port)
                session.execute("abort")
            assert other.execute("print 2") == "2"
            assert server_pid(int(other.base_url.rpartition(":")[2])) == before
            with pool.session("toy_1") as session:
                assert session.base_url.endswith(f":{port}")
                assert session.execute("print 3") == "3"
            assert server_pid(port) != dead
    assert f"the AppWorld server on port {port} is replaced: /execute did not complete" in caplog.text


def test_a_server_that_died_while_free_harms_no_session(make: Maker, base: int) -> None:
    """Nobody is handed a corpse."""
    with make() as pool:
        os.kill(server_pid(base), signal.SIGKILL)
        assert until(lambda: not listens(base))
        with pool.session("toy_1") as session:
            assert session.execute("print 2") == "2"


@on_both
def test_a_server_that_hangs_is_killed_and_replaced(make: Maker, monkeypatch: pytest.MonkeyPatch, base: int) -> None:
    """R62, R96: the error comes soon after the deadline of the call, and SIGTERM, which it ignores, is not asked."""
    monkeypatch.setattr(session_module, "HTTP_MARGIN_S", 0.5)
    monkeypatch.setattr(session_module, "_LOST_CLOSE_TIMEOUT_S", 0.2)
    with make(execution_timeout_s=0.5) as pool:
        hung = server_pid(base)
        with pytest.raises(AppWorldError, match=r"/execute did not complete: .* timed out"):
            with pool.session("toy_1") as session:
                session.execute("hang")
        assert not alive(hung)
        with pool.session("toy_1") as session:
            assert session.execute("print 2") == "2"


def test_a_wedged_server_is_out_before_its_third_failure(
    make: Maker, caplog: pytest.LogCaptureFixture, base: int
) -> None:
    """R97, R98, R99: the first close that fails is logged and not raised, and takes that server out, and no other."""
    with make(size=2) as pool:
        with pool.session("toy_1") as session:
            session.execute("wedge")
            wedged = server_pid(int(session.base_url.rpartition(":")[2]))
        assert not alive(wedged)
        (error,) = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert error.getMessage().startswith(f"the world of toy_1 at {session.base_url} was not closed: /close")
        for _ in range(4):
            with pool.session("toy_2") as session:
                assert session.execute("print 2") == "2"


def test_a_server_that_a_session_has_poisoned_harms_no_other(make: Maker, base: int) -> None:
    """Its close succeeds, and only the next world shows it: that is opened on a new server."""
    with make() as pool:
        before = server_pid(base)
        with pytest.raises(AppWorldError, match="/execute answered 500"), pool.session("toy_1") as session:
            session.execute("poison")
        assert server_pid(base) == before
        with pool.session("toy_2") as session:
            assert session.execute("print 2") == "2"
        assert server_pid(base) != before


@on_both
def test_an_unknown_task_costs_no_server(make: Maker, base: int) -> None:
    """R71: the error shows the server's log, a close is sent, and the server stays."""
    with make() as pool:
        before = server_pid(base)
        for _ in range(3):
            with pytest.raises(AppWorldError, match=r"The task directory \(./data/tasks/nope_1\) doesn't exist"):
                with pool.session("nope_1"):
                    pytest.fail("it opened")
        assert server_pid(base) == before


def test_a_server_that_cannot_be_replaced_is_leased_no_more(
    make: Maker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, base: int
) -> None:
    """R102: with the last one gone whoever waits or comes has a ContainerPoolError."""
    with make() as pool:
        monkeypatch.setenv("FAKE_APPWORLD", "fail")
        with pytest.raises(AppWorldError, match="/execute did not complete"), pool.session("toy_1") as session:
            session.execute("abort")
        with pytest.raises(ContainerPoolError, match="every container of the pool is out of order"):
            with pool.session("toy_1"):
                pytest.fail("it opened")
    assert f"the AppWorld server on port {base} is leased no more" in caplog.text


def test_stop_wakes_who_waits_and_cuts_who_plays(make: Maker, caplog: pytest.LogCaptureFixture) -> None:
    """R46, R47, R50: the waiter has a ContainerPoolError at once; sessions in flight fail; their number is logged."""
    outcome: list[BaseException] = []

    def wait() -> None:
        try:
            with pool.session("toy_1"):
                pass
        except BaseException as error:
            outcome.append(error)

    pool = make()
    pool.start()
    with pytest.raises(AppWorldError, match="/execute did not complete"), pool.session("toy_1") as session:
        thread = threading.Thread(target=wait)
        thread.start()
        assert until(lambda: pool._servers._line._waiters)
        pool.stop()
        thread.join(10)
        assert isinstance(outcome[0], ContainerPoolError)
        session.execute("print 2")
    assert "the pool stops with 1 leases in use; their requests will fail" in caplog.text
    assert "is replaced" not in caplog.text


def test_an_interrupt_in_a_session_gives_the_server_back(make: Maker) -> None:
    """R51, R95, R100: Ctrl-C passes through as it is, after the close."""
    with make() as pool:
        with pytest.raises(KeyboardInterrupt), pool.session("toy_1"):
            raise KeyboardInterrupt
        with pool.session("toy_1") as session:
            assert session.execute("print 2") == "2"


def test_an_interpreter_that_cannot_run_is_named(tmp_path: Path, base: int) -> None:
    """It is there, and what it would be run by is not."""
    python = tmp_path / "python"
    python.write_text("#!/nowhere/python\n")
    python.chmod(0o755)
    root, out = data_root(tmp_path / "root"), tmp_path / "out"
    pool = AppWorldPool(data_root=root, size=1, port_base=base, python=str(python), outputs_dir=out)
    with pytest.raises(ContainerPoolError, match=f"could not be started: .*; see that {python} can be run"):
        pool.start()


def test_a_log_of_a_process_is_kept_in_bounds(tmp_path: Path, base: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that prints for days fills no disk."""
    monkeypatch.setattr("miroir.pool.logfile.MAX_BYTES", 10)
    python = fake_python(tmp_path / "interpreter")
    with AppWorldPool(
        data_root=data_root(tmp_path / "root"), size=1, port_base=base, python=python, outputs_dir=tmp_path / "out"
    ) as pool:
        log = Path(f"/proc/{server_pid(base)}/fd/1").readlink()
        assert log.stat().st_size > 10
        monkeypatch.setattr("miroir.pool.logfile.KEPT_BYTES", 5)
        with pool.session("toy_1"):
            assert log.stat().st_size < 10
