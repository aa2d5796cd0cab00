"""Calibration: classes, numbers and intervals, what is refused, and the file that training chooses its tasks by."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from miroir.calibrate import (
    CLASSES,
    Tally,
    calibrate,
    calibrated,
    classify,
    comma_separated,
    compare,
    comparison_lines,
    entry,
    markdown,
    named,
    parse_gate,
    read_calibration,
    run_calibrate,
    suite_lines,
    summary,
    table,
    tally,
)
from miroir.errors import InvalidArgument, RecordError
from miroir.notes import append_note, record_sha256
from miroir.records import Report

AIRLINE = json.loads((Path(__file__).parent / "data" / "tau_bench_airline_gpt4o.json").read_text())


def record(task_id: str, reward: float | None, number: int = 0, **changes: Any) -> dict[str, Any]:
    success = changes.pop("success", reward == 1.0)
    harm = changes.pop("harm", False)
    return {
        "schema": 1,
        "episode_id": f"{task_id}-{number}",
        "task_id": task_id,
        "reward": reward,
        "metadata": {"task_hash": changes.pop("task_hash", f"hash of {task_id}"), "success": success, "harm": harm},
        **changes,
    }


def rollouts(task_id: str, rewards: Sequence[float | None], **changes: Any) -> list[dict[str, Any]]:
    return [record(task_id, reward, number, **changes) for number, reward in enumerate(rewards)]


def save(path: Path, records: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in records))
    return path


@pytest.fixture
def airline(tmp_path: Path) -> Path:
    rows = [record(f"airline-{task_id:02}", reward, trial) for task_id, trial, reward in AIRLINE["rows"]]
    return save(tmp_path / "airline.jsonl", rows)


def calibrate_records(records: Sequence[dict[str, Any]], **options: Any) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        return calibrate(save(Path(folder) / "records.jsonl", records), "m", **options)


def of(rewards: Sequence[float], successes: int | None = None) -> Tally:
    return Tally("h", list(rewards), sum(r == 1.0 for r in rewards) if successes is None else successes)


# Classes


@pytest.mark.parametrize(
    ("rewards", "successes", "kind"),
    [
        ([], None, None),
        ([1.0], None, None),
        ([1.0, 1.0], None, "solved"),
        ([0.0, 0.0], None, "out_of_reach"),
        ([0.0, 1.0], None, "learnable"),
        ([0.5, 0.5], None, "out_of_reach"),
        ([0.5, 0.5], 2, "solved"),
        ([1.0, 1.0], 1, "out_of_reach"),
        ([0.5, 0.5 + 1e-10], None, "out_of_reach"),
        ([0.5, 0.5 + 1e-8], None, "learnable"),
    ],
)
def test_classes(rewards: list[float], successes: int | None, kind: str | None) -> None:
    """Learnable when rewards vary, solved when all succeeded, else out of reach; none under two rollouts."""
    assert classify(of(rewards, successes)) == kind
    assert kind is None or kind in CLASSES


@pytest.mark.parametrize(
    ("rewards", "sure", "more"),
    [
        ([0.0, 1.0], True, 0),
        ([1.0] * 12, False, 1),
        ([1.0] * 13, True, 0),
        ([0.0] * 4, False, 9),
        ([0.0] * 13, True, 0),
        ([1.0], False, 12),
        ([], False, 13),
    ],
)
def test_a_class_is_sure_when_its_interval_is(rewards: list[float], sure: bool, more: int) -> None:
    """Two different rewards settle a task; equal ones when Clopper-Pearson's end passes three quarters or one."""
    document = calibrate_records([*rollouts("a", rewards), *rollouts("z", [0.0, 1.0])]) if rewards else None
    one = entry(of(rewards), classify(of(rewards)), 1)
    assert one["sure"] is sure
    if document:
        assert document["suite"]["rollouts_to_settle"] == more
        assert document["suite"]["unsure"] == (more > 0)


def test_partial_success_with_equal_rewards_can_be_settled() -> None:
    """Equal rewards of which some succeeded are out of reach, and further failures would settle that."""
    (one, _) = tally([record("a", 1.0), record("a", 1.0, 1, success=False), record("b", 0.0)]).values()
    assert classify(one) == "out_of_reach"
    document = calibrate_records([record("a", 1.0), record("a", 1.0, 1, success=False)])
    assert document["suite"]["rollouts_to_settle"] == 18  # 1 of 20 has an upper bound of 0.2487


# Numbers


