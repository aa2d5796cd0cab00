"""What a run is to play, and what it has played already."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from miroir.agents import CallableAgent
from miroir.errors import InvalidArgument
from miroir.run.jobs import (
    Job,
    chosen,
    completed,
    done_key,
    numbered,
    read_tasks,
    record_key,
    remaining,
    rollouts,
    with_options,
)
from miroir.wire import Task

TASKS = completed([{"id": f"t{index}", "task_hash": "h"} for index in range(10)])


def agent(**params: Any) -> CallableAgent:
    """An agent with these options."""
    return CallableAgent("m:f", lambda: None, params)


def record(row: Task, trial: int = 0, reward: float | None = 1.0, **more: Any) -> dict[str, Any]:
    """A record of the task by `agent(rate=1)`."""
    return {
        "task_id": row["id"],
        "task": row,
        "metadata": {"task_hash": row["task_hash"]},
        "trial": trial,
        "surface": None,
        "max_seconds": None,
        "agent": {"name": "m:f", "model": None, "params": {"rate": 1}},
        "reward": reward,
        **more,
    }


def left(records: list[dict[str, Any]], k: int = 1) -> list[tuple[str, int, int]]:
    """What remains of the first two tasks: id, trial, attempt."""
    wanted = rollouts(TASKS[:2], k)
    keys = [done_key(task, trial, None, None, agent(rate=1)) for task, trial in wanted]
    return [(job.task["id"], job.trial, job.attempt) for job in remaining(wanted, keys, records)]


def test_first_trials_come_first() -> None:
    """Each task is played k times, and all first trials before any second one."""
    assert [(task["id"], trial) for task, trial in rollouts(TASKS[:2], 2)] == [
        ("t0", 0),
        ("t1", 0),
        ("t0", 1),
        ("t1", 1),
    ]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_shards_are_a_partition(count: int) -> None:
    """Every rollout is in exactly one shard, whatever the order of the tasks."""
    parts = [rollouts(list(reversed(TASKS)), 8, (index, count)) for index in range(count)]

    split = sorted((task["id"], trial) for part in parts for task, trial in part)
    assert split == sorted((task["id"], trial) for task, trial in rollouts(TASKS, 8))
    assert all(parts)


def test_a_shard_is_by_the_hash_of_task_and_trial() -> None:
    """Hosts agree without talking: SHA-256 of `id:trial`, modulo the count."""
    import hashlib

    [chosen_one] = rollouts(TASKS[:1], 1, (int(hashlib.sha256(b"t0:0").hexdigest(), 16) % 5, 5))

    assert chosen_one == (TASKS[0], 0)


def test_a_graded_rollout_is_done() -> None:
    """One graded record of a rollout is enough, whatever its reward; other trials and tasks are left."""
    assert left([record(TASKS[0], reward=0.0), record(TASKS[0], trial=1)], k=2) == [("t1", 0, 0), ("t1", 1, 0)]


def test_a_void_rollout_is_played_again() -> None:
    """A void record is not done; the attempts are counted on from it."""
    assert left([record(TASKS[0], reward=None), record(TASKS[0], reward=None), record(TASKS[1])]) == [("t0", 0, 2)]


@pytest.mark.parametrize(
    "more",
    [
        {"surface": "mcp"},
        {"max_seconds": 60},
        {"agent": {"name": "m:g", "model": None, "params": {"rate": 1}}},
        {"agent": {"name": "m:f", "model": "gpt", "params": {"rate": 1}}},
        {"agent": {"name": "m:f", "model": None, "params": {"rate": 2}}},
        {"agent": {"name": "m:f", "model": None, "params": {"rate": 1}, "given": {}}},
        {"agent": "m:f"},
        {"task": {**TASKS[0], "task_hash": "other"}},
        {"task": None, "metadata": {"task_hash": "other"}},
        {"task_id": None},
    ],
)
def test_another_rollouts_record_does_not_count(more: dict[str, Any]) -> None:
    """A record on another surface, limit, version of the task, agent, model or parameters is another rollout's."""
    assert ("t0", 0, 0) in left([record(TASKS[0], **more)])


def test_parameters_that_an_agent_tells_do_not_hide_what_it_was_given() -> None:
    """An agent that reports a default of its own is found again by the options that it was started with."""
    entry = {"name": "m:f", "model": None, "params": {"rate": 0.3}, "given": {}}

    assert record_key(record(TASKS[0], agent=entry)) == done_key(TASKS[0], 0, None, None, agent())


def test_a_record_without_its_task_is_known_by_its_metadata() -> None:
    """A record that another client saved has its hash in the metadata alone."""
    played = record(TASKS[0])
    del played["task"]

    assert left([played]) == [("t1", 0, 0)]


def test_reads_tasks_and_rows(tmp_path: Path) -> None:
    """A line is a task or a row of reset options; what a row lacks is filled in, the same each time."""
    path = tmp_path / "tasks.jsonl"
    rows = [{"id": "a", "task_hash": "h", "instruction": "Do.", "new": 1}, {"reset": {"seed": 3}}, {"id": "b"}]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n\n")

    tasks = read_tasks(path)

    assert tasks[0] == rows[0]
    assert (tasks[1]["id"], tasks[1]["reset"], tasks[2]["id"]) == ("task-1", {"seed": 3}, "b")
    assert len(tasks[1]["task_hash"]) == 64
    assert tasks == read_tasks(path)
    assert tasks[1]["task_hash"] != tasks[2]["task_hash"]


