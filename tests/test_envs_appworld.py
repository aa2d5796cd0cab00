"""The gateway `appworld`: tasks, tools, episodes and grades of an AppWorld server behind it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from appworldhome import SERVER, data_root, docker_on_path, fake_python
from appworldserver import BARE, OPENED, FakeAppWorld, Reply, faked
from dockerfake import DockerFake
from processes import alive, children, until

from miroir.appworld.score import TaskScore
from miroir.catalog import tasks as listed
from miroir.catalog import tools as tools_of
from miroir.envs.appworld import AppWorld
from miroir.envs.appworld.grading import graded
from miroir.errors import EnvError, InvalidArgument
from miroir.serve import running
from miroir.session import Session
from miroir.urls import read_urls


@pytest.fixture
def fake() -> Iterator[FakeAppWorld]:
    """An AppWorld server that does as it is told."""
    with faked() as made:
        yield made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A data root."""
    return data_root(tmp_path / "root")


@contextmanager
def gateway(fake: FakeAppWorld, root: Path, **options: Any) -> Iterator[str]:
    """The base URL of a gateway before the fake."""
    with running(lambda: AppWorld(str(root), url=fake.url, **options)) as url:
        yield url


@contextmanager
def episode(fake: FakeAppWorld, root: Path, **options: Any) -> Iterator[Session]:
    """A session on the first task."""
    with gateway(fake, root, **options) as url, Session.lease([url]) as session:
        session.reset("toy_1")
        yield session


def run_code(session: Session, code: str) -> tuple[str, bool]:
    """What the tool shows, and whether the episode is done."""
    step = session.step("execute", {"code": code})
    return step["observation"]["result"]["data"], step["done"]


# What it offers


def test_tasks_come_from_the_split_files(fake: FakeAppWorld, root: Path) -> None:
    """With the instruction, the person, the limit of steps, and a hash; without a call of the server's worlds."""
    with gateway(fake, root, max_interactions=7) as url:
        rows = listed(url, "train")
        assert [row["id"] for row in listed(url, "dev")] == ["toy_2", "toy_1"]

    assert [row["id"] for row in rows] == ["toy_1", "toy_2"]
    assert rows[0] | {"task_hash": ""} == {
        "id": "toy_1",
        "task_hash": "",
        "instruction": "Solve toy_1.",
        "persona": {"name": "Ada Toy", "description": "with the email ada@example.com and the phone number 5550001"},
        "coworkers": [],
        "coworkers_scripted": False,
        "max_steps": 7,
        "split": "train",
        "tags": [],
    }
    assert set(fake.paths()) == {"/"}


def test_a_hash_covers_all_that_decides_an_episode(fake: FakeAppWorld, root: Path) -> None:
    """The world, the grader, the limits and the rule of the reward; two tasks never share one."""
    hashes = []
    for options in ({}, {"reward": "partial"}, {"max_interactions": 7}, {"execution_timeout_s": 3.0}, {}):
        with gateway(fake, root, **options) as url:
            hashes += [row["task_hash"] for row in listed(url, "train")]

    assert hashes[:2] == hashes[-2:]
    assert len(set(hashes)) == 8


def test_tools_are_execute_and_submit(fake: FakeAppWorld, root: Path) -> None:
    """On the surface `code`, the only one."""
    with gateway(fake, root) as url:
        assert [tool["name"] for tool in tools_of(url)] == ["execute", "submit"]
        assert tools_of(url, surface="code") == tools_of(url)


# Episodes


def test_an_episode_is_a_world(fake: FakeAppWorld, root: Path) -> None:
    """Reset opens it, execute runs code, complete_task ends it, and AppWorld's evaluation is the grade."""
    with gateway(fake, root) as url, Session.lease([url]) as session:
        observation = session.reset("toy_1")
        shown = [run_code(session, "print 2"), run_code(session, "complete right")]
        graded = session.finish()
        session.reset("toy_2")

    assert observation["supervisor"] == OPENED["supervisor"]
    assert observation["now"] == "2023-05-18T12:00:00"
    assert shown == [("2", False), ("Execution successful.", True)]
    assert (graded["reward"], graded["success"]) == (1.0, True)
    metadata = graded["record"]["metadata"]
    assert metadata["ended_by"] == "done"
    assert [(check["name"], check["passed"], check["detail"]) for check in metadata["checks"]] == [
        ("no note was added", True, "no_op_pass"),
        ("the answer is right", True, "no_op_fail"),
    ]
    assert graded["record"]["diagnostics"]["executions"] == 2
    assert graded["record"]["env"] == {"name": "appworld", "version": "1"}
    assert [body["task_id"] for body in fake.bodies("/close")] == ["toy_1", "toy_2"]


def test_an_episode_that_is_submitted_is_graded_as_it_stands(fake: FakeAppWorld, root: Path) -> None:
    """A failed requirement shows its trace."""
    with episode(fake, root) as session:
        run_code(session, "print 2")
        graded = session.finish()

    assert (graded["reward"], graded["success"]) == (0.0, False)
    assert graded["record"]["metadata"]["ended_by"] == "submit"
    assert graded["record"]["metadata"]["checks"][1] == {
        "name": "the answer is right",
        "passed": False,
        "detail": "no_op_fail: AssertionError: 3 is not 2",
    }