def test_an_entry_has_every_number_of_its_task() -> None:
    """Rates over graded rollouts, harm also with the void ones, the middle of what rollouts cost."""
    rows = [
        record("a", reward, number, harm=number in (0, 3), timings={"episode_s": 10.0 * number}, **costs)
        for number, (reward, costs) in enumerate(
            [
                (1.0, {"diagnostics": {"steps": 4}, "usage": {"prompt_tokens": 100, "completion_tokens": 10}}),
                (0.5, {"diagnostics": {"steps": 8}, "usage": {"prompt_tokens": 300, "completion_tokens": 30}}),
                (0.0, {"diagnostics": {}, "usage": None}),
                (None, {"diagnostics": {"steps": 99}}),
            ]
        )
    ]
    rows[3]["metadata"]["ended_by"] = "lost"
    one = entry(tally(rows)["a"], "learnable", 2, 3)
    assert one == {
        "task_hash": "hash of a",
        "class": "learnable",
        "sure": True,
        "difficulty": "normal",
        "rollouts": 3,
        "void": 1,
        "void_by": {"lost": 1},
        "successes": 1,
        "pass@1": pytest.approx(1 / 3),
        "pass@1_interval": pytest.approx([0.061492, 0.792340], abs=1e-6),
        "pass@k": pytest.approx(2 / 3),
        "pass^k": 0.0,
        "mixed@G": 1.0,
        "reward_mean": 0.5,
        "reward_variance": pytest.approx(1 / 6),
        "reward_min": 0.0,
        "reward_max": 1.0,
        "harm_rate": pytest.approx(1 / 3),
        "harm_rate_all": 0.5,
        "episode_s": 10.0,
        "steps": 6.0,
        "tokens": 220.0,
    }


def test_what_cannot_be_known_is_none() -> None:
    """Without graded rollouts every rate is None, and with fewer than k those of k are."""
    one = entry(tally([record("a", None, harm=True)])["a"], None, 2)
    known = {key for key, value in one.items() if value is not None}
    assert known == {"task_hash", "sure", "rollouts", "void", "void_by", "successes", "harm_rate_all"}
    assert one["harm_rate_all"] == 1.0
    short = entry(of([0.0, 1.0]), "learnable", 3)
    assert (short["pass@1"], short["pass@k"], short["pass^k"], short["mixed@G"]) == (0.5, None, None, None)


@pytest.mark.parametrize(
    ("mean", "difficulty"), [(0.0, "hard"), (0.25, "hard"), (0.3, "normal"), (0.75, "normal"), (0.8, "easy")]
)
def test_difficulty_is_by_mean_reward(mean: float, difficulty: str) -> None:
    """Hard up to a quarter, normal up to three quarters, easy above."""
    assert entry(of([mean, mean]), None, 1)["difficulty"] == difficulty


def test_graded_rewards_are_mixed_when_any_differ() -> None:
    """With partial credit a group has an advantage though no rollout succeeds; rewards 1e-9 apart are equal."""
    assert entry(of([0.2, 0.4, 0.4, 0.4]), "learnable", 2)["mixed@G"] == 0.5
    assert entry(of([0.2, 0.2 + 1e-10, 0.2, 0.2]), "out_of_reach", 2)["mixed@G"] == 0.0


def test_the_airline_suite_has_its_published_numbers(airline: Path) -> None:
    """tau-bench's gpt-4o airline rewards, end to end: the suite's means, intervals and useful groups."""
    document = calibrate(airline, "gpt-4o")
    suite = document["suite"]
    assert (document["k"], document["group"]) == (4, 4)
    assert (suite["tasks"], suite["rollouts"], suite["void"]) == (50, 200, 0)
    assert list(suite["pass^"].values()) == pytest.approx([0.42, 0.27333333, 0.22, 0.20])
    assert list(suite["pass@"].values()) == pytest.approx([0.42, 0.56666667, 0.66, 0.72])
    assert suite["reward"] == pytest.approx(
        {"mean": 0.42, "error": 0.0522161911, "low": 0.3150676354, "high": 0.5249323646, "tasks": 50}
    )
    assert suite["pass^k"] == pytest.approx({"mean": 0.2, "low": 0.10, "high": 0.32, "tasks": 50})
    for group, mixed in ((2, 0.29333333), (3, 0.44), (4, 0.52)):
        suite = calibrate(airline, "gpt-4o", group=group)["suite"]
        assert suite["mixed@G"] == pytest.approx(mixed)
        assert suite["useful_groups_per_100"] == pytest.approx(100 * mixed)
    classes = [one["class"] for one in document["tasks"].values()]
    assert [classes.count(kind) for kind in CLASSES] == [10, 26, 14]


def test_tasks_with_fewer_rollouts_do_not_hide_those_of_others() -> None:
    """k is the fewest rollouts of a classed task; a task that was played once has no say in it."""
    document = calibrate_records([*rollouts("a", [0, 1, 1]), *rollouts("b", [1, 1]), *rollouts("c", [0])])
    assert document["k"] == 2
    assert document["tasks"]["a"]["pass@k"] == 1.0
    assert document["tasks"]["c"]["pass@k"] is None
    assert document["suite"]["pass@k"]["tasks"] == 2
    assert calibrate_records([*rollouts("a", [0, 1, 1]), *rollouts("b", [1, 1])], k=3)["suite"]["pass@k"]["tasks"] == 1


