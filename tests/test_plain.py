"""Sessions on servers that speak OpenEnv's protocol and no more: what is sent, and what their answers mean."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fakefleet import FakeFleet
from processes import until

from miroir.deadlines import Deadlines
from miroir.episode import Setting, play
from miroir.errors import ConnectionLost, EnvError
from miroir.fleet import Fleet
from miroir.session import Session
from miroir.wire import Task

GONE = {"error_type": "execution_error", "message": "MCP client is not available; environment is closed"}
CUT = {"error_type": "timeout", "message": "Tool 'lookup' timed out after 30.0 seconds"}
TASK: Task = {"id": "mine", "task_hash": "h", "instruction": "", "split": "train", "reset": {"seed": 7}}


def stepped(reward: Any = None, done: bool = False, **observation: Any) -> dict[str, Any]:
    """An observation frame."""
    return {"type": "observation", "data": {"observation": observation, "reward": reward, "done": done}}


@pytest.fixture
def fake() -> Iterator[FakeFleet]:
    """One plain server."""
    with FakeFleet("plain") as running:
        yield running


@pytest.fixture
def session(fake: FakeFleet) -> Iterator[Session]:
    """A session on it."""
    with Fleet(fake.urls) as fleet, fleet.lease(timeout_s=5) as opened:
        yield opened


def answer(fake: FakeFleet, **replies: Any) -> None:
    """Have the server answer the frames of a type so, the others as usual."""
    fake[0].reply = lambda frame: [replies[frame["type"]]] if frame["type"] in replies else None


def sent(fake: FakeFleet, kind: str) -> list[Any]:
    """The data of the frames of that type that came."""
    return [frame.get("data") for frame in fake[0].frames if frame["type"] == kind]


def test_nothing_is_sent_that_was_not_given(fake: FakeFleet, session: Session) -> None:
    """Neither what is None nor what only our servers know."""
    session.reset("t", split="train", index=0, seed=None)
    assert sent(fake, "reset") == [{"task_id": "t", "split": "train", "index": 0, "episode_id": session.episode_id}]
    assert session.plain
    assert session.coworker_turns() == []
    assert sent(fake, "coworkers") == []


def test_done_is_final(fake: FakeFleet, session: Session) -> None:
    """No step is sent after the end, which such a server would play on."""
    session.reset("t")
    answer(fake, step=stepped(0.5, True))
    session.step("add", {})
    with pytest.raises(EnvError, match=r"EPISODE_OVER: .*the episode is over; reset"):
        session.step("add", {})
    assert len(sent(fake, "step")) == 1
    assert session.finish()["reward"] == 0.5
    assert sent(fake, "record") == []


def test_an_episode_that_is_over_at_its_reset(fake: FakeFleet, session: Session) -> None:
    """Its reward is the reset's."""
    answer(fake, reset=stepped(1.0, True))
    session.reset("t")
    assert session.done
    assert session.finish()["success"] is True


def test_a_world_that_was_reaped_ends_the_session(fake: FakeFleet, session: Session) -> None:
    """It is no tool's error for the model, and every later call raises the same."""
    session.reset("t")
    answer(fake, step=stepped(tool_name="add", result=None, error=GONE))
    for _ in range(2):
        with pytest.raises(ConnectionLost, match=r"step \d: the server has given up the session's world"):
            session.step("add", {})
    assert len(sent(fake, "step")) == 1


def test_a_call_that_the_server_broke_off_makes_the_episode_void(fake: FakeFleet, session: Session) -> None:
    """The model is not to blame, and the session plays another."""
    session.reset("t")
    answer(fake, step=stepped(tool_name="lookup", result=None, error=CUT))
    with pytest.raises(EnvError, match=r"EXECUTION_ERROR: .*the server broke off the call: .*after 30\.0 seconds"):
        session.step("lookup", {})
    graded = session.finish()
    assert (graded["reward"], graded["metadata"]["ended_by"]) == (None, "env_error")
    session.reset("t")
    assert not session.done


def test_the_clients_clock_ends_the_episode(fake: FakeFleet, session: Session) -> None:
    """The server has none."""
    session.reset("t", max_seconds=0)
    with pytest.raises(EnvError, match="EPISODE_OVER"):
        session.step("add", {})
    assert session.finish()["metadata"]["ended_by"] == "deadline"


