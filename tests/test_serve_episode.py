"""How episodes end, what makes them void, and their records."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import pytest
from puppet import Puppet
from serveclient import Client, error, leased

from miroir.serve import running, session


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server that all tests of this module use, one after the other."""
    with running(Puppet, max_sessions=2) as base:
        yield base


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    """A session of its own."""
    with leased(url) as one:
        yield one


def test_writes_the_whole_record(client: Client) -> None:
    """The record of a graded episode is version 1, key for key, submit last and not counted."""
    client.reset(episode_id="e1")
    client.call("say", text="a")
    final = client.call("submit")["data"]
    assert (final["reward"], final["done"]) == (0.5, True)
    record = client.record()
    timings, steps = record.pop("timings"), record.pop("steps")
    assert record == {
        "schema": 1,
        "episode_id": "e1",
        "task_id": "plain",
        "split": "train",
        "env": {"name": "puppet", "version": "7"},
        "reward": 0.5,
        "metadata": {
            "task_hash": "h1",
            "success": True,
            "harm": False,
            "ended_by": "submit",
            "void_reason": None,
            "checks": [{"name": "half", "passed": True, "detail": "seen"}],
            "harms": [],
        },
        "diagnostics": {"steps": 1, "tool_errors": 0, "moves": 2.0},
    }
    assert set(timings) == {"started_at", "episode_s", "env_s"}
    assert timings["started_at"].endswith("+00:00")
    assert 0 <= timings["env_s"] <= timings["episode_s"]
    assert [(step["tool"], step["reward"], step["done"]) for step in steps] == [
        ("say", None, False),
        ("submit", 0.5, True),
    ]
    assert set(steps[0]) == {"tool", "arguments", "result", "error", "reward", "done", "at_s", "seconds"}
    assert (steps[0]["arguments"], steps[0]["result"]) == ({"text": "a"}, "a")


def test_names_harms(client: Client) -> None:
    """Harm is whether there are harms."""
    client.reset()
    client.call("grade_as", how="harm")
    client.call("submit")
    metadata = client.record()["metadata"]
    assert (metadata["harm"], metadata["harms"]) == (True, [{"name": "mail", "detail": "sent to all"}])


def test_copies_what_the_author_goes_on_changing(client: Client) -> None:
    """The record holds results and arguments as they were when they crossed the wire."""
    client.reset()
    client.call("keep", moves=[1, 2])
    client.call("keep", moves=[3])
    client.call("submit")
    first, second, _ = client.record()["steps"]
    assert (first["arguments"], first["result"]) == ({"moves": [1, 2]}, {"moves": [2]})
    assert second["result"] == {"moves": [2, 3]}


def test_ends_at_max_steps(client: Client) -> None:
    """Tool call number max_steps replies done with the grade."""
    client.reset("short")
    assert not client.call("nope")["data"]["done"]
    last = client.call("say", text="b")["data"]
    assert (last["done"], last["reward"]) == (True, 0.5)
    assert last["observation"]["result"]["data"] == "b"
    record = client.record()
    assert (record["metadata"]["ended_by"], record["steps"][-1]["reward"]) == ("max_steps", 0.5)
    assert "max_steps" in error(client.call("say", text="c"), "EPISODE_OVER")["message"]
    error(client.call("submit"), "EPISODE_OVER")


def test_ends_when_the_environment_says_so(client: Client) -> None:
    """A result that is done ends the episode, graded."""
    client.reset()
    assert client.call("end")["data"]["reward"] == 0.5
    assert client.record()["metadata"]["ended_by"] == "done"


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("boom", {}, "boom failed: RuntimeError: a pipe burst"),
        ("leave", {}, "leave failed: SystemExit: gone"),
        ("object", {"kind": "nan"}, "object failed: ValueError: Out of range float values are not JSON compliant"),
        ("object", {"kind": "set"}, "object failed: TypeError: Object of type set is not JSON serializable"),
        (
            "object",
            {"kind": "list"},
            "object failed: TypeError: a call must return text, a JSON object or a ToolResult",
        ),
        (
            "object",
            {"kind": "none"},
            "object failed: TypeError: a call must return text, a JSON object or a ToolResult",
        ),
        ("give", {"value": "nan"}, "give failed: ValueError: the reward of a call is not a finite number: nan"),
    ],
)
def test_a_failing_environment_voids_the_episode(client: Client, tool: str, arguments: dict, says: str) -> None:
    """What the environment breaks is EXECUTION_ERROR; the episode is void, the session lives."""
    client.reset()
    assert error(client.call(tool, **arguments), "EXECUTION_ERROR")["message"].startswith(says)
    error(client.call("say", text="a"), "EPISODE_OVER")
    record = client.record()
    assert record["reward"] is None
    assert record["metadata"]["ended_by"] == "env_error"
    assert record["metadata"]["void_reason"].startswith(says)
    assert record["metadata"]["success"] is False
    assert record["steps"][-1]["error"]["message"].startswith(says)
    client.reset()


