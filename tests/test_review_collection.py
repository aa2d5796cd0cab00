"""The episodes of trace files, listed in memory and kept whole on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import rollouts

from miroir.errors import InvalidArgument, RecordError
from miroir.notes import record_sha256
from miroir.records import load
from miroir.review import Collection
from miroir.review import load as review_load


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """48 episodes of 12 tasks."""
    return rollouts.save(tmp_path / "traces.jsonl", rollouts.records(12, steps=(2, 4)))


def test_records_come_back_whole(traces: Path) -> None:
    """Every record is what the trace file holds, with its hash, and none is lost."""
    wanted = {record["episode_id"]: record for record in load(traces)}
    with Collection(traces) as collection:
        found = {entry.episode_id: collection.record(entry) for entry in collection.entries}
        hashes = {entry.episode_id: entry.sha256 for entry in collection.entries}

    assert found == wanted
    assert hashes == {episode_id: record_sha256(record) for episode_id, record in wanted.items()}
    assert str(collection.report) == "48 records of 1 file"


def test_tasks_are_sorted_with_their_numbers_as_numbers(traces: Path) -> None:
    """Task 2 comes before task 10, each task's rollouts by trial."""
    with Collection(traces) as collection:
        names = [task.task_id for task, _ in collection.by_task()]
        trials = [[entry.trial for entry in entries] for _, entries in collection.by_task()]

    assert names[:3] == ["correct-by-rules-2", "correct-by-rules-6", "correct-by-rules-10"]
    assert trials == [[0, 1, 2, 3]] * 12


def test_load_is_here_too() -> None:
    """`miroir.review.load` is the records' own."""
    assert review_load is load


def test_lone_surrogates_survive(tmp_path: Path) -> None:
    """A record that UTF-8 cannot hold is kept as it is."""
    record: dict[str, Any] = next(rollouts.records(1, steps=(1, 1)))
    record["prompt"] = "\ud800"
    with Collection(rollouts.save(tmp_path / "t.jsonl", [record])) as collection:
        assert collection.record(collection.entries[0])["prompt"] == "\ud800"


def test_episodes_are_found_by_the_beginning_of_their_id(traces: Path) -> None:
    """Enough of it is enough; too little, or nothing like it, is refused with what to do."""
    with Collection(traces) as collection:
        entry = collection.entries[5]

        assert collection.find(entry.episode_id[:12]) is entry
        assert collection.find(entry.episode_id) is entry
        with pytest.raises(InvalidArgument, match="no episode begins with 'zz'; give an episode id, as --failures"):
            collection.find("zz")
        with pytest.raises(InvalidArgument, match="48 episodes begin with ''"):
            collection.find("")


def test_no_records_are_refused(tmp_path: Path) -> None:
    """An empty file, and a file of something else, are named as such."""
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    with pytest.raises(RecordError, match=r"there is no episode to review \(0 records of 1 file\); name trace files"):
        Collection(empty)
    other = tmp_path / "other.jsonl"
    other.write_text('{"a": 1}\n')
    with pytest.raises(RecordError, match=r"other\.jsonl:1: not a record: it has no task_id"):
        Collection(other)


def test_bad_lines_are_counted_where_that_is_wanted(traces: Path) -> None:
    """A line that is no record stops a review, or is counted."""
    traces.write_text(f"{'[' * 100_000}\n{traces.read_text()}")
    with pytest.raises(RecordError, match="skip bad lines"):
        Collection(traces)
    with Collection(traces, skip_bad=True) as collection:
        assert str(collection.report) == "48 records of 1 file; 1 bad line skipped"


def test_nothing_is_left_on_disk(traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The temporary file has no name, so that it goes with the process however that ends."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    with Collection(traces) as collection:
        assert collection.record(collection.entries[0])
        assert list(folder.iterdir()) == []


def test_ids_are_shown_as_long_as_they_must_be(tmp_path: Path) -> None:
    """Eight characters, or as many as tell all episodes apart."""
    records = list(rollouts.records(1, trials=3, steps=(1, 1)))
    with Collection(rollouts.save(tmp_path / "a.jsonl", records)) as collection:
        assert collection.id_width == 8
    for at, record in enumerate(records):
        record["episode_id"] = f"episode-number-{at}"
    (tmp_path / "b.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    with Collection(tmp_path / "b.jsonl") as collection:
        assert collection.id_width == len("episode-number-0")