@pytest.mark.parametrize("outcome", [0, 1])
def test_a_suite_whose_tasks_are_all_alike_is_not_sure(outcome: int) -> None:
    """Three solved tasks leave room for others that are not, and so do three failed ones: no interval is a point."""
    document = calibrate_records([row for name in "abc" for row in rollouts(name, [outcome] * 4)])
    ends = pytest.approx((0.2924018, 1.0) if outcome else (0.0, 0.7075982))
    for name in ("reward", "pass@1", "pass@k", "pass^k"):
        estimate = document["suite"][name]
        assert (estimate["mean"], (estimate["low"], estimate["high"])) == (outcome, ends)


def test_a_reward_that_is_no_rate_may_be_beyond_one() -> None:
    """Only rewards of 0 and 1 are known to stop there."""
    partial = calibrate_records([*rollouts("a", [0.5, 1]), *rollouts("b", [0, 0])])["suite"]["reward"]
    whole = calibrate_records([*rollouts("a", [1, 1]), *rollouts("b", [0, 1])])["suite"]["reward"]
    assert partial["low"] < 0 < 1 < partial["high"]
    assert (whole["low"], whole["high"]) == (0, 1)


# What goes into a tally


def test_a_tally_counts_graded_and_void_rollouts() -> None:
    """Void ones count apart, and harm in them does too."""
    one = tally([*rollouts("a", [1.0, 0, None]), record("a", None, 3, harm=True), record("a", 0.0, 4, harm=True)])["a"]
    assert (one.task_hash, one.rewards, one.successes) == ("hash of a", [1.0, 0.0, 0.0], 1)
    assert (one.harmed, one.void, one.harmed_void) == (1, 2, 1)


def test_a_record_without_what_is_needed_is_refused() -> None:
    """The record's number and the key are named."""
    row = record("a", 1.0)
    del row["metadata"]["task_hash"]
    with pytest.raises(
        RecordError, match=r"record 2: not a record: it has no metadata\.task_hash; is it a record of an"
    ):
        tally([record("a", 1.0), row])


def by(name: str, model: str) -> dict[str, Any]:
    return {"agent": {"name": name, "model": model, "params": {}}}


def test_agents_are_refused_when_mixed_and_not_chosen() -> None:
    """Records of several agents say nothing of any; a filter by name or model chooses."""
    rows = [
        *rollouts("a", [0, 1], **by("chat", "small")),
        *rollouts("a", [1, 1, 1], **by("chat", "large")),
        *rollouts("a", [0], **by("tree", "large")),
    ]
    for number, row in enumerate(rows):
        row["episode_id"] = str(number)
    message = (
        r"the records are of 3 agents: chat with large \(3\), chat with small \(2\), tree with large \(1\); "
        "choose one with --agent-filter or --model-filter"
    )
    with pytest.raises(RecordError, match=message):
        tally(rows)
    assert tally(rows, model="small")["a"].rewards == [0.0, 1.0]
    assert tally(rows, agent="chat", model="large")["a"].rewards == [1.0, 1.0, 1.0]
    with pytest.raises(RecordError, match="the records are of 2 agents"):
        tally(rows, model="large")
    message = r"none of 6 records is of that agent and model; they are of chat with large \(3\), chat with small \(2\)"
    with pytest.raises(RecordError, match=message):
        calibrate_records(rows, agent_filter="other")
    with pytest.raises(RecordError, match=r"2 agents: chat with small \(2\), nobody named \(1\);"):
        tally([*rows[:2], record("a", 1.0, 3)])
    document = calibrate_records(rows, model_filter="small")
    assert document["agent"] == {"name": "chat", "model": "small"}
    assert (document["counts"]["records"], document["counts"]["counted"], document["counts"]["left_out"]) == (6, 2, 4)


def test_a_void_rollout_of_no_known_agent_is_no_other_agent() -> None:
    """What failed before an agent played counts as void of the one that plays."""
    rows = [
        *rollouts("a", [0, 1], **by("chat", "small")),
        record("a", None, 2, agent={"name": "chat"}),
        record("b", None),
    ]
    document = calibrate_records(rows)
    assert document["agent"] == {"name": "chat", "model": "small"}
    assert document["suite"]["void"] == 2


