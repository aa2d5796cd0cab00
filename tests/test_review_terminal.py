"""Lists and transcripts as a terminal shows them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hostile
import pytest
import rollouts

from miroir.notes import Note
from miroir.review import Collection
from miroir.review.alignment import best_pair
from miroir.review.entry import Entry
from miroir.review.plain import cells
from miroir.review.terminal import Screen, failure_lines, rollout_lines, task_lines
from miroir.review.transcript import comparison_lines, episode_lines

PLAIN = Screen(width=100)
UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    """200 episodes of 50 tasks."""
    traces = rollouts.save(tmp_path_factory.mktemp("t") / "traces.jsonl", rollouts.records(50, steps=(4, 9)))
    with Collection(traces) as made:
        yield made


def pair_of(collection: Collection) -> list[tuple[Entry, dict[str, Any]]]:
    """A good and a failing rollout with their records."""
    pairs = [best_pair(entries) for _, entries in collection.by_task()]
    pair = next(pair for pair in pairs if pair and pair.common > 1)
    return [(entry, collection.record(entry)) for entry in (pair.good, pair.bad)]


def test_every_task_has_a_line(collection: Collection) -> None:
    """Its number, name, class, a mark for each rollout, successes of graded ones and its main reason."""
    head, *lines = task_lines(collection, {"correct-by-rules-2": "learnable"}, PLAIN)

    assert head.split() == ["#", "task", "class", "score", "why"]
    assert len(lines) == 50
    assert re.match(r" +1  correct-by-rules-2 +learnable +[✓✗∅!]{4}  +\d/\d", lines[0])
    assert all(cells(line) <= 100 for line in lines)


def test_rollouts_are_listed_with_what_tells_them_apart(collection: Collection) -> None:
    """An id that can be typed, trial, outcome, reward, steps, time, reason."""
    entries = next(iter(collection.by_task()))[1]
    _, first, *_ = rollout_lines(entries, PLAIN, collection.id_width)
    entry = entries[0]

    assert first.startswith(entry.episode_id[:8])
    assert entry.outcome in first
    assert f"{entry.steps}" in first


def test_failures_are_grouped(collection: Collection) -> None:
    """The counts are those of the episodes; without failures it says so."""
    lines = failure_lines(collection.entries, PLAIN, 8)
    counts = [int(line.split()[0]) for line in lines if re.match(r" {0,4}\d+  \S", line)]

    assert sum(counts) == sum(entry.reason is not None for entry in collection.entries)
    assert counts == sorted(counts, reverse=True)
    assert failure_lines([], PLAIN, 8) == ["No episode failed."]


def test_an_episode_is_told_whole(collection: Collection) -> None:
    """Instruction, grade with each check and its evidence, every step, errors, notes."""
    entry = next(entry for entry in collection.entries if entry.outcome == "failure" and entry.tool_errors)
    record = collection.record(entry)
    note: Note = {
        "schema": 1, "episode_id": entry.episode_id, "record_sha256": entry.sha256, "at": "", "reviewer": "Ada",
        "labels": ["grader wrong"], "grade_right": False, "step": 0, "text": "look here",
    }  # fmt: skip
    text = "\n".join(episode_lines(entry, record, [note, {**note, "record_sha256": "old"}], PLAIN))
    flat = " ".join(text.split())

    assert record["task"]["instruction"].split("\n")[0][:60] in flat
    for check in record["metadata"]["checks"]:
        assert f"{'✓' if check['passed'] else '✗'} {check['name']}" in text
        assert check["detail"] in flat
    for at, step in enumerate(record["steps"], 1):
        assert re.search(rf"^ +{at}  {step['tool']}\(", text, re.MULTILINE)
    failed = next(step for step in record["steps"] if step["error"])
    assert failed["error"]["message"] in flat
    assert "note of Ada, step 1, grade wrong, grader wrong" in text
    assert "(on another version of this record)" in text


def test_a_hidden_grade_is_hidden(collection: Collection) -> None:
    """Nothing of reward, checks or harms is told."""
    entry = next(entry for entry in collection.entries if entry.outcome == "failure")
    text = "\n".join(episode_lines(entry, collection.record(entry), [], PLAIN, graded=False))

    assert "The grade is hidden until you have judged the episode." in text
    assert not re.search(r"failure|reward|✗|✓", text)


def test_two_rollouts_stand_side_by_side(collection: Collection) -> None:
    """Equal calls beside each other, the parting named where it is, within the width."""
    pair = pair_of(collection)
    lines = comparison_lines(pair, PLAIN)
    common = next(at for at, line in enumerate(lines) if line.startswith("-- they part at step")) - 1

    assert f"they part at step {common + 1} --" in lines[common + 1]
    assert [line[49] for line in lines[1 : common + 1]] == ["="] * common
    assert all(cells(line) <= 100 for line in lines)
    assert comparison_lines([pair[0], pair[0]], PLAIN)[-1] == "Every call is the same."


def test_colours_only_where_they_are_wanted(collection: Collection) -> None:
    """Without them there is no escape sequence at all."""
    lines = [*task_lines(collection, {}, PLAIN), *comparison_lines(pair_of(collection), PLAIN)]
    coloured = task_lines(collection, {}, Screen(width=100, colour=True))

    assert not any("\x1b" in line for line in lines)
    assert any("\x1b[32m✓" in line for line in coloured)


def test_a_hostile_trace_breaks_nothing(tmp_path: Path) -> None:
    """No control or escape sequence gets through, in any view, and long results are cut with a word on it."""
    with Collection(hostile.hostile(tmp_path / "traces.jsonl")) as collection:
        shown = [
            *task_lines(collection, {}, PLAIN),
            *rollout_lines(collection.entries, PLAIN, collection.id_width),
            *failure_lines(collection.entries, PLAIN, 8),
        ]
        for entry in collection.entries:
            record = collection.record(entry)
            lines = episode_lines(entry, record, [], PLAIN)
            shown += [*lines, *comparison_lines([(entry, record), (entry, record)], PLAIN)]
            assert len(lines) < 30_000

    assert not any(UNSAFE.search(line) for line in shown)
    assert any("10,000,000 characters in all" in line for line in shown)