def test_code_that_fails_is_the_models_error(fake: FakeAppWorld, root: Path) -> None:
    """It is counted as a tool's error, and the episode goes on; so are arguments that are no text."""
    with episode(fake, root) as session:
        fake.say("/execute", Reply({"output": "Execution failed. Traceback:\nZeroDivisionError"}))
        step = session.step("execute", {"code": "1/0"})
        assert step["observation"]["result"]["is_error"]
        assert session.step("execute", {"code": 5})["observation"]["error"]["error_type"] == "invalid_args"
        run_code(session, "complete right")
        graded = session.finish()

    assert graded["reward"] == 1.0
    assert graded["record"]["diagnostics"]["tool_errors"] == 2


def test_output_is_capped(fake: FakeAppWorld, root: Path) -> None:
    """What is left out is counted."""
    with episode(fake, root, max_output=10) as session:
        assert run_code(session, "print " + "x" * 10) == ("x" * 10, False)
        assert run_code(session, "print " + "x" * 25) == ("x" * 10 + "\n[15 more characters were printed]", False)


def test_a_failing_server_makes_the_episode_void(fake: FakeAppWorld, root: Path) -> None:
    """Never a reward of zero; the reason holds what the server said; the next episode is well."""
    with episode(fake, root) as session:
        with pytest.raises(EnvError, match="/execute answered 500: Internal Server Error"):
            session.step("execute", {"code": "fault"})
        record = session.finish()["record"]
        assert (record["reward"], record["metadata"]["ended_by"]) == (None, "env_error")
        assert "/execute answered 500" in record["metadata"]["void_reason"]
        session.reset("toy_1")
        assert run_code(session, "print 2") == ("2", False)


@pytest.mark.parametrize(
    "reply", [Reply(BARE.encode(), 500), Reply({"output": {"passes": []}}), Reply({"output": {"success": True}})]
)
def test_a_score_that_cannot_be_read_makes_the_episode_void(fake: FakeAppWorld, root: Path, reply: Reply) -> None:
    """A fault, no verdict, no requirements."""
    with episode(fake, root) as session:
        fake.say("/evaluate", reply)
        record = session.finish()["record"]

    assert record["reward"] is None
    assert record["metadata"]["void_reason"].startswith("grading failed: ")
    assert "/evaluate" in record["metadata"]["void_reason"]


def test_a_world_that_does_not_open_is_a_failed_reset(fake: FakeAppWorld, root: Path) -> None:
    """The client may try another container; the world is closed all the same."""
    with gateway(fake, root) as url, Session.lease([url]) as session:
        fake.say("/initialize", Reply({"output": {}}))
        with pytest.raises(EnvError, match=r"reset failed: .*/initialize answered no instruction"):
            session.reset("toy_1")
        session.reset("toy_1")

    assert fake.paths().count("/close") == 2


def test_a_server_that_went_away_fails_the_reset(fake: FakeAppWorld, root: Path) -> None:
    """One that somebody else runs is nobody's to restart; when it is back, so is the gateway."""
    with gateway(fake, root) as url, Session.lease([url]) as session:
        fake.say("/", Reply(drop=True), Reply(b"", 503))
        with pytest.raises(EnvError, match="no AppWorld server answers"):
            session.reset("toy_1")
        with pytest.raises(EnvError, match="/ answered 503; is it an AppWorld environment server"):
            session.reset("toy_1")
        session.reset("toy_1")


# Grades


def score(passes: list[str], failures: list[str], success: bool = False) -> TaskScore:
    """A score with requirements of these labels."""
    detail = {
        "success": success,
        "passes": [{"requirement": f"r{n}", "label": label} for n, label in enumerate(passes)],
        "failures": [{"requirement": f"f{n}", "label": label, "trace": "t"} for n, label in enumerate(failures)],
    }
    return TaskScore("t", success, 3, detail)


@pytest.mark.parametrize(
    ("passes", "failures", "success", "partial"),
    [
        (["no_op_fail", "no_op_pass"], [], True, 1.0),
        (["no_op_pass", "no_op_pass"], ["no_op_fail"], False, 0.0),
        (["no_op_fail", "no_op_pass"], ["no_op_fail"], False, 0.5),
        (["no_op_fail"], ["no_op_pass"], False, 1.0),
        (["no_op_pass"], [], True, 1.0),
        ([], ["no_op_pass"], False, 0.0),
        ([], [], False, 0.0),
    ],
)
def test_the_reward_is_success_or_the_share_of_what_was_done(
    passes: list[str], failures: list[str], success: bool, partial: float
) -> None:
    """What doing nothing meets counts for no share."""
    scored = score(passes, failures, success)

    assert graded(scored, "success").reward == float(success)
    assert graded(scored, "partial").reward == partial
    assert graded(scored, "partial").success is success


