"""Plain OpenEnv servers, three versions of their library: leased, played and recorded as they are."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from peers.openenv_peers import VERSIONS, Peer, peers

from miroir import EnvError, Fleet, NoFreeContainer, Session, catalog
from miroir.check import check
from miroir.cli import main
from miroir.errors import InvalidArgument
from miroir.records import load

pytestmark = pytest.mark.peers

TASK_API = "0.10.0"  # the version of the three that lists tasks


class Servers(NamedTuple):
    """The servers of one version: four with tools, one with actions of its own."""

    version: str
    tools: list[Peer]
    echo: Peer

    @property
    def urls(self) -> list[str]:
        """The base URLs of those with tools."""
        return [peer.url for peer in self.tools]


@pytest.fixture(scope="module", params=VERSIONS)
def servers(request: pytest.FixtureRequest) -> Iterator[Servers]:
    """The servers of each version in turn."""
    with peers(request.param, *["tool"] * 4, "echo") as started:
        yield Servers(request.param, started[:4], started[4])


@pytest.fixture
def tools(servers: Servers) -> Iterator[Session]:
    """A session on a server with tools."""
    with Fleet(servers.urls[:1]) as fleet, fleet.lease() as session:
        yield session


@pytest.fixture
def echo(servers: Servers) -> Iterator[Session]:
    """A session on the server with actions of its own."""
    with Fleet([servers.echo.url]) as fleet, fleet.lease() as session:
        yield session


def text_of(step: Any) -> str:
    """The text of a tool's result."""
    text: str = step["observation"]["result"]["content"][0]["text"]
    return text


def test_a_busy_container_is_waited_for(servers: Servers) -> None:
    """One that is leased is busy at once for who does not wait, and soon free for who does."""
    with Fleet(servers.urls[:1]) as mine, Fleet(servers.urls[:1]) as theirs:
        held = mine.lease()
        with pytest.raises(NoFreeContainer, match="1 leased"):
            theirs.lease(wait_busy=False)
        threading.Timer(0.5, held.close).start()
        began = time.monotonic()
        with theirs.lease(timeout_s=30) as session:
            assert session.reset("t") is not None
        assert time.monotonic() - began < 15


def test_an_episode_with_tools(tools: Session) -> None:
    """Reset with options, tools as the session lists them, steps, their errors, done, the record, and another one."""
    assert [tool["name"] for tool in tools.tools()] == ["add", "lookup"]
    assert tools.tools()[0]["inputSchema"]["required"] == ["a", "b"]
    tools.reset("t1", split="train", index=2, nothing=None)
    state = tools.state()
    assert (state["episode_id"], state["step_count"]) == (tools.episode_id, 0)
    assert text_of(tools.step("add", {"a": 1, "b": 2})) == "3"
    for tool, arguments, error_type in (("nope", {}, "tool_not_found"), ("lookup", {"key": "boom"}, "execution_error")):
        assert tools.step(tool, arguments)["observation"]["error"]["error_type"] == error_type
    assert tools.coworker_turns() == []
    assert tools.step("add", {"a": 99, "b": 1})["done"]
    with pytest.raises(EnvError, match=r"EPISODE_OVER: .*the episode is over; reset"):
        tools.step("add", {"a": 1, "b": 1})
    graded = tools.finish()
    assert (graded["reward"], graded["success"], graded["record"]["made_by"]) == (1.0, True, "client")
    assert graded["metadata"]["ended_by"] == "done"
    assert graded["record"]["env"] == {"name": "ToolEnv", "version": "1.0.0"}
    assert graded["record"]["diagnostics"] == {"steps": 4, "tool_errors": 2}
    assert [step["tool"] for step in graded["record"]["steps"]] == ["add", "nope", "lookup", "add"]
    assert tools.finish() == graded
    tools.reset("t2")
    assert (tools.steps, tools.done) == ([], False)


def test_an_episode_that_was_never_ended_is_void(tools: Session) -> None:
    """A reward on the way is not the episode's; without a tool `submit` there is nothing to end it by."""
    tools.reset("t")
    assert tools.step("add", {"a": 1, "b": 1})["reward"] == 1.0
    graded = tools.finish()
    assert graded["reward"] is None
    assert graded["metadata"]["void_reason"] == "the environment did not end the episode, and gave no reward"


