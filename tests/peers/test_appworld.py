"""The real AppWorld server, in a process and behind a `docker`, by the library: what it does, and how it breaks."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests
from appworldhome import docker_on_path
from dockerfake import DockerFake
from peers.appworld_home import TASKS, data_root, environment, python
from processes import until

from miroir.appworld import AppWorldError, AppWorldPool, AppWorldSession, ContainerPoolError
from miroir.appworld import session as session_module

pytestmark = pytest.mark.peers

T1, T2, _ = TASKS
SWALLOWED = "i = 0\nwhile True:\n  try:\n    while True:\n      i += 1\n  except BaseException:\n    j = 1"


@pytest.fixture(autouse=True, scope="module")
def _environment() -> Iterator[None]:
    """Servers write to no home folder."""
    before = os.environ.get("APPWORLD_CACHE")
    os.environ["APPWORLD_CACHE"] = environment()["APPWORLD_CACHE"]
    yield
    os.environ.pop("APPWORLD_CACHE")
    if before is not None:
        os.environ["APPWORLD_CACHE"] = before


def make(folder: Path, port_base: int, **options: object) -> AppWorldPool:
    """A pool of real servers."""
    given = {"size": 1, "python": python(), "execution_timeout_s": 20.0, "outputs_dir": folder / "outputs"}
    return AppWorldPool(data_root=data_root(), port_base=port_base, **{**given, **options})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppWorldPool]:
    """Two servers, for what breaks none."""
    with make(tmp_path_factory.mktemp("appworld"), 17810, size=2) as made:
        yield made


@pytest.fixture
def own(tmp_path: Path) -> Iterator[AppWorldPool]:
    """Two servers of the test's own, both with their first world behind them."""
    with make(tmp_path, 17820, size=2, execution_timeout_s=1.0) as made:
        in_threads([lambda: solved(made, T1) for _ in range(2)])
        yield made


def solve(session: AppWorldSession, *, wrong: int = 0) -> bool:
    """Play a toy task to its end, in several executions; whether it is solved."""
    session.execute(f"number = {session.instruction.split()[2]}")
    assert session.execute("print(number + 1)") == f"{int(session.instruction.split()[2]) + 1}\n"
    assert not session.is_done()
    session.execute(f"apis.supervisor.complete_task(answer=number + 1 + {wrong})")
    assert session.is_done()
    assert session.n_executions == 3
    return session.evaluate().success


def solved(pool: AppWorldPool, task_id: str, *, wrong: int = 0) -> bool:
    """The same in a session of its own."""
    with pool.session(task_id) as session:
        return solve(session, wrong=wrong)


def in_threads(calls: list[Callable[[], object]]) -> list[object]:
    """What the calls return, made at once; the first error is raised."""
    outcomes: list[object] = [None] * len(calls)

    def run(index: int) -> None:
        try:
            outcomes[index] = calls[index]()
        except BaseException as error:
            outcomes[index] = error

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return outcomes


def server_pid(port: int) -> int:
    """The process whose command line has the port."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if {b"serve", b"environment", str(port).encode()} <= {*words}:
            return int(entry.parent.name)
    return 0


def test_t1_sessions_share_servers_and_are_scored(pool: AppWorldPool) -> None:
    """R83: nine sessions of nine threads over two servers, right and wrong; variables live on between executions."""
    wrongs = [0, 1, 0, 0, 1, 0, 1, 0, 0]
    calls = [lambda n=n, wrong=wrong: solved(pool, TASKS[n % 3], wrong=wrong) for n, wrong in enumerate(wrongs)]

    assert in_threads(calls) == [not wrong for wrong in wrongs]  # type: ignore[arg-type]


def test_what_a_session_tells(pool: AppWorldPool) -> None:
    """Instruction, supervisor and the world's own time; requirements with their labels; errors of code as text."""
    with pool.session(T1) as session:
        assert session.instruction == "What is 1 + 1? Complete the task with the number."
        assert session.supervisor["email"] == "ada1@example.com"
        assert session.datetime == "2023-05-18T12:00:00"
        assert session.execute("1 / 0").startswith("Execution failed. Traceback:")
        assert session.execute("import os\nos.system('true')").startswith("Execution failed. Traceback:")
        assert session.execute("x = (").startswith("Execution failed. Traceback:\nSyntax error")
        assert len(session.execute("print('x' * 3_000_000)")) == 3_000_001
        requirements = session.evaluate().requirements()
    assert [(each.text, each.label, each.passed) for each in requirements] == [
        ("no note was added", "no_op_pass", True),
        ("the answer matches the private number", "no_op_fail", False),
    ]


def test_t4_a_lone_surrogate_poisons_its_own_session_alone(pool: AppWorldPool) -> None:
    """Every later execution of that world fails, and nothing after it; the server is kept."""
    before = [server_pid(port) for port in pool.ports]
    for _ in pool.ports:
        with pool.session(T1) as session:
            for code in ("print('\\ud800')", "print(1)"):
                with pytest.raises(AppWorldError, match=r"/execute answered 500: .*\n(.*\n)*.*UnicodeEncodeError"):
                    session.execute(code)
    assert [solved(pool, T1) for _ in pool.ports] == [True, True]
    assert [server_pid(port) for port in pool.ports] == before


def test_t5_sessions_on_one_task_do_not_meet(pool: AppWorldPool) -> None:
    """Fifty of them, two at a time: none fails, and each has a folder of its own."""
    before = {path.name for path in pool.outputs_dir.iterdir()}
    calls = [lambda: [solved(pool, T1) for _ in range(25)] for _ in pool.ports]

    assert in_threads(calls) == [[True] * 25] * 2  # type: ignore[arg-type]
    assert len({path.name for path in pool.outputs_dir.iterdir()} - before) == 50


