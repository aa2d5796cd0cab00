"""What goes wrong with real OpenEnv servers: its own error or a void record each time, never a wrong observation."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest
from peers.openenv_peers import Peer, peers

from miroir import ConnectionLost, EnvError, Fleet, NoFreeContainer, Session, StepTimeout
from miroir.deadlines import Deadlines
from miroir.episode import Setting, play
from miroir.wire import Task

pytestmark = pytest.mark.peers

VERSION = "0.10.0"
IDLE_S = 2.0
TASK: Task = {"id": "t", "task_hash": "h", "instruction": ""}


class Acts:
    """An agent of a few raw actions, or tool calls."""

    name, model, base_seed = "acts", None, 0

    def __init__(self, *actions: dict[str, Any]) -> None:
        self.params: dict[str, Any] = {}
        self._actions = actions

    def play(self, session: Any, task: Any, tools: Any, *, observation: Any, trial: int, seed: int) -> None:
        """Act."""
        for action in self._actions:
            session.act(action)


class Started(NamedTuple):
    """The servers, and what was begun on three of them while the others are tested."""

    echo: Peer
    tools: Peer
    broken: Peer
    killed: Peer
    idle: Session
    kept: Session
    since: float
    slow: Session
    call: Future[Any]


@pytest.fixture(scope="module")
def started() -> Iterator[Started]:
    """Servers of each kind; a call that takes a server too long, and two sessions that are idle, one kept alive."""
    kinds = ("echo", "tool", "broken", "tool", f"tool 2 {IDLE_S}", "tool")
    with ExitStack() as stack:
        echo, tools, broken, killed, reaping, napping = stack.enter_context(peers(VERSION, *kinds))
        executor = stack.enter_context(ThreadPoolExecutor(1))

        def begin(peer: Peer, idle_s: float) -> Session:
            fleet = stack.enter_context(Fleet([peer.url], deadlines=Deadlines(idle_s=idle_s)))
            session = stack.enter_context(fleet.lease())
            session.reset("t")
            assert session.step("add", {"a": 1, "b": 1})["reward"] == 1.0
            return session

        slow, idle, kept = begin(napping, 1000.0), begin(reaping, 1000.0), begin(reaping, IDLE_S / 4)
        call = executor.submit(slow.step, "lookup", {"key": "a", "nap": 31})
        yield Started(echo, tools, broken, killed, idle, kept, time.monotonic(), slow, call)


@pytest.fixture
def echo(started: Started) -> Iterator[Fleet]:
    """A fleet of the server with actions of its own."""
    with Fleet([started.echo.url]) as fleet:
        yield fleet


@pytest.fixture
def tools(started: Started) -> Iterator[Fleet]:
    """A fleet of the server with tools."""
    with Fleet([started.tools.url]) as fleet:
        yield fleet


def test_a_large_observation_arrives(echo: Fleet) -> None:
    """Three megabytes, which a client of default limits would not take."""
    with echo.lease() as session:
        session.reset("t")
        assert len(session.act({"message": "big 3000000"})["observation"]["echoed"]) == 3_000_000
        assert session.act({"message": "hi"})["observation"]["echoed"] == "hi"


def test_an_action_above_the_servers_limit_loses_the_session(echo: Fleet) -> None:
    """The server closes on 20 MB; the episode is void, and the container can be leased again."""
    ended = play(echo.lease, Acts({"message": "x" * 20_000_000}), TASK, Setting())
    assert ended.record["reward"] is None
    assert ended.record["metadata"]["ended_by"] == "lost"
    assert "after 20,000,037 bytes, which may be more than it takes" in str(ended.record["metadata"]["void_reason"])
    with echo.lease(timeout_s=30) as session:
        assert session.reset("t")["echoed"] == "ready"


def test_a_late_answer_is_never_the_answer_to_another_call(echo: Fleet) -> None:
    """A step that is slower than its deadline breaks the session; nothing is sent or read on it any more."""
    session = echo.lease()
    session.reset("t")
    with pytest.raises(StepTimeout):
        session.act({"message": "sleep 2"}, timeout_s=0.3)
    for _ in range(2):
        with pytest.raises(StepTimeout, match="the session is broken and its episode void"):
            session.act({"message": "hi"})
    session.close()
    with echo.lease(timeout_s=30) as fresh:
        assert fresh.state()["episode_id"] is None
        fresh.reset("t")
        assert fresh.act({"message": "hi"})["observation"]["echoed"] == "hi"


def test_a_reward_that_is_no_number_is_void(echo: Fleet, tools: Fleet) -> None:
    """OpenEnv sends null for it, which is neither 0 nor a grade."""
    for fleet, action in (
        (echo, {"message": "nan"}),
        (tools, {"type": "call_tool", "tool_name": "lookup", "arguments": {"key": "nan"}}),
    ):
        record = play(fleet.lease, Acts(action), TASK, Setting()).record
        assert record["reward"] is None
        assert record["metadata"]["success"] is False
        assert "or with one that is no number" in str(record["metadata"]["void_reason"])


def test_a_factory_that_fails_is_the_reason(started: Started) -> None:
    """Not that the container is busy."""
    with Fleet([started.broken.url]) as fleet, pytest.raises(NoFreeContainer, match="FACTORY_ERROR"):
        fleet.lease(timeout_s=4)


def test_two_clients_race_for_one_session(started: Started) -> None:
    """Leases never overlap, and nobody plays in the other's world."""
    url, held, most = started.tools.url, 0, 0
    lock = threading.Lock()

    def episodes(_: int) -> None:
        nonlocal held, most
        with Fleet([url]) as fleet:
            for _ in range(5):
                with fleet.lease(timeout_s=60) as session:
                    with lock:
                        held += 1
                        most = max(most, held)
                    session.reset("t")
                    assert session.state()["episode_id"] == session.episode_id
                    assert session.step("add", {"a": 99, "b": 1})["done"]
                    assert session.finish()["reward"] == 1.0
                    with lock:
                        held -= 1

    with ThreadPoolExecutor(4) as executor:
        list(executor.map(episodes, range(4)))
    assert most == 1


