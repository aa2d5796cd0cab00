"""Which records are used, and where the others went."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from derive_records import LOOK, SUBMIT, derived, left_out, record, saved

from miroir.derive import Options, derive
from miroir.errors import InvalidArgument, RecordError
from miroir.notes import append_note, record_sha256


def episodes(rows: list[dict[str, Any]]) -> list[str]:
    """The rows' episodes."""
    return [row["episode_id"] for row in rows]


def looks(count: int) -> tuple[Any, ...]:
    """So many calls, and submit."""
    return (*[("look", {"query": str(number)}) for number in range(count)], SUBMIT)


def test_only_graded_successful_harmless_episodes_train(tmp_path: Path) -> None:
    """Void, failed and harmful episodes are left out, each under its own name."""
    good = record()
    void = record(reward=None, success=False)
    void["metadata"]["void_reason"] = "lost"

    report, rows = derived(tmp_path, [good, void, record(success=False), record(harm=True)])

    assert episodes(rows) == [good["episode_id"]]
    assert left_out(report) == {"void": 1, "failed": 1, "harmful": 1}


def test_success_is_the_environments_word(tmp_path: Path) -> None:
    """A reward above 0 is no success."""
    _, rows = derived(tmp_path, [record("a", reward=0.9, success=False), record("b", reward=0.1)])

    assert [row["task_id"] for row in rows] == ["b"]


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"tasks": ("a",)}, {"a"}),
        ({"agents": ("other",)}, {"b"}),
        ({"models": ("large",)}, {"c"}),
        ({"min_reward": 0.5}, {"a", "b", "c"}),
        ({"max_reward": 0.5}, {"d"}),
        ({"splits": ("train",)}, {"a", "b", "c", "d"}),
    ],
)
def test_records_are_chosen_by_their_facts(tmp_path: Path, options: dict[str, Any], kept: set[str]) -> None:
    """Task, agent, model, reward and split narrow the records."""
    records = [
        record("a"),
        record("b", agent={"name": "other", "model": "small"}),
        record("c", agent={"name": "chat", "model": "large"}),
        record("d", reward=0.2),
    ]

    _, rows = derived(tmp_path, records, **options)

    assert {row["task_id"] for row in rows} == kept


def test_times_are_compared_as_moments(tmp_path: Path) -> None:
    """An offset is taken into account; a record without a start is left out when time matters."""
    from miroir.derive import moment

    early = record("a", timings={"started_at": "2026-01-31T12:00:00+02:00"})
    late = record("b", timings={"started_at": "2026-01-31T11:00:00Z"})
    records = [early, late, record("c", timings={})]

    _, since = derived(tmp_path, records, since=moment("2026-01-31T10:30:00Z"))
    _, until = derived(tmp_path, records, until=moment("2026-01-31T10:30:00Z"))

    assert ([row["task_id"] for row in since], [row["task_id"] for row in until]) == (["b"], ["a"])


def test_a_time_that_is_none_is_refused() -> None:
    """A time must be written as ISO 8601."""
    from miroir.derive import moment

    with pytest.raises(InvalidArgument, match="'yesterday' is no time; write it like 2026-01-31"):
        moment("yesterday")


def test_failures_can_be_asked_for(tmp_path: Path) -> None:
    """The outcome may be failure or any."""
    records = [record("a"), record("b", success=False)]

    assert [row["task_id"] for row in derived(tmp_path, records, outcome="failure")[1]] == ["b"]
    assert [row["task_id"] for row in derived(tmp_path, records, outcome="any")[1]] == ["a", "b"]


def test_a_calibration_file_names_classes_and_versions(tmp_path: Path) -> None:
    """Only tasks of the asked class come through, and only in the version that was calibrated."""
    entries = {
        "a": {"task_hash": "hash of a", "class": "learnable"},
        "b": {"task_hash": "hash of b", "class": "solved"},
        "c": {"task_hash": "another", "class": "learnable"},
    }
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps({"model": "m", "k": 1, "tasks": entries}))
    records = [record("a"), record("b"), record("c"), record("d")]

    report, rows = derived(tmp_path, records, calibration=str(path), classes=("learnable",))

    assert [row["task_id"] for row in rows] == ["a"]
    assert left_out(report) == {"of a task of another class": 2, "of another version of the task": 1}