def test_t6_a_port_of_a_foreign_server_is_not_taken(pool: AppWorldPool, tmp_path: Path) -> None:
    """The start fails at once, and the server that was there goes on."""
    with pytest.raises(ContainerPoolError, match=f"port {pool.ports[0]} cannot be had"):
        make(tmp_path, pool.ports[0]).start()

    assert requests.get(f"http://127.0.0.1:{pool.ports[0]}/", timeout=5).status_code == 200
    assert solved(pool, T1)


def test_t7_a_fault_is_followed_by_a_close_that_succeeds(pool: AppWorldPool, caplog: pytest.LogCaptureFixture) -> None:
    """Twenty times: the connection that the server drops after its 500 is never used again."""
    for _ in range(20):
        with pool.session(T1) as session:
            with pytest.raises(AppWorldError, match="/execute answered 500"):
                session.execute("print('\\ud800')")
    assert caplog.records == []


def test_t8_proxies_are_never_asked(pool: AppWorldPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead one in the environment changes nothing."""
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    assert solved(pool, T2)


def test_t9_an_unknown_task_is_explained_by_the_log(pool: AppWorldPool) -> None:
    """The server's own answer is a bare 500."""
    with pytest.raises(AppWorldError, match=r"The task directory .*nope_1\) doesn't exist"), pool.session("nope_1"):
        pytest.fail("it opened")
    assert solved(pool, T1)


def test_t2_t3_t10_broken_servers_are_replaced(
    own: AppWorldPool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One that dies, one that never returns, two that can open no world any more; the other one plays on."""
    monkeypatch.setattr(session_module, "_LOST_CLOSE_TIMEOUT_S", 0.5)
    with own.session(T2) as other:
        assert other.execute("x = 1") == "Execution successful."
        held = server_pid(int(other.base_url.rpartition(":")[2]))
        with pytest.raises(AppWorldError, match="/execute did not complete"), own.session(T1) as session:
            session.execute("import os\nos.abort()")
        began = time.monotonic()
        with pytest.raises(AppWorldError, match=r"/execute did not complete: .* timed out"):
            with own.session(T1) as session:
                session._server._timeout_s = 3.0  # far beyond the code's own second
                session.execute(SWALLOWED)
        assert time.monotonic() - began < 60.0
        with own.session(T1) as session, pytest.raises(AppWorldError, match="/execute answered 500"):
            session.execute("raise BaseException('b')")  # after it the server refuses itself every file
        with own.session(T1) as session:
            for path, body in (("/save_state", {"state_id": "a"}), ("/load_state", {"state_id": "a"})):
                requests.post(session.base_url + path, json={"task_id": T1, **body}, timeout=30).raise_for_status()
        assert [solved(own, T1) for _ in range(2)] == [True, True]
        assert other.execute("print(x)") == "1\n"
        assert server_pid(int(other.base_url.rpartition(":")[2])) == held
    replaced = [record.getMessage() for record in caplog.records if "is replaced: " in record.getMessage()]
    assert [text.partition("is replaced: ")[2].partition(" ")[0] for text in replaced] == [
        *("/execute", "/execute", "/initialize", "/close"),
    ]


def test_t3_a_server_that_never_returns_does_not_hold_up_the_end(tmp_path: Path) -> None:
    """It ignores SIGTERM: the pool's stop takes no time all the same."""
    took: list[float] = []
    with make(tmp_path, 17830) as pool, pool.session(T1) as session:

        def stop() -> float:
            time.sleep(1.0)
            began = time.monotonic()
            pool.stop()
            return time.monotonic() - began

        with pytest.raises(AppWorldError, match="/execute did not complete"):
            in_threads([lambda: session.execute(SWALLOWED), lambda: took.append(stop())])
    assert took[0] < 5.0


def test_t11_a_server_killed_while_it_starts_is_not_waited_for(tmp_path: Path) -> None:
    """The error says how it ended, far before the time limit, with its log."""
    pool = make(tmp_path, 17840, startup_timeout_s=600.0)

    def kill() -> None:
        assert until(lambda: server_pid(17840))
        os.kill(server_pid(17840), signal.SIGKILL)

    with pytest.raises(ContainerPoolError, match=r"it was killed by SIGKILL, within 600 s; its log:\n"):
        in_threads([pool.start, kill])


def test_t12_stop_wakes_who_waits(tmp_path: Path) -> None:
    """At once, and with an error that says so."""
    pool = make(tmp_path, 17850)

    def wait() -> None:
        with pool.session(T2):
            pytest.fail("it opened")

    def stop() -> None:
        assert until(lambda: pool._servers._line._waiters)
        pool.stop()

    with pool, pool.session(T1), pytest.raises(ContainerPoolError, match="the pool was stopped; make a new pool"):
        in_threads([wait, stop])


def test_containers_are_the_same_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the docker command line: scored, killed and replaced, and removed at the end."""
    docker = DockerFake(tmp_path / "docker")
    program = [python(), "-m", "appworld.cli", "serve"]
    monkeypatch.setenv("PATH", docker_on_path(tmp_path, docker.command, program))
    try:
        with make(tmp_path, 17860, python=None) as pool:
            assert [solved(pool, T1), solved(pool, T1, wrong=1)] == [True, False]
            with pytest.raises(AppWorldError, match="/execute did not complete"), pool.session(T1) as session:
                docker.kill("miroir-appworld-17860")
                session.execute("print(1)")
            assert solved(pool, T1)
        assert docker.containers == {}
    finally:
        docker.close()
    assert sys.modules.get("appworld") is None