@pytest.mark.parametrize(
    ("how", "ended_by", "says"),
    [
        ("raise", "env_error", "grading failed: RuntimeError: no grader today"),
        ("odd", "env_error", "grading failed: TypeError: grade must return a Grade, not int"),
        ("nan", "env_error", "the reward is not a finite number: nan"),
        ("none", "submit", "the environment gave no reward"),
    ],
)
def test_a_failing_grader_voids_the_episode(client: Client, how: str, ended_by: str, says: str) -> None:
    """An episode without a usable grade is done and void, with the reason."""
    client.reset()
    client.call("grade_as", how=how)
    final = client.call("submit")["data"]
    assert (final["reward"], final["done"]) == (None, True)
    record = client.record()
    assert record["reward"] is None
    assert (record["metadata"]["ended_by"], record["metadata"]["void_reason"]) == (ended_by, says)
    assert record["metadata"]["success"] is False


def test_an_episode_ends_at_its_deadline(client: Client) -> None:
    """Without any frame the episode is graded when its time is up; a step after it is EPISODE_OVER."""
    client.reset(max_seconds=0.2)
    time.sleep(1.0)
    assert client.ask("state")["data"]["ended_by"] == "deadline"
    assert "deadline" in error(client.call("say", text="late"), "EPISODE_OVER")["message"]
    record = client.record()
    assert (record["reward"], record["metadata"]["void_reason"]) == (0.5, None)
    assert record["timings"]["episode_s"] < 0.9


def test_a_call_at_the_deadline_is_waited_for(client: Client) -> None:
    """A call that ends within the grace after the deadline counts, and the episode is graded as it stands."""
    client.reset(max_seconds=0.2)
    data = client.call("sleep", seconds=0.4)["data"]
    assert (data["observation"]["result"]["data"], data["done"], data["reward"]) == ("slept", True, 0.5)
    assert client.record()["metadata"]["ended_by"] == "deadline"


def test_a_call_that_outlives_the_grace_voids_the_episode(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that still runs after the grace is answered without it; the session answers, but cannot begin again."""
    monkeypatch.setattr(session, "GRACE_S", 0.1)
    client.reset(max_seconds=0.2)
    data = client.call("sleep", seconds=1)["data"]
    assert (data["done"], data["reward"]) == (True, None)
    assert data["observation"]["error"]["error_type"] == "timeout"
    record = client.record()
    assert record["metadata"]["ended_by"] == "deadline"
    assert record["metadata"]["void_reason"].startswith("sleep still ran")
    refused = error(client.ask("reset", {"task_id": "plain"}), "EXECUTION_ERROR")
    assert (
        refused["message"] == "reset: an earlier call is still running; close this session and lease another container"
    )
    time.sleep(1)
    client.reset()


def test_a_call_without_a_deadline_is_cut(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without max_seconds a single call has a limit of its own, which ends the episode."""
    monkeypatch.setattr(session, "CALL_LIMIT_S", 0.1)
    client.reset()
    data = client.call("sleep", seconds=0.3)["data"]
    assert (data["done"], data["reward"]) == (True, 0.5)
    assert client.record()["metadata"]["ended_by"] == "deadline"


def test_a_reset_abandons_the_running_episode(client: Client) -> None:
    """An episode that a reset cuts short is void; one that could not begin leaves its record."""
    client.reset(episode_id="e1")
    failed = client.ask("reset", {"task_id": "plain", "mood": "broken"})
    assert error(failed, "EXECUTION_ERROR")["message"] == "reset failed: RuntimeError: no world today"
    record = client.record()
    assert (record["episode_id"], record["metadata"]["ended_by"], record["reward"]) == ("e1", "abandoned", None)
    client.reset(episode_id="e2")
    assert error(client.ask("record", {"episode_id": "e1"}), "STALE_EPISODE")["message"].endswith("that is e2")


def test_passes_an_environments_own_submit_through() -> None:
    """A submit of the environment's own is called, ends the episode when it says so, and is not counted."""

    class Gateway(Puppet):
        surfaces = ("api",)

        def tools(self, surface: str) -> list:
            return [{"name": "submit", "description": "Hand in.", "inputSchema": {"type": "object"}}]

        def call(self, tool: str, arguments: dict) -> object:
            return self.end() if arguments.get("answer") == 42 else "try again"

    with running(Gateway) as url, leased(url) as client:
        client.reset()
        listed = client.ask("step", {"type": "list_tools"})["data"]["observation"]["tools"]
        assert [tool["description"] for tool in listed] == ["Hand in."]
        assert not client.call("submit", answer=1)["data"]["done"]
        assert client.call("submit", answer=42)["data"]["done"]
        record = client.record()
        assert (record["metadata"]["ended_by"], record["diagnostics"]["steps"]) == ("submit", 1)


def test_numbers_of_a_record_are_finite(client: Client) -> None:
    """No record that leaves the server holds NaN."""
    client.reset()
    client.call("grade_as", how="nan")
    client.call("submit")
    numbers = [value for value in client.record()["diagnostics"].values() if not math.isfinite(value)]
    assert numbers == []