def test_versions_of_a_task_are_refused_when_mixed_and_not_chosen() -> None:
    """Both are named with their counts; `latest` goes by the last start, a hash chooses where a task has it."""
    old = rollouts("a", [0, 0, 0], task_hash="old", timings={"started_at": "2026-01-01T23:00:00Z"})
    new = rollouts("a", [1, 1], task_hash="new", timings={"started_at": "2026-01-01T23:30:00Z"})
    other = rollouts("b", [0, 1])
    for number, row in enumerate([*old, *new]):
        row["episode_id"] = str(number)
    message = (
        r"rollouts of several versions of a; those of a are old \(3 rollouts\), new \(2 rollouts\); "
        "choose with --version latest or --version HASH"
    )
    with pytest.raises(RecordError, match=message):
        tally([*old, *new, *other])
    assert tally([*new, *old, *other], versions=["latest"])["a"].task_hash == "new"
    for row in old:
        row["timings"] = {"started_at": "2026-01-02T00:59:00+02:00"}  # an hour later by the clock on the wall alone
    assert tally([*new, *old, *other], versions=["latest"])["a"].task_hash == "new"
    chosen = tally([*old, *new, *other], versions=["old"])
    assert (chosen["a"].task_hash, chosen["b"].task_hash) == ("old", "hash of b")
    with pytest.raises(InvalidArgument, match="no record has the task_hash older; give --version latest or another"):
        tally([*old, *new], versions=["older"])


def test_latest_needs_to_know_when_rollouts_started() -> None:
    """Where no version says so, none is the latest."""
    rows = [record("a", 1.0, 0, task_hash="x"), record("a", 1.0, 1, task_hash="y", timings={"started_at": None})]
    with pytest.raises(RecordError, match="rollouts of several versions of a"):
        tally(rows, versions=["latest"])


def test_records_that_reviewers_dispute_are_left_out(tmp_path: Path) -> None:
    """A note that holds a record's grade to be wrong leaves it out and is counted; one on another record does not."""
    rows = [*rollouts("a", [0, 1, 1], big=2**70), *rollouts("b", [1, 1])]
    notes = [
        {"record_sha256": record_sha256(rows[0]), "episode_id": "a-0", "grade_right": False},
        {"record_sha256": record_sha256(rows[1]), "episode_id": "a-1", "grade_right": True},
        {"record_sha256": "of a record since replaced", "episode_id": "a-2", "grade_right": False},
    ]
    for note in notes:
        append_note(
            tmp_path / "notes.jsonl",
            {
                "schema": 1,
                "at": "2026-01-01T00:00:00Z",
                "reviewer": "r",
                "labels": [],
                "step": None,
                "text": "",
                **note,
            },
        )
    document = calibrate_records(rows, notes=tmp_path / "notes.jsonl")
    assert document["tasks"]["a"]["class"] == "solved"
    assert (document["counts"]["records"], document["counts"]["disputed"], document["counts"]["left_out"]) == (5, 1, 0)


# What is refused


@pytest.mark.parametrize(
    ("records", "options", "message"),
    [
        ([], {}, r"no record to calibrate by \(0 records of 1 file\); name trace files that hold records"),
        (
            rollouts("a", [1.0]),
            {},
            r"no task has two graded rollouts \(1 record of 1 file\); run more rollouts of each",
        ),
        (rollouts("a", [1.0, None]), {}, "no task has two graded rollouts"),
        (rollouts("a", [1, 0]), {"k": 0}, "k is 0, and tasks have up to 2 graded rollouts; give a k from 1 to that"),
        (rollouts("a", [1, 0]), {"k": 3}, "k is 3, and tasks have up to 2 graded rollouts"),
        (rollouts("a", [1, 0]), {"group": 1}, "a group has at least 2 rollouts, got 1"),
        ([{"task_id": "a"}], {}, r"records\.jsonl:1: not a record: it has no reward"),
    ],
)
def test_what_cannot_be_calibrated_is_one_line_and_changes_no_file(
    tmp_path: Path, records: list[dict[str, Any]], options: dict[str, Any], message: str
) -> None:
    """A ValueError that says what to do, and the old file stays as it was."""
    out = tmp_path / "out.json"
    out.write_text("old")
    with pytest.raises(ValueError, match=message) as caught:
        run_calibrate(save(tmp_path / "records.jsonl", records), "m", out, **options)
    assert "\n" not in str(caught.value)
    assert out.read_text() == "old"


def test_no_traces_at_all(tmp_path: Path) -> None:
    """A folder without trace files, and a name that is nothing."""
    with pytest.raises(RecordError, match=r"there is no record to calibrate by \(0 records of 0 files\)"):
        calibrate(tmp_path, "m")
    with pytest.raises(RecordError, match="nothing does not exist"):
        calibrate(tmp_path / "nothing", "m")


# The file