def test_an_episode_of_actions_of_its_own(echo: Session) -> None:
    """Actions are checked by the server's schema before they are sent; what it says itself arrives whole."""
    assert echo.tools() == []
    assert echo.reset("t", no_such_option=1)["echoed"] == "ready"
    with pytest.raises(
        InvalidArgument, match=r"no action of its type EchoAction .*: message is missing; massage is unk"
    ):
        echo.act({"massage": "hi"})
    with pytest.raises(InvalidArgument, match=r"message is 7; it must be string; nothing was sent"):
        echo.act({"message": 7})
    with pytest.raises(InvalidArgument, match="has no tools; call act with an action of its type EchoAction"):
        echo.step("add", {})
    with pytest.raises(EnvError, match=r"VALIDATION_ERROR: .*at least 1 character") as refused:
        echo.act({"message": ""})
    assert refused.value.errors[0]["loc"] == ["message"]
    assert echo.act({"message": "hi"})["observation"]["echoed"] == "hi"
    assert echo.act({"message": "win"})["done"]
    graded = echo.finish()
    assert (graded["reward"], graded["success"]) == (1.0, True)
    assert [step["action"] for step in graded["record"]["steps"]] == [{"message": "hi"}, {"message": "win"}]
    assert graded["record"]["steps"][0]["result"]["echoed"] == "hi"


def test_an_environment_that_crashes_makes_the_episode_void(echo: Session) -> None:
    """Its error is the reason, and the session plays on."""
    echo.reset("t")
    with pytest.raises(EnvError, match=r"EXECUTION_ERROR: .*env crashed"):
        echo.act({"message": "crash"})
    graded = echo.finish()
    assert (graded["reward"], graded["metadata"]["ended_by"]) == (None, "env_error")
    assert "env crashed" in str(graded["metadata"]["void_reason"])
    echo.reset("t")
    assert echo.act({"message": "end"})["reward"] == 0.5
    assert echo.finish()["success"] is False


def test_twenty_episodes_on_four_servers(servers: Servers, tmp_path: Path) -> None:
    """`miroir run` plays them all, by the server's own tasks where it lists any."""
    listed = servers.version == TASK_API
    what = ["-k", "7"] if listed else ["--episodes", "20"]
    assert main(["run", *servers.urls, "--out", str(tmp_path), "--agent", "peers.players:adds", *what]) == 0
    records = list(load([tmp_path]))
    assert len(records) == (21 if listed else 20)
    assert {record["reward"] for record in records} == {1.0}
    assert {record["container"] for record in records} <= set(servers.urls)
    for record in records:
        assert record["made_by"] == "client"
        assert record["metadata"]["task_hash"] == record["task"]["task_hash"]
        assert record["task_id"] == record["task"]["id"]
        assert record["env"]["name"] == "ToolEnv"
    if listed:
        assert {record["split"] for record in records} == {"train"}
        assert {record["task"]["reset"]["index"] for record in records} == {0, 1, 2}


def test_tasks_of_a_file_on_a_server_with_its_own_actions(servers: Servers, tmp_path: Path) -> None:
    """A file's rows are the tasks, with options for the reset; the same command again has nothing to play."""
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text("".join(json.dumps({"id": f"t{seed}", "reset": {"seed": seed}}) + "\n" for seed in range(3)))
    command = ["run", servers.echo.url, "--out", str(tmp_path / "out"), "--agent", "peers.players:echoes"]
    for _ in range(2):
        assert main([*command, "--tasks", str(tasks)]) == 0
    records = list(load([tmp_path / "out"]))
    assert sorted(record["task_id"] for record in records) == ["t0", "t1", "t2"]
    assert {record["metadata"]["success"] for record in records} == {True}


def test_a_server_without_tasks_says_what_to_do(servers: Servers, capsys: pytest.CaptureFixture[str]) -> None:
    """One line and exit code 2."""
    assert main(["run", servers.echo.url, "--out", "unused", "--agent", "peers.players:echoes"]) == 2
    assert (
        "lists no tasks; name a file of them (--tasks), or say how many episodes (--episodes)"
        in capsys.readouterr().err
    )
    Path("unused").rmdir()


def test_the_check_says_what_a_plain_server_lacks(servers: Servers) -> None:
    """Nothing of OpenEnv's own protocol is broken; each thing that it does not have is named with what it costs."""
    for url in (servers.urls[0], servers.echo.url):
        report = check(url)
        assert report.broken == []
        lacking = {
            finding.rule: finding.detail for finding in report.findings if finding.outcome.value == "not offered"
        }
        assert lacking["record"].startswith("the client makes the record")
        assert all(lacking.values())
        kept = {finding.rule for finding in report.findings if finding.outcome.value == "kept"}
        assert kept >= {"first-frame", "capacity", "release-after-close", "release-after-drop", "close-frame", "order"}


def test_what_it_offers_is_asked_once(servers: Servers) -> None:
    """Environment and tools are known by URL, so that a lease costs no more than a handshake."""
    with Fleet(servers.urls[:1]) as fleet:
        with fleet.lease() as session:
            first = session.tools()
        with fleet.lease() as session:
            assert session.tools() is first
    if servers.version == TASK_API:
        assert catalog.splits(servers.urls[0]) == ["train", "test"]