def test_the_hash_of_a_row_is_that_of_its_canonical_json() -> None:
    """SHA-256 over the row's keys in order, without spaces."""
    import hashlib

    [task] = completed([{"reset": {"b": 1, "a": "é"}, "id": "x"}])

    assert task["task_hash"] == hashlib.sha256('{"id":"x","reset":{"a":"é","b":1}}'.encode()).hexdigest()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "tasks.jsonl holds no task; write one JSON object a line"),
        ("\n \n", "holds no task"),
        ("{", "tasks.jsonl, line 1, is not JSON (.*); write one task a line"),
        ('{"id":"a"}\n[1]', "tasks.jsonl, line 2, is not a task; write"),
        ('{"reset": {"x": NaN}}', "line 1, is not JSON"),
        ('{"reset": 3}', "line 1, is not a task"),
        ('{"reset": {"max_seconds": 3}}', "line 1, sets max_seconds in its reset; that is the run's to say"),
        ('{"id": 7}', "the id of task 0 of task is 7; it must be text"),
        ('{"id": "a", "task_hash": 7}', "the task_hash of task 0 of task is 7; it must be text"),
        ('{"id":"a"}\n{"id":"a"}', "the task id 'a' is there twice; give each task its own"),
        ("\xff", None),
    ],
)
def test_refuses_what_is_no_list_of_tasks(tmp_path: Path, content: str, message: str | None) -> None:
    """A file that is no list of tasks is refused by name and line."""
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(content.encode("latin-1"))

    with pytest.raises(InvalidArgument, match=message or "cannot be read"):
        read_tasks(path)


def test_refuses_a_file_that_is_not_there(tmp_path: Path) -> None:
    """The message has the operating system's reason."""
    with pytest.raises(InvalidArgument, match="nowhere cannot be read \\(No such file or directory\\); name a file"):
        read_tasks(tmp_path / "nowhere")


def test_numbers_episodes() -> None:
    """Episodes of an environment without a list are numbered, each a task of its own."""
    tasks = numbered(3)

    assert [task["id"] for task in tasks] == ["episode-0", "episode-1", "episode-2"]
    assert len({task["task_hash"] for task in tasks}) == 3
    with pytest.raises(InvalidArgument, match="0 episodes is none; ask for at least one"):
        numbered(0)


def test_chooses_tasks_in_their_order() -> None:
    """The tasks of the ids come in the list's order, each once; an unknown id is named, with some that are known."""
    assert [task["id"] for task in chosen(TASKS, ["t3", "t1", "t3"])] == ["t1", "t3"]
    with pytest.raises(InvalidArgument, match=r"there is no task 'no'; `miroir tasks` lists them \(t0, t1, .*, …\)"):
        chosen(TASKS, ["t1", "no"])


def test_a_job_counts_from_nought() -> None:
    """Trials and attempts count from 0."""
    assert Job(TASKS[0], 0).attempt == 0


def test_fields_of_a_task_become_options_of_its_reset() -> None:
    """Under the option's name, beside those that it has; without fields the tasks are as they were."""
    [row] = completed([{"id": "a", "level": 3, "reset": {"seed": 1}}])

    assert with_options([row], {"level": "difficulty", "id": "task_id"})[0]["reset"] == {
        "seed": 1,
        "difficulty": 3,
        "task_id": "a",
    }
    assert with_options([row], {}) == [row]


def test_a_field_that_a_task_lacks_is_named() -> None:
    """Before anything is played."""
    with pytest.raises(InvalidArgument, match="task t0 has no field 'level'; it has id, task_hash, instruction"):
        with_options(TASKS, {"level": "level"})


@pytest.mark.parametrize(
    "odd",
    [
        {"trial": [0]},
        {"surface": {}},
        {"agent": {"name": ["m:f"], "model": {}}},
        {"metadata": {"task_hash": []}, "task": None},
        {"max_seconds": [1]},
        {"task_id": {"a": 1}},
    ],
)
def test_a_record_of_odd_types_is_of_no_rollout_here(odd: dict[str, Any]) -> None:
    """It is another tool's, and stops no run in its folder."""
    assert left([{**record(TASKS[0]), **odd}]) == [("t0", 0, 0), ("t1", 0, 0)]


@pytest.mark.parametrize(
    ("field", "value", "must"),
    [
        ("tools", 5, "a list"),
        ("persona", "Bob", "an object"),
        ("max_steps", "ten", "a whole number"),
        ("coworkers", "ann", "a list"),
        ("split", 3, "text"),
    ],
)
def test_refuses_a_task_whose_fields_cannot_be_played_by(field: str, value: Any, must: str) -> None:
    """Before the first episode, not in the middle of it; null is as good as missing."""
    with pytest.raises(InvalidArgument, match=f"the {field} of task 0 of task is {value!r}; it must be {must}"):
        completed([{"id": "a", field: value}])

    assert completed([{"id": "a", field: None}])[0]["id"] == "a"