def test_tools_are_listed_in_the_session(fake: FakeFleet, session: Session) -> None:
    """Once, in either spelling; by an `mcp` frame where the server does not know the action."""
    answer(fake, step=stepped(tools=[{"name": "add", "description": None, "input_schema": {"type": "object"}}, 7]))
    assert session.tools() == [{"name": "add", "description": "", "inputSchema": {"type": "object"}}]
    assert session.tools() is session.tools()
    assert len(sent(fake, "step")) == 1


def test_tools_are_listed_by_mcp_where_there_is_no_action_for_it(fake: FakeFleet, session: Session) -> None:
    """As in the first versions of OpenEnv; none where it says that it has none."""
    refused = {"type": "error", "data": {"code": "VALIDATION_ERROR", "message": "Invalid message"}}
    listed = {"type": "mcp", "data": {"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "add"}]}}}
    answer(fake, step=refused, mcp=listed)
    assert [tool["name"] for tool in session.tools()] == ["add"]
    with FakeFleet("plain") as other, Fleet(other.urls) as fleet, fleet.lease(timeout_s=5) as without:
        answer(other, step=refused, mcp={"type": "mcp", "data": {"error": {"code": -32603}}})
        assert without.tools() == []


def test_an_own_submit_is_called_at_the_end(fake: FakeFleet, session: Session) -> None:
    """Where the server lists such a tool."""
    answer(fake, step=stepped(tools=[{"name": "submit"}]))
    session.tools()
    session.reset("t")
    answer(fake, step=stepped(1.0, True))
    graded = session.finish()
    assert (graded["reward"], graded["metadata"]["ended_by"]) == (1.0, "submit")


def test_an_idle_session_is_pinged(fake: FakeFleet) -> None:
    """By `mcp` frames; one of ours is not."""
    deadlines = Deadlines(idle_s=0.05)
    with Fleet(fake.urls, deadlines=deadlines) as fleet, fleet.lease(timeout_s=5) as session:
        session.reset("t")
        assert until(lambda: len(sent(fake, "mcp")) >= 2)
        session.step("add", {})
    with FakeFleet("free") as ours, Fleet(ours.urls, deadlines=deadlines) as fleet, fleet.lease(timeout_s=5) as session:
        session.reset("t")
        assert not until(lambda: sent(ours, "mcp"), 0.3)


class Adds:
    """An agent of one call."""

    name, model, base_seed = "adds", None, 0

    def __init__(self) -> None:
        self.params: dict[str, Any] = {}

    def play(self, session: Any, task: Any, tools: Any, **_: Any) -> None:
        """Call a tool that the session listed."""
        session.step(tools[0]["name"], {})


def test_an_episode_has_the_tasks_own_identity(fake: FakeFleet) -> None:
    """An id of a user's list is not sent; the record has the row's id, hash and split, and the run's environment."""

    def reply(frame: dict[str, Any]) -> list[Any] | None:
        if frame["type"] == "reset":
            return [stepped(said="ready")]
        if frame["type"] != "step":
            return None
        listing = frame["data"]["type"] == "list_tools"
        return [stepped(tools=[{"name": "add"}]) if listing else stepped(1.0, True)]

    fake[0].reply = reply
    with Fleet(fake.urls) as fleet:
        record = play(fleet.lease, Adds(), TASK, Setting(env={"name": "peer", "version": "2"})).record
    assert sent(fake, "reset")[0].keys() == {"seed", "episode_id"}
    assert (record["task_id"], record["split"], record["metadata"]["task_hash"]) == ("mine", "train", "h")
    assert (record["reward"], record["env"]) == (1.0, {"name": "peer", "version": "2"})
    assert [tool["function"]["name"] for tool in record["tools"]] == ["add"]


def test_an_agent_that_stops_early_is_not_given_tries_until_it_scores(fake: FakeFleet) -> None:
    """Its episode is void for want of a reward, and not played again as a fault of the server's would be."""
    answer(fake, reset=stepped(said="ready"), step=stepped(0.5, tools=[{"name": "add"}]))
    with Fleet(fake.urls) as fleet:
        ended = play(fleet.lease, Adds(), TASK, Setting())
    assert (ended.record["reward"], ended.again) == (None, False)
