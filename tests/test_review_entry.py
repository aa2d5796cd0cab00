"""What lists show of a record, whatever its shape."""

from __future__ import annotations

from typing import Any

import pytest

from miroir.review.entry import Entry, entry_of, outcome_of, task_info


def record(**changes: Any) -> dict[str, Any]:
    """A plain successful record, with changes; keys of metadata go there."""
    metadata = {"task_hash": "h", "success": True, "harm": False, "ended_by": "submit", "checks": [], "harms": []}
    whole: dict[str, Any] = {"episode_id": "e1", "task_id": "t", "reward": 1.0, "metadata": metadata, "steps": []}
    for key, value in changes.items():
        (metadata if key in metadata or key == "void_reason" else whole)[key] = value
    return whole


def entry(**changes: Any) -> Entry:
    """Its entry."""
    return entry_of(record(**changes), "f" * 64, 10)


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({}, "success"),
        ({"success": False}, "failure"),
        ({"success": False, "reward": 0.0}, "failure"),
        ({"reward": None}, "void"),
        ({"reward": None, "success": False}, "void"),
        ({"success": "yes"}, "failure"),
        ({"reward": "1.0"}, "void"),
    ],
)
def test_void_is_told_from_failure(changes: dict[str, Any], outcome: str) -> None:
    """No reward is void, whatever else; success is the environment's word and nothing else."""
    assert outcome_of(record(**changes)) == outcome


def test_an_entry_counts_what_lists_show() -> None:
    """Checks, steps, errors, times and who played."""
    steps = [{"tool": "a", "arguments": {}, "error": None}, {"tool": "b", "arguments": {}, "error": {"message": "no"}}]
    found = entry(
        steps=steps,
        checks=[{"name": "x", "passed": True}, {"name": "y", "passed": False}],
        timings={"episode_s": 2.5, "started_at": "2026-01-01T00:00:00Z"},
        agent={"name": "chat", "model": "m"},
        trial=3,
        attempt=1,
    )

    assert (found.steps, found.tool_errors, found.checks, found.met) == (2, 1, 2, 1)
    assert (found.seconds, found.started_at, found.agent) == (2.5, "2026-01-01T00:00:00Z", "m")
    assert (found.trial, found.attempt, found.place) == (3, 1, 10)
    assert len(set(found.calls)) == 2


@pytest.mark.parametrize("odd", [None, 7, "text", [None, 1, "x", [[]]], {"a": 1}])
@pytest.mark.parametrize("key", ["steps", "checks", "harms", "timings", "agent", "trial", "episode_id", "ended_by"])
def test_odd_shapes_count_as_absent(key: str, odd: Any) -> None:
    """A key of an unexpected type breaks nothing."""
    found = entry(**{key: odd})

    assert found.task_id == "t"
    assert found.json()["outcome"] == "success"


def test_a_record_without_an_id_is_named_by_its_hash() -> None:
    """So that it can be linked to and noted on."""
    assert entry(episode_id=None).episode_id == f"sha256-{'f' * 16}"


def test_equal_calls_have_equal_hashes() -> None:
    """The order of arguments does not matter; tool, arguments and raw actions do."""
    steps = [
        {"tool": "a", "arguments": {"x": 1, "y": 2}},
        {"tool": "a", "arguments": {"y": 2, "x": 1}},
        {"tool": "a", "arguments": {"x": 2, "y": 1}},
        {"tool": "b", "arguments": {"x": 1, "y": 2}},
        {"action": {"x": 1}},
    ]
    calls = entry(steps=steps).calls

    assert calls[0] == calls[1]
    assert len(set(calls)) == 4


def test_the_task_is_told_by_its_row_or_by_the_prompt() -> None:
    """The instruction comes from the task's row, else from what the agent was told."""
    told = task_info(record(task={"instruction": "do it", "tags": ["a", 1]}, prompt="p", split="train"))

    assert (told.instruction, told.tags, told.split) == ("do it", ("a",), "train")
    assert task_info(record(prompt="p")).instruction == "p"
