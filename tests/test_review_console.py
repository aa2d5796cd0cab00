"""What a reviewer types at a terminal, and what it answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import rollouts

from miroir.errors import InvalidArgument
from miroir.notes import read_notes
from miroir.review import Collection, Console, Screen, Settings, prepared


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    """32 episodes of 8 tasks."""
    with Collection(rollouts.save(tmp_path / "t.jsonl", rollouts.records(8, steps=(2, 5)))) as made:
        yield made


def console(collection: Collection, notes: Path | None = None, settings: Settings | None = None) -> Console:
    """A console on it, of reviewer Ada."""
    return Console(collection, prepared(collection, settings or Settings()), Screen(), reviewer="Ada", notes=notes)


def test_the_commands_show_what_they_say(collection: Collection) -> None:
    """Tasks, a task's rollouts, failures, an episode, two side by side, help."""
    answer = console(collection).answer
    entry = collection.entries[0]

    assert len(answer("tasks")) == 9
    assert len(answer("1")) == 5
    assert answer("failures")
    assert entry.episode_id in answer(f"show {entry.episode_id[:8]}")[1]
    assert "|" in answer(f"compare {entry.episode_id} {collection.entries[1].episode_id}")[0]
    assert answer("") == answer("help")


def test_the_best_pair_of_a_task_is_compared(collection: Collection) -> None:
    """By the task's number; a task without such a pair says so."""
    answer = console(collection).answer
    answers = []
    for number in range(1, 9):
        try:
            answers.append(answer(f"compare {number}")[0])
        except InvalidArgument as error:
            answers.append(error.message)

    assert any("success" in text and "failure" in text for text in answers)
    assert any("no success and failure to compare" in text for text in answers)


def test_a_note_is_written_and_shown(collection: Collection, tmp_path: Path) -> None:
    """With verdict, step, labels and words; the episode shows it at once."""
    made = console(collection, tmp_path / "notes.jsonl")
    entry = next(entry for entry in collection.entries if entry.outcome == "failure")
    made.answer(f"note {entry.episode_id[:8]} wrong @2 +grader_wrong +harm reads the draft")
    [note] = read_notes(tmp_path / "notes.jsonl")

    assert (note["episode_id"], note["record_sha256"], note["reviewer"]) == (entry.episode_id, entry.sha256, "Ada")
    assert (note["grade_right"], note["step"], note["labels"]) == (False, 1, ["grader wrong", "harm"])
    assert note["text"] == "reads the draft"
    assert any("reads the draft" in line for line in made.answer(f"show {entry.episode_id}"))


def test_what_was_done_is_held_against_the_grade(collection: Collection, tmp_path: Path) -> None:
    """`done` agrees with a success and disagrees with a failure; `-` says neither."""
    made = console(collection, tmp_path / "notes.jsonl")
    good = next(entry for entry in collection.entries if entry.outcome == "success")
    bad = next(entry for entry in collection.entries if entry.outcome == "failure")
    for entry, word in ((good, "done"), (good, "undone"), (bad, "done"), (bad, "undone"), (bad, "-")):
        made.answer(f"note {entry.episode_id} {word}")

    assert [note["grade_right"] for note in read_notes(tmp_path / "notes.jsonl")] == [True, False, False, True, None]


def test_a_blind_queue_goes_on_where_it_was_left(collection: Collection, tmp_path: Path) -> None:
    """Grades are hidden until judged, the next is the first without a verdict, and a later session resumes."""
    settings = Settings(size=3, seed=1, blind=True)
    notes = tmp_path / "notes.jsonl"
    made = console(collection, notes, settings)
    ids = []
    for _ in range(2):
        lines = made.answer("next")
        ids.append(lines[1].split()[0])
        assert "The grade is hidden until you have judged the episode." in lines
        made.answer(f"note {ids[-1]} done")
    assert len(set(ids)) == 2
    assert "The grade is hidden until you have judged the episode." not in made.answer(f"show {ids[0]}")
    later = console(collection, notes, Settings(size=3, seed=1, blind=True, notes=[notes]))
    third = later.answer("next")[1].split()[0]
    assert third not in ids
    later.answer(f"note {third} undone")
    assert later.answer("next") == ["You have judged them all."]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("fly", "fly is no command; `help` lists them"),
        ("0", "there is no task 0; `tasks` numbers them from 1 to 8"),
        ("9", "there is no task 9"),
        ("show", "show takes one episode id"),
        ("show zz", "no episode begins with 'zz'"),
        ("compare a b c", "compare takes the number of a task or two episode ids"),
        ("note x maybe", "note takes an episode id and a verdict"),
        ("note FIRST right @99", "the episode has no step 99; its steps are 1 to"),
    ],
)
def test_what_cannot_be_answered_says_why(collection: Collection, tmp_path: Path, words: str, said: str) -> None:
    """In one line, and nothing is written."""
    made = console(collection, tmp_path / "notes.jsonl")
    with pytest.raises(InvalidArgument, match=said):
        made.answer(words.replace("FIRST", collection.entries[0].episode_id))
    assert not (tmp_path / "notes.jsonl").exists()


def test_blind_reviewers_see_no_list(collection: Collection) -> None:
    """Nor groups, nor comparisons; and without a file there is nowhere to note."""
    made = console(collection, settings=Settings(size=3, blind=True))
    for words in ("tasks", "1", "failures", "compare 1"):
        with pytest.raises(InvalidArgument, match="grades are hidden while you judge; `next` shows an episode"):
            made.answer(words)
    with pytest.raises(InvalidArgument, match="there is no file to write notes to; give --notes FILE"):
        made.answer("note x right")