def test_run_calibrate_writes_the_file_and_prints(airline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Table and summary on stdout; JSON with indent 2, sorted tasks and a final newline, in folders that it makes."""
    out = airline.parent / "deep" / "er" / "out.json"
    assert run_calibrate(str(airline), "gpt-4o", out) is None
    text = out.read_text()
    document = json.loads(text)
    assert text == json.dumps(document, indent=2) + "\n"
    assert list(document["tasks"]) == sorted(document["tasks"])
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split() == ["task", "n", "void", "pass@1", "pass@4", "pass^4", "reward", "var", "harm", "class"]
    assert printed[2].split() == ["airline-01", "4", "0", "0.25", "1.00", "0.00", "0.25", "0.19", "0.00", "learnable"]
    assert printed[51:] == [
        "50 tasks: 10 solved, 26 learnable, 14 out of reach",
        "0 of 200 rollouts void (0.0 %)",
        f"model gpt-4o, k 4: {out}",
        "reward 0.42 (0.32..0.52); pass@4 0.72 (0.59..0.85); pass^4 0.20 (0.10..0.32); void 0.0 %, harm 0.0 %",
        "of groups of 4 rollouts 52 in 100 are mixed; at most 216 more rollouts settle 24 unsure tasks",
    ]
    assert sorted(path.name for path in out.parent.iterdir()) == ["out.json"]


def test_the_file_says_what_it_was_made_from(airline: Path) -> None:
    """Each input with its size, SHA-256 and records; what was read, dropped and left out is counted."""
    other = airline.parent / "b.jsonl"
    other.write_bytes(airline.read_bytes()[:400] + b'{"half')
    document = calibrate([airline, other], "gpt-4o", skip_bad=True)
    data = airline.read_bytes()
    assert document["inputs"][0] == {
        "path": str(airline),
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "records": 200,
    }
    assert document["inputs"][1]["sha256"] == hashlib.sha256(other.read_bytes()).hexdigest()
    assert document["counts"]["duplicates"] + document["counts"]["torn"] >= 2
    assert (document["schema"], document["model"]) == (1, "gpt-4o")


def test_a_pipe_has_no_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read from standard input is gone once read."""
    data = "".join(json.dumps(row) + "\n" for row in rollouts("a", [0, 1])).encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert calibrate("-", "m")["inputs"] == [{"path": "-", "bytes": None, "sha256": None, "records": 2}]


def test_the_same_traces_give_the_same_file(airline: Path, tmp_path: Path) -> None:
    """Nothing in it depends on the time or on chance."""
    for name in ("a.json", "b.json"):
        run_calibrate(airline, "m", tmp_path / name)
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_a_file_that_cannot_be_written_is_named(airline: Path) -> None:
    """And nothing half written is left."""
    with pytest.raises(
        RecordError, match=r"airline\.jsonl/out\.json cannot be written: (Not a directory|File exists); "
    ):
        run_calibrate(airline, "m", airline / "out.json")
    assert [path.name for path in airline.parent.iterdir()] == ["airline.jsonl"]


def test_files_of_the_first_version_are_read(tmp_path: Path) -> None:
    """A task_hash and a class suffice, without a schema."""
    document = {"model": "m", "k": 2, "tasks": {"a": {"task_hash": "h", "class": None}}}
    path = tmp_path / "old.json"
    path.write_text(json.dumps(document))
    assert read_calibration(path) == document


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no calibration file: not JSON; write it with `miroir calibrate`"),
        ("[" * 100_000, "is no calibration file: not JSON"),
        ("[]", "is no calibration file: it has no tasks"),
        ('{"tasks": []}', "is no calibration file: it has no tasks"),
        ('{"schema": 2, "tasks": {}}', "has schema 2, where this miroir reads 1; upgrade miroir"),
        (
            '{"tasks": {"a": {"class": "solved"}, "b": 1}}',
            "lacks a task_hash or a known class for a, b; run `miroir cal",
        ),
        ('{"tasks": {"a": {"task_hash": "h", "class": "hard"}}}', "lacks a task_hash or a known class for a"),
        ('{"tasks": {"a": {"task_hash": "h", "class": []}}}', "lacks a task_hash or a known class for a"),
        ('{"tasks": {"a": {"task_hash": "h"}}}', "lacks a task_hash or a known class for a"),
    ],
)
def test_what_is_no_calibration_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """A ValueError that names the file and what to run."""
    path = tmp_path / "c.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"c\.json {message}"):
        read_calibration(path)
    with pytest.raises(ValueError, match=r"none\.json cannot be read: No such file or directory; write it with"):
        read_calibration(tmp_path / "none.json")


# Tasks chosen by it


def tasks(*names: str) -> list[dict[str, Any]]:
    return [{"id": name, "task_hash": f"hash of {name}", "instruction": ""} for name in names]


@pytest.fixture
def chosen(tmp_path: Path) -> Path:
    rows = [
        *rollouts("solved", [1, 1, 1]),
        *rollouts("hard", [0, 0, 1]),
        *rollouts("easy", [0, 1, 1, 1]),
        *rollouts("lost", [0, 0]),
        *rollouts("once", [1]),
    ]
    run_calibrate(save(tmp_path / "r.jsonl", rows), "m", tmp_path / "c.json", group=3)
    return tmp_path / "c.json"


