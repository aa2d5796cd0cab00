"""An episode as its client saw it, and the record that it makes of it."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from miroir.session.journal import UNENDED, UNGRADED, Journal


def reply(reward: Any = None, done: bool = False, **observation: Any) -> dict[str, Any]:
    """The data of a reply to a step."""
    return {"observation": observation, "reward": reward, "done": done}


def record(*replies: dict[str, Any], tool: str = "add", **options: Any) -> Any:
    """The record of an episode with these replies."""
    journal = Journal("t", options, None)
    for said in replies:
        journal.add({"tool": tool, "arguments": {}}, said, 0.0)
    return journal.record("e", {"name": "peer", "version": "1"})


@pytest.mark.parametrize(
    ("replies", "reward", "success", "reason"),
    [
        ([reply(1.0), reply(1.0, True)], 1.0, True, None),
        ([reply(1.0), reply(0.5, True)], 0.5, False, None),
        ([reply(0.0, True)], 0.0, False, None),
        ([reply(0.5, True, metadata={"success": True})], 0.5, True, None),
        ([reply(1.0, True, metadata={"success": False})], 1.0, False, None),
        ([reply(1.0), reply(None, True)], None, False, UNGRADED),
        ([reply(float("nan"), True)], None, False, UNGRADED),
        ([reply(True, True)], None, False, UNGRADED),
        ([reply(10**400, True)], None, False, UNGRADED),
        ([reply(1.0)], None, False, UNENDED),
        ([], None, False, UNENDED),
    ],
)
def test_the_reward_is_that_of_the_step_that_said_done(
    replies: list[dict[str, Any]], reward: float | None, success: bool, reason: str | None
) -> None:
    """Success is the environment's word, else a reward of 1; without a reward the episode is void, never 0."""
    made = record(*replies)
    metadata = made["metadata"]
    assert (made["reward"], metadata["success"], metadata["void_reason"]) == (reward, success, reason)
    assert made["made_by"] == "client"


def test_the_hash_is_that_of_the_resets_options() -> None:
    """Where there is no row of a task; the split is theirs too."""
    made = record(reply(1.0, True), split="train", index=2)
    wanted = hashlib.sha256(b'{"index":2,"split":"train"}').hexdigest()
    assert (made["metadata"]["task_hash"], made["split"], made["task_id"]) == (wanted, "train", "t")


def test_steps_are_kept_as_they_were_seen() -> None:
    """With their errors counted, `submit` not counted as a step, and its end named after it."""
    error = {"error_type": "invalid_args", "message": "no"}
    content = {"content": [{"type": "text", "text": "3"}], "is_error": False}
    made = record(reply(result=None, error=error), reply(0.1, result=content))
    assert made["diagnostics"] == {"steps": 2, "tool_errors": 1}
    assert [step["result"] for step in made["steps"]] == [None, "3"]
    assert record(reply(1.0, True), tool="submit")["diagnostics"]["steps"] == 0
    assert record(reply(1.0, True), tool="submit")["metadata"]["ended_by"] == "submit"


def test_a_failure_is_the_reason_unless_it_comes_after_the_end() -> None:
    """The first end is the episode's."""
    journal = Journal("t", {}, 0)
    assert journal.late
    journal.fail("time was over", "deadline")
    journal.fail("crashed")
    metadata = journal.record("e", {})["metadata"]
    assert (metadata["ended_by"], metadata["void_reason"]) == ("deadline", "time was over")