def test_two_versions_of_a_task_are_refused(tmp_path: Path) -> None:
    """Records of two versions stop the derivation, and the message says how to choose."""
    records = [record("a"), record("a", task_hash="older")]

    with pytest.raises(RecordError, match=r"task a are of 2 versions: hash of a \(1\), older \(1\); choose with --ver"):
        derived(tmp_path, records)


def test_the_current_version_can_be_chosen(tmp_path: Path) -> None:
    """By the time of the last episode, by its hash, or by a file of tasks."""
    old = record("a", task_hash="old", timings={"started_at": "2026-01-01T00:00:00Z"})
    new = record("a", task_hash="new", timings={"started_at": "2026-02-01T00:00:00Z"})
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text(json.dumps({"id": "a", "task_hash": "old"}) + "\n")

    chosen = [
        episodes(derived(tmp_path, [old, new], **options)[1])
        for options in ({"version": "latest"}, {"version": "old"}, {"tasks_file": str(tasks)})
    ]

    assert chosen == [[new["episode_id"]], [old["episode_id"]], [old["episode_id"]]]


def test_duplicates_are_dropped_by_task_and_calls(tmp_path: Path) -> None:
    """Of episodes with the same calls for the same task the first stays, whatever was said around them."""
    first, second = record(trial=0), record(trial=1)
    other_task, other_calls = record("b"), record(calls=(SUBMIT,))

    report, rows = derived(tmp_path, [second, first, other_task, other_calls])

    assert set(episodes(rows)) == {first["episode_id"], other_task["episode_id"], other_calls["episode_id"]}
    assert left_out(report) == {"with the calls of another": 1}


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"pick": "first"}, [0]),
        ({"k": 2}, [0, 1]),
        ({"pick": "best"}, [2]),
        ({"pick": "shortest"}, [1]),
        ({"pick": "best", "k": 2}, [1, 2]),
        ({}, [0, 1, 2]),
    ],
)
def test_a_tasks_records_are_picked(tmp_path: Path, options: dict[str, Any], kept: list[int]) -> None:
    """First by trial, best by reward, shortest by calls; all where nothing is said."""
    records = [
        record(trial=0, reward=0.5, calls=looks(3)),
        record(trial=1, reward=0.6, calls=looks(1)),
        record(trial=2, reward=0.7, calls=looks(2)),
    ]

    _, rows = derived(tmp_path, records, **options)

    assert episodes(rows) == [records[at]["episode_id"] for at in kept]


def test_a_random_pick_is_the_seeds(tmp_path: Path) -> None:
    """The same seed picks the same records, whatever their order in the files; seeds differ."""
    records = [record(trial=number, calls=looks(number)) for number in range(12)]
    shuffled = random.Random(1).sample(records, len(records))

    picks = [episodes(derived(tmp_path, records, pick="random", k=3, seed=seed)[1]) for seed in range(8)]

    assert picks[0] == episodes(derived(tmp_path, shuffled, pick="random", k=3, seed=0)[1])
    assert len({tuple(pick) for pick in picks}) > 1


def test_balance_takes_fewer_of_easy_tasks(tmp_path: Path) -> None:
    """A task that always succeeds gives one record, one that seldom does up to the cap."""
    easy = [record("easy", trial=number, calls=looks(number)) for number in range(4)]
    hard = [record("hard", trial=number, calls=looks(number), success=number < 2) for number in range(8)]

    _, rows = derived(tmp_path, [*easy, *hard], balance=True)

    assert [row["task_id"] for row in rows] == ["easy", "hard", "hard"]