def test_tasks_are_kept_by_class_in_their_order(chosen: Path) -> None:
    """The tasks' own order, whatever the file's; a class of null is never kept."""
    every = tasks("once", "lost", "hard", "solved", "easy")
    assert calibrated(every, chosen) == tasks("hard", "easy")
    assert calibrated(every, chosen, keep=CLASSES) == tasks("lost", "hard", "solved", "easy")
    assert calibrated(every, chosen, ["solved"])[0] is every[3]


def test_tasks_are_kept_by_their_numbers(chosen: Path) -> None:
    """At least so many rollouts, at most such a pass@1, at least such a chance of a mixed group."""
    every = tasks("easy", "hard", "solved")
    assert calibrated(every, chosen, min_rollouts=4) == tasks("easy")
    assert calibrated(every, chosen, max_pass=0.5) == tasks("hard")
    assert calibrated(every, chosen, min_mixed=0.9) == tasks("hard")
    assert calibrated(every, chosen, CLASSES, min_mixed=0.0, max_pass=1.0) == every


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (tasks("hard"), {"keep": ()}, r"keep must name some of solved, learnable, out_of_reach, got \(\)"),
        (tasks("hard"), {"keep": ["hard"]}, "keep must name some of"),
        (tasks("hard"), {"keep": "learnable"}, "keep must name some of .* got 'learnable'"),
        (
            tasks(*"abcdefg"),
            {},
            r"c\.json has no entry for a, b, c, d, e and 2 more; run `miroir calibrate` on rollouts",
        ),
        (
            [{"id": "hard", "task_hash": "x"}],
            {},
            r"is of another version \(task_hash\) of hard; run `miroir calibrate`",
        ),
        (tasks("solved", "once"), {}, "leaves none of 2 tasks as learnable within the bounds; keep more classes"),
        ([], {}, "leaves none of 0 tasks"),
        (tasks("hard"), {"max_pass": 0.1}, "leaves none of 1 tasks"),
    ],
)
def test_a_choice_that_does_not_fit_is_refused(
    chosen: Path, given: list[dict[str, Any]], options: dict[str, Any], message: str
) -> None:
    """A ValueError that names at most five tasks and what to run."""
    with pytest.raises(ValueError, match=message):
        calibrated(given, chosen, **options)


def test_bounds_need_numbers_that_old_files_lack(tmp_path: Path) -> None:
    """A file of 0.0.1 with task_hash and class alone cannot be chosen from by number."""
    path = tmp_path / "old.json"
    path.write_text(json.dumps({"tasks": {"hard": {"task_hash": "hash of hard", "class": "learnable"}}}))
    assert calibrated(tasks("hard"), path) == tasks("hard")
    with pytest.raises(RecordError, match=r"old\.json has no mixed@G for hard; run"):
        calibrated(tasks("hard"), path, min_mixed=0.5)
    path.write_text(path.read_text().replace('"class"', '"mixed@G": "most", "class"'))
    with pytest.raises(RecordError, match=r"old\.json has no mixed@G for hard; run"):
        calibrated(tasks("hard"), path, min_mixed=0.5)


# For people


def test_names_are_few_and_safe() -> None:
    """Five names and the number of the others; control characters cannot reach the terminal."""
    assert named("abcde") == "a, b, c, d, e"
    assert named("abcdefg") == "a, b, c, d, e and 2 more"
    assert named(["\x1b[2J\n", "ü"]) == "\\x1b[2J\\n, ü"


def test_the_table_shows_dashes_for_what_is_unknown() -> None:
    """Two decimals, aligned; a control character in a task's name is escaped."""
    document = calibrate_records([*rollouts("task\t1", [0, 1, 0.125]), *rollouts("c", [None])], k=3)
    assert table(document["tasks"], 3).splitlines() == [
        "task     n  void  pass@1  pass@3  pass^3  reward   var  harm      class",
        "c        0     1       -       -       -       -     -     -          -",
        "task\\t1  3     0    0.33    1.00    0.00    0.38  0.20  0.00  learnable",
    ]


def test_the_wide_table_has_more_at_the_right(chosen: Path) -> None:
    """Whether the class is sure, the mixed groups, the interval, and what a rollout costs."""
    entries = read_calibration(chosen)["tasks"]
    head, easy, *_ = table(entries, 2, group=3, wide=True).splitlines()
    assert head.split()[10:] == ["sure", "mixed@3", "95", "%", "min", "max", "difficulty", "seconds", "steps", "tokens"]
    assert easy.split()[9:] == ["learnable", "yes", "0.75", "0.30..0.95", "0.00", "1.00", "normal", "-", "-", "-"]