def test_a_world_that_was_reaped_is_a_lost_session(started: Started) -> None:
    """A server gives up what is idle and keeps the connection: a lost session, unless it is kept alive."""
    time.sleep(max(0.0, started.since + 4 * IDLE_S - time.monotonic()))
    assert started.kept.step("add", {"a": 99, "b": 1})["done"]
    with pytest.raises(ConnectionLost, match="has given up the session's world, idle for too long"):
        started.idle.step("add", {"a": 1, "b": 1})
    with pytest.raises(ConnectionLost):
        started.idle.reset("t")


def test_a_call_that_the_server_breaks_off_is_not_the_models_mistake(started: Started) -> None:
    """OpenEnv cuts a tool at 30 s: the episode is void, and run again."""
    with pytest.raises(EnvError, match=r"EXECUTION_ERROR: .*the server broke off the call: .*timed out after 30"):
        started.call.result(60)
    graded = started.slow.finish()
    assert graded["reward"] is None
    assert graded["metadata"]["ended_by"] == "env_error"


def test_a_server_that_freezes_or_dies_in_a_step(started: Started) -> None:
    """A frozen one is found by the step's deadline, a killed one at once; either episode is void."""
    peer = started.killed
    with Fleet([peer.url]) as fleet:
        for number, error, within_s in ((signal.SIGSTOP, StepTimeout, 10.0), (signal.SIGKILL, ConnectionLost, 5.0)):
            session = fleet.lease(timeout_s=60)
            session.reset("t")
            threading.Timer(0.5, os.kill, (peer.process.pid, number)).start()
            began = time.monotonic()
            with pytest.raises(error):
                session.step("lookup", {"key": "a", "nap": 6}, timeout_s=2)
            assert time.monotonic() - began < within_s
            os.kill(peer.process.pid, signal.SIGCONT)
            session.close()
        with pytest.raises(NoFreeContainer, match="connection refused"):
            fleet.lease(timeout_s=2)