def test_records_judged_wrong_are_left_out(tmp_path: Path) -> None:
    """A reviewer's verdict counts for the record that she read, and for no other."""
    records = [record(name) for name in "abcd"]
    notes = tmp_path / "notes.jsonl"
    for each, right, text in zip(records, (True, False, False, None), "rwwn", strict=True):
        told = each if each is not records[2] else {**each, "reward": 0.0}  # she read another record of episode c
        append_note(
            notes,
            {
                "schema": 1,
                "episode_id": each["episode_id"],
                "record_sha256": record_sha256(told),
                "at": "2026-01-31T10:00:00Z",
                "reviewer": "ann",
                "labels": [],
                "grade_right": right,
                "step": None,
                "text": text,
            },
        )

    report, rows = derived(tmp_path, records, notes=str(notes))
    reviewed, only = derived(tmp_path, records, notes=str(notes), only_reviewed=True)

    assert [row["task_id"] for row in rows] == ["a", "c", "d"]
    assert left_out(report) == {"judged wrongly graded": 1}
    assert [row["task_id"] for row in only] == ["a"]
    assert left_out(reviewed) == {"judged wrongly graded": 1, "not reviewed": 2}


def test_a_task_is_on_one_side_of_the_split(tmp_path: Path) -> None:
    """Validation holds out whole tasks, the same for the same seed."""
    records = [record(f"task-{number}", trial=trial, calls=looks(trial)) for number in range(10) for trial in range(3)]
    out = tmp_path / "rows.jsonl"

    report = derive([saved(tmp_path, records)], "sft", out, Options(validation=0.3))

    sides = [
        {json.loads(line)["task_id"] for line in path.read_text().splitlines()}
        for path in (out, tmp_path / "rows.validation.jsonl")
    ]
    assert (len(sides[0]), len(sides[1]), sides[0] & sides[1]) == (7, 3, set())
    assert {task for task, counts in report.tasks.items() if counts["side"] == "validation"} == sides[1]


def test_one_task_cannot_be_split(tmp_path: Path) -> None:
    """A split of one task would leave a side empty."""
    with pytest.raises(RecordError, match="the rows are of one task, which cannot be split; leave --validation out"):
        derived(tmp_path, [record()], validation=0.5)


def four_trials() -> list[dict[str, Any]]:
    """200 episodes of 50 tasks with four trials, 84 of them successes on 36 tasks, 7 of these with another's calls."""
    counts = [4] * 10 + [3] * 4 + [2] * 10 + [1] * 12 + [0] * 14  # successes by task: the real ones of an airline agent
    records = []
    repeats = 7
    for number, successes in enumerate(counts):
        for trial in range(4):
            succeeds = trial < successes
            again = succeeds and trial == 1 and repeats > 0
            repeats -= again
            calls = looks(0 if again else trial)
            records.append(record(f"task-{number}", trial=trial, success=succeeds, calls=calls))
    return records


def test_the_shape_of_tau_benchs_airline(tmp_path: Path) -> None:
    """84 successes on 36 tasks give 77 rows after duplicates, and at most 88 pairs of a success and a failure."""
    records = four_trials()
    successes = [each for each in records if each["metadata"]["success"]]
    assert (len(records), len(successes), len({each["task_id"] for each in successes})) == (200, 84, 36)

    report, rows = derived(tmp_path, records)
    paired, pairs = derived(tmp_path, records, "dpo")

    assert (len(rows), left_out(report)) == (77, {"failed": 116, "with the calls of another": 7})
    assert paired.funnels[1].read == len(pairs)
    assert 0 < len(pairs) <= 88


def test_nothing_left_says_where_it_went(tmp_path: Path) -> None:
    """Where no row is left the message tells the funnel, and nothing is written."""
    with pytest.raises(RecordError, match="nothing is left: 2 records read; left out: 2 failed"):
        derived(tmp_path, [record(success=False), record(success=False, calls=(LOOK,))])

    with pytest.raises(RecordError, match=r"no record to derive from \(0 records of 1 file\); name trace files"):
        derived(tmp_path, [])

    assert [path.name for path in tmp_path.iterdir()] == ["traces.jsonl"]