def test_the_summary_names_what_has_no_class_or_too_few_rollouts() -> None:
    """Tasks and classes, the unclassed, those shorter than k, void rollouts, and the file."""
    rows = [*rollouts("a", [0, 1, None, 1]), *rollouts("b", [1, 1]), *rollouts("c", [1])]
    document = calibrate_records(rows, k=3)
    assert summary(document["tasks"], "m", 3, "out.json").splitlines() == [
        "3 tasks: 1 solved, 1 learnable, 0 out of reach",
        "1 without a class, having fewer than two graded rollouts: c",
        "pass@3 and pass^3 are null for 2 with fewer than 3 of them: b, c",
        "1 of 7 rollouts void (14.3 %)",
        "model m, k 3: out.json",
    ]


def test_suite_lines_say_when_nothing_is_left_to_settle() -> None:
    """One task has no interval; a group larger than any task's rollouts tells nothing."""
    document = calibrate_records(rollouts("a", [0, 1]), group=8)
    assert suite_lines(document["suite"], 2, 8).splitlines() == [
        "reward 0.50; pass@2 1.00; pass^2 0.00; void 0.0 %, harm 0.0 %",
        "of groups of 8 rollouts no task has so many; every class is sure",
    ]


def test_void_rollouts_leave_a_rate_open() -> None:
    """They are in no mean; how far they could move it, had they failed or succeeded, is told beside their share."""
    document = calibrate_records([*rollouts("a", [0, 1, None, 1]), *rollouts("b", [None]), *rollouts("c", [1, 1])])
    assert document["suite"]["pass@1_void_bounds"] == pytest.approx([4 / 7, 6 / 7])
    assert "; void 28.6 % (pass@1 0.57..0.86 had they all failed or succeeded), harm 0.0 %" in suite_lines(
        document["suite"], 2, 2
    )
    assert calibrate_records(rollouts("a", [0, 1]))["suite"]["pass@1_void_bounds"] == [0.5, 0.5]


def test_markdown_and_csv_hold_the_same_tasks(chosen: Path) -> None:
    """Markdown has the table's cells, a bar in a name escaped; CSV every number unrounded."""
    entries = {"a|b": read_calibration(chosen)["tasks"]["hard"]}
    assert markdown(entries, 2).splitlines() == [
        "| task | n | void | pass@1 | pass@2 | pass^2 | reward | var | harm | class |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| a\\|b | 3 | 0 | 0.33 | 0.67 | 0.00 | 0.33 | 0.22 | 0.00 | learnable |",
    ]
    (row,) = csv.DictReader(io.StringIO(comma_separated(entries)))
    assert (row["task_id"], row["class"], row["steps"]) == ("a|b", "learnable", "")
    assert float(row["pass@1"]) == 1 / 3
    assert float(row["pass@1_low"]) == pytest.approx(0.0615, abs=1e-4)


# Against another


def test_a_comparison_is_paired_by_task(tmp_path: Path) -> None:
    """Differences of means task by task, regressions and improvements by size, and who is not in both."""
    before = [*rollouts("a", [0, 1]), *rollouts("b", [1, 1]), *rollouts("c", [0, 0]), *rollouts("d", [1, 0])]
    after = [*rollouts("a", [0, 1]), *rollouts("b", [0, 0]), *rollouts("c", [0, 1]), *rollouts("e", [1, 0])]
    run_calibrate(save(tmp_path / "r.jsonl", before), "old", tmp_path / "old.json")
    compared = compare(calibrate_records(after)["tasks"], tmp_path / "old.json")
    assert compared["tasks"] == 3
    assert compared["difference"]["mean"] == pytest.approx(-1 / 6)
    assert compared["regressions"] == {"b": (1.0, 0.0)}
    assert compared["improvements"] == {"c": (0.0, 0.5)}
    assert compared["mcnemar"] == 1.0
    assert (compared["only_here"], compared["only_there"]) == (["e"], ["d"])
    assert comparison_lines(compared).splitlines() == [
        f"against {tmp_path}/old.json: reward -0.17 (-2.06..+1.73) over 3 tasks, McNemar p 1",
        "regressions: 1 (b 1.00 -> 0.00)",
        "improvements: 1 (c 0.00 -> 0.50)",
        "2 tasks are not graded in both: e, d",
    ]


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (
            {"a": {"task_hash": "x", "class": None, "reward_mean": 1.0}},
            r"is of another version \(task_hash\) of a; comp",
        ),
        ({"a": {"task_hash": "hash of a", "class": None}}, "lacks reward_mean for a; calibrate those rollouts again"),
        (
            {"b": {"task_hash": "h", "class": None, "reward_mean": 1.0}},
            "share no graded task; compare runs of the same",
        ),
        ({"a": {"task_hash": "hash of a", "class": None, "reward_mean": None}}, "share no graded task"),
    ],
)
def test_a_comparison_that_means_nothing_is_refused(tmp_path: Path, entries: dict[str, Any], message: str) -> None:
    """Other versions, missing numbers, and no task in common."""
    (tmp_path / "old.json").write_text(json.dumps({"tasks": entries}))
    with pytest.raises(RecordError, match=message):
        compare(calibrate_records(rollouts("a", [0, 1]))["tasks"], tmp_path / "old.json")


