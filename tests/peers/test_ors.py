"""A real ORS server through our gateways: what its own client gets, and what that loses."""

from __future__ import annotations

import functools
import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from peers.dropping import dropping
from peers.servers import serving
from peers.venvs import venv
from ports import free_ports

from miroir import EnvError, Fleet, Session, catalog
from miroir.check import check
from miroir.cli import main
from miroir.envs.ors import Ors
from miroir.pool import Pool, ProcessEngine
from miroir.records import load
from miroir.serve import running

pytestmark = pytest.mark.peers

HERE = Path(__file__).parent
QUIET = {"OPENREWARD_DISABLE_UPDATE_CHECK": "1"}
TRIALS = 4


class Server(NamedTuple):
    """A running ORS server, and the interpreter that has its client."""

    url: str
    port: int
    python: Path


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """The server."""
    port = free_ports()
    python = venv("openreward") / "bin" / "python"
    command = [str(python), str(HERE / "ors_server.py"), str(port)]
    with serving(command, f"http://127.0.0.1:{port}/health", env=QUIET, ready_s=120.0):
        yield Server(f"http://127.0.0.1:{port}", port, python)


@contextmanager
def gateway(url: str, **options: str) -> Iterator[Session]:
    """A session with an episode, through a gateway of its own."""
    with ExitStack() as stack:
        ours = stack.enter_context(running(functools.partial(Ors, url, **options)))
        session = stack.enter_context(stack.enter_context(Fleet([ours])).lease())
        session.reset("train-1")
        yield session


def test_tasks_prompt_and_tools(server: Server) -> None:
    """They are the server's, and the record names it."""
    with running(functools.partial(Ors, server.url)) as url, Fleet([url]) as fleet, fleet.lease() as session:
        assert [task["id"] for task in catalog.tasks(url)] == [f"train-{number}" for number in range(5)]
        assert catalog.tasks(url, "hard") == []
        assert catalog.environment(url) == {"name": "arith", "version": "0.1.167"}
        assert session.reset("train-1") == {"prompt": "Solve 1+1?"}
        names = [tool["name"] for tool in catalog.tools(url)]
        assert names == ["add", "answer", "boom", "nap", "recite", "secret", "submit"]
        assert [tool["name"] for tool in session.task_tools or ()] == names
        step = session.step("add", {"a": 1, "b": "one"})
        assert step["observation"]["error"]["error_type"] == "invalid_args"


def test_episodes_on_four_gateways_have_the_rewards_of_its_own_client(server: Server, tmp_path: Path) -> None:
    """Five tasks, four trials each, by `miroir run` on a pool of `miroir serve ors`."""
    own = subprocess.run(
        [server.python, HERE / "ors_client.py", server.url, str(TRIALS)], check=True, capture_output=True, timeout=120
    )
    with Pool(ProcessEngine("ors", options=["--url", server.url]), n=4, urls_file=tmp_path / "urls.txt"):
        command = ["run", str(tmp_path / "urls.txt"), "--out", str(tmp_path / "out"), "-k", str(TRIALS)]
        assert main([*command, "--agent", "peers.players:answers"]) == 0
    records = list(load([tmp_path / "out"]))
    assert len(records) == 20
    assert {f"{record['task_id']} {record['trial']}": record["reward"] for record in records} == json.loads(own.stdout)
    assert sum(record["metadata"]["success"] for record in records) == 10


def test_a_tool_that_raises_makes_the_episode_void(server: Server) -> None:
    """The reason is the tool's own; the next episode is not touched by it."""
    with gateway(server.url) as session:
        with pytest.raises(EnvError, match=r"EXECUTION_ERROR: .*boom: tool exploded"):
            session.step("boom", {"text": "x"})
        graded = session.finish()
        assert (graded["reward"], graded["metadata"]["ended_by"]) == (None, "env_error")
        session.reset("train-1")
        assert session.step("answer", {"text": "2"})["reward"] == 1.0


def test_a_reward_that_is_no_number_is_void(server: Server) -> None:
    """Neither 0 nor what an earlier call gave."""
    with gateway(server.url) as session:
        session.step("add", {"a": 1, "b": 1})
        assert session.step("boom", {"text": "nan"})["done"]
        graded = session.finish()
    assert graded["reward"] is None
    assert graded["metadata"]["void_reason"] == "the environment gave no reward"


def test_a_call_outlives_its_dropped_stream(server: Server) -> None:
    """It is taken up again by its token, twice, and runs once."""
    with dropping(server.port) as proxy, gateway(proxy.url, reward="sum") as session:
        timers = [threading.Timer(after_s, proxy.drop) for after_s in (0.7, 1.6)]
        for timer in timers:
            timer.start()
        step = session.step("nap", {"s": 3.0})
        for timer in timers:
            timer.join()
        assert step["observation"]["result"]["data"] == "rested"
        assert step["reward"] == 0.25


def test_a_text_with_spaces_at_every_border_arrives_whole(server: Server) -> None:
    """Its own client loses one where a piece of 4096 characters begins with a space."""
    text = "a" + " " * 6002 + "b"
    with gateway(server.url) as session:
        assert session.step("recite", {"text": text})["observation"]["result"]["data"] == text


def test_secrets_reach_the_environment(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """From an environment variable of the gateway's, under its name."""
    monkeypatch.setenv("WEB_KEY", "s3cret")
    with gateway(server.url, secrets="WEB_KEY") as session:
        assert session.step("secret", {"text": "WEB_KEY"})["observation"]["result"]["data"] == "6"


def test_a_gateway_keeps_the_protocol(server: Server) -> None:
    """Every rule of the check."""
    with running(functools.partial(Ors, server.url)) as url:
        assert check(url).broken == []