def test_what_doing_nothing_would_have_left_whole_is_harm() -> None:
    """A failed requirement that AppWorld labels no_op_pass is damage; one that asks for something is not."""
    assert [harm.name for harm in graded(score([], ["no_op_fail", "no_op_pass"]), "success").harms] == ["f1"]
    assert not graded(score(["no_op_pass"], ["no_op_fail"]), "success").harms


# Options


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"reward": "half"}, "--reward 'half' is no rule; write success or partial"),
        ({"max_output": 0}, "must be above 0"),
        ({"execution_timeout_s": -1.0}, "must be above 0"),
        ({"engine": "swarm"}, "--engine 'swarm' runs no AppWorld server; write docker or process"),
        ({"engine": "process"}, "which interpreter has appworld\\? name it with --python"),
        ({"engine": "docker", "python": "python3"}, "--python names an interpreter for --engine process"),
        ({"url": "http://127.0.0.1:1", "python": "python3"}, "--url names a server that runs"),
        ({"url": "ftp://host"}, "'ftp://host' is no base URL of an AppWorld server"),
        ({"python": "/no/such"}, "'/no/such' is no program that can be run"),
    ],
)
def test_options_that_cannot_work_are_refused(root: Path, options: dict[str, Any], why: str) -> None:
    """Before anything starts."""
    with pytest.raises(InvalidArgument, match=why):
        AppWorld(str(root), **options)


# Servers of its own


@contextmanager
def pooled(*words: str, env: dict[str, str], urls: Path) -> Iterator[subprocess.Popen[str]]:
    """`miroir pool` with these words, once its URL file is there or it has ended."""
    argv = [sys.executable, "-m", "miroir", "pool", "--env", "appworld", *words, "--urls", str(urls)]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, env={**os.environ, **env}) as process:
        try:
            assert until(lambda: urls.exists() or process.poll() is not None, 60.0)
            yield process
        finally:
            process.terminate()
            process.wait(30)


def play_all(urls: Path, out: Path) -> list[dict[str, Any]]:
    """The records of `miroir run` with an agent that solves its first trials."""
    argv = [sys.executable, "-m", "miroir", "run", str(urls), "--out", str(out), "-k", "2"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(
        [*argv, "--agent", "appworldagent:solves"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for file in out.glob("*.jsonl") for line in file.read_text().splitlines()]


Words = Callable[[], list[str]]


def _graded_by_a_pool(words: list[str], env: dict[str, str], folder: Path) -> None:
    with pooled(*words, "-n", "2", env=env, urls=folder / "urls.txt") as process:
        assert len(read_urls(folder / "urls.txt")) == 2
        records = play_all(folder / "urls.txt", folder / "out")
        servers = [pid for gateway in children(process.pid) for pid in children(gateway)]
    assert sorted((record["trial"], record["reward"]) for record in records) == [(0, 1.0)] * 2 + [(1, 0.0)] * 2
    assert process.returncode == 0
    assert not any(map(alive, servers))


def test_a_pool_of_gateways_over_processes(tmp_path: Path, root: Path) -> None:
    """Each starts a server of its own, and all are gone at the end, as are their temporary folders."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    python = fake_python(tmp_path / "interpreter")
    words = ["--data-root", str(root), "--engine", "process", "--python", python]
    _graded_by_a_pool(words, {"TMPDIR": str(folder)}, tmp_path)
    assert list(folder.iterdir()) == []


def test_a_pool_of_gateways_over_containers(tmp_path: Path, root: Path) -> None:
    """The engine of the pool's command line is that of the AppWorld servers; no container is left."""
    docker = DockerFake(tmp_path / "docker")
    path = docker_on_path(tmp_path, docker.command, [sys.executable, str(SERVER)])
    try:
        _graded_by_a_pool(["--data-root", str(root), "--engine", "docker"], {"PATH": path}, tmp_path)
        assert docker.containers == {}
        assert len(docker.calls("run")) == 2
    finally:
        docker.close()


def test_a_pool_without_data_says_so(tmp_path: Path) -> None:
    """One line, exit code 2, nothing left."""
    words = ["--data-root", str(tmp_path / "nowhere"), "--python", sys.executable, "-n", "1"]
    with pooled(*words, env={}, urls=tmp_path / "urls.txt") as process:
        assert process.wait(30) == 2
        assert process.stderr is not None
        assert "appworld download data --root" in process.stderr.read()


def test_a_gateway_that_is_killed_takes_its_server_along(tmp_path: Path, root: Path) -> None:
    """By the pipe that both hold, since nobody else could; the pool starts another."""
    words = ["--data-root", str(root), "--python", fake_python(tmp_path / "interpreter"), "-n", "1"]
    with pooled(*words, env={}, urls=tmp_path / "urls.txt") as process:
        (gateway_pid,) = children(process.pid)
        (server,) = children(gateway_pid)
        os.kill(gateway_pid, signal.SIGKILL)
        assert until(lambda: not alive(server), 10.0)
        assert until(lambda: [pid for pid in children(process.pid) if pid != gateway_pid], 20.0)