def test_a_report_is_filled_on_the_way(airline: Path) -> None:
    """What the command says on stderr comes from the loading."""
    report = Report()
    calibrate(airline, "m", report=report)
    assert str(report) == "200 records of 1 file"


@pytest.mark.parametrize("reward", [1e200, -1e308, float("nan")])
def test_rewards_beyond_all_measure_are_refused(reward: float) -> None:
    """Their mean and variance are no numbers; the message names the task."""
    with pytest.raises(RecordError, match=r"rewards of a are beyond 1e\+100; mend the grader, or leave those records"):
        tally([record("a", 1.0), record("a", reward, 1), record("b", 1.0)])


def test_odd_numbers_and_names_of_a_record_are_as_if_missing() -> None:
    """Seconds, steps and tokens beyond the floats, and an agent whose name is no text, stop no calibration."""
    odd = {"timings": {"episode_s": 10**400}, "diagnostics": {"steps": 10**400}, "usage": {"prompt_tokens": 10**400}}
    rows = [record("a", 1.0, number, agent={"name": ["x"], "model": {}}, **odd) for number in range(2)]
    one = tally(rows)["a"]

    assert (one.agent, one.seconds, one.steps, one.tokens) == ((None, None), [], [], [])


def test_a_record_whose_episode_id_is_no_text_is_disputed_by_no_note(tmp_path: Path) -> None:
    """Notes are on episodes, which have ids."""
    rows = [record("a", 1.0, number, episode_id=["a"]) for number in range(2)]
    note = {"schema": 1, "episode_id": "a-0", "record_sha256": "x", "at": "2026-01-01T00:00:00Z", "reviewer": "r"}
    append_note(tmp_path / "notes", {**note, "labels": [], "grade_right": False, "step": None, "text": ""})

    assert calibrate_records(rows, notes=tmp_path / "notes")["counts"]["disputed"] == 0


@pytest.mark.parametrize("bound", ["nan", "inf", "-inf", "", "much"])
def test_a_gate_without_a_number_is_refused(bound: str) -> None:
    """No gate can pass because nothing is under its bound."""
    with pytest.raises(InvalidArgument, match=f"a gate is .* such as pass@1=0.4, not 'pass@1={bound}'"):
        parse_gate(f"pass@1={bound}")


@pytest.mark.parametrize("there", ['{"a": 1}\n{"b": 2}\n', '{"tasks": []}', "# notes of mine"])
def test_a_file_that_is_no_calibration_is_not_written_over(tmp_path: Path, there: str) -> None:
    """Traces, notes or anything else that would be lost; nor by another name of it."""
    traces, other, link = tmp_path / "traces.jsonl", tmp_path / "other.json", tmp_path / "link.json"
    traces.write_text("".join(json.dumps(row) + "\n" for row in rollouts("a", [0, 1])))
    other.write_text(there)
    link.symlink_to(traces)
    before = traces.read_bytes()
    for out in (traces, link, other):
        with pytest.raises(InvalidArgument, match=f"{out} is there and no calibration file, so it is not replaced"):
            run_calibrate(traces, "m", out)

    assert traces.read_bytes() == before
    assert other.read_text() == there


def test_a_calibration_and_an_empty_file_are_written_over(tmp_path: Path) -> None:
    """As a second run with the same command does."""
    traces, out = tmp_path / "traces.jsonl", tmp_path / "out.json"
    traces.write_text("".join(json.dumps(row) + "\n" for row in rollouts("a", [0, 1])))
    out.touch()
    for _ in range(2):
        run_calibrate(traces, "m", out)

    assert "a" in read_calibration(out)["tasks"]


@pytest.mark.parametrize("mean", [float("nan"), 10**400, 1e308, "0.5", True])
def test_a_comparison_needs_means_that_are_numbers(tmp_path: Path, mean: Any) -> None:
    """Another calibration's mean that no difference can be taken of is refused by task."""
    document = calibrate_records(rollouts("a", [0, 1]))
    path = tmp_path / "other.json"
    path.write_text(json.dumps({"tasks": {"a": {**document["tasks"]["a"], "reward_mean": mean}}}))
    with pytest.raises(RecordError, match="lacks reward_mean for a; calibrate those rollouts again"):
        compare(document["tasks"], path)
