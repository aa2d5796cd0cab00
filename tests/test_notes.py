"""Notes: appended whole, read with suspicion, and what they say of a record together."""

from __future__ import annotations

import json
import logging
import resource
from pathlib import Path
from typing import Any

import pytest

from miroir.errors import RecordError
from miroir.notes import Note, append_note, read_notes, record_sha256, verdicts


def note(**given: Any) -> Note:
    """A note on an episode."""
    made: Note = {
        "schema": 1,
        "episode_id": "e1",
        "record_sha256": "hash",
        "at": "2026-01-31T10:00:00Z",
        "reviewer": "ann",
        "labels": [],
        "grade_right": None,
        "step": None,
        "text": "",
    }
    return {**made, **given}  # type: ignore[typeddict-item]


def test_notes_come_back_in_order(tmp_path: Path) -> None:
    """What was appended is read, one line each, unknown keys too."""
    path = tmp_path / "notes.jsonl"
    told = [note(text="é\n\u2028"), note(step=3, mood="good")]
    for each in told:
        append_note(path, each)

    assert read_notes(path) == told
    assert path.read_bytes().count(b"\n") == 2


def test_the_hash_is_over_canonical_json() -> None:
    """The order of keys is no difference, anything else is."""
    one = {"episode_id": "e1", "reward": 1.0, "steps": [{"a": 1, "b": "é"}]}
    other = {"steps": [{"b": "é", "a": 1}], "reward": 1.0, "episode_id": "e1"}

    assert record_sha256(one) == record_sha256(other)
    assert record_sha256(one) == record_sha256(json.loads(json.dumps(one)))
    assert record_sha256(one) != record_sha256({**one, "reward": 1})


def test_one_reviewers_doubt_counts() -> None:
    """A grade is right where somebody says so and nobody denies it; notes without a verdict say nothing."""
    said = verdicts(
        [
            note(grade_right=True),
            note(grade_right=None, reviewer="bob"),
            note(grade_right=True, episode_id="e2"),
            note(grade_right=False, episode_id="e2", reviewer="bob"),
            note(grade_right=None, episode_id="e3"),
            note(grade_right=False, episode_id="e1", record_sha256="another"),
        ]
    )

    assert said == {("e1", "hash"): True, ("e2", "hash"): False, ("e1", "another"): False}


def test_the_last_note_at_a_step_holds() -> None:
    """A reviewer takes a verdict back by a later note at the same step; one at another step leaves it."""
    assert verdicts([note(grade_right=False), note(grade_right=True)]) == {("e1", "hash"): True}
    assert verdicts([note(grade_right=False), note(grade_right=None)]) == {}
    assert verdicts([note(grade_right=False), note(grade_right=True, step=2)]) == {("e1", "hash"): False}


def test_a_line_in_the_making_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Half a last line, without its newline, is not yet there, which a warning says."""
    path = tmp_path / "notes.jsonl"
    append_note(path, note())
    with path.open("a") as file:
        file.write(json.dumps(note(text="half"))[:40])

    with caplog.at_level(logging.WARNING):
        assert read_notes(path) == [note()]
    assert caplog.messages == [f"{path}:2: the last line is half written and left out; end it, or remove it"]


@pytest.mark.parametrize("text", ["{}\n{}", "\ufeff{}\n{}\n", "{}\r\n\r\n{}\r\n", "{}\n\ufeff{}\n"])
def test_an_editor_may_have_had_the_file(tmp_path: Path, text: str) -> None:
    """No newline at the end, Windows' ends of lines, byte order marks: every note is read."""
    path = tmp_path / "notes.jsonl"
    path.write_bytes(text.format(*(json.dumps(note(step=step)) for step in range(2))).encode())

    assert read_notes(path) == [note(step=0), note(step=1)]


@pytest.mark.parametrize("end", ["", '\n{"episode_id": "typed so f'])
def test_a_note_is_appended_on_a_line_of_its_own(tmp_path: Path, end: str) -> None:
    """What an editor left without a newline stays as it is, and the note does not become a part of it."""
    path = tmp_path / "notes.jsonl"
    before = json.dumps(note()) + end
    path.write_text(before)

    append_note(path, note(text="mine"))

    assert path.read_text() == f"{before}\n{json.dumps(note(text='mine'), separators=(',', ':'))}\n"


def test_a_note_that_the_disk_takes_half_of_is_not_saved(tmp_path: Path) -> None:
    """It is an error, and the file is as it was."""
    path = tmp_path / "notes.jsonl"
    append_note(path, note())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 40, limits[1]))
    try:
        with pytest.raises(RecordError, match=r"the note was not saved to .*: File too large; name another file"):
            append_note(path, note(text="lost"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert read_notes(path) == [note()]
    assert path.read_bytes().count(b"\n") == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"notes.jsonl:2: not JSON; repair or remove the line"),
        ("[1]", r"notes.jsonl:2: not a note, which is a JSON object"),
        ('{"episode_id": 3}', r"notes.jsonl:2: not a note: its episode_id is 3; repair or remove it"),
        (json.dumps(note(grade_right="yes")), r"its grade_right is 'yes'"),
        (json.dumps(note(step=True)), r"its step is True"),
        (json.dumps(note(schema=2)), r"a note of schema 2, where this miroir reads 1; upgrade miroir"),
    ],
)
def test_what_is_no_note_is_refused(tmp_path: Path, line: str, message: str) -> None:
    """A bad line is named by file and number."""
    path = tmp_path / "notes.jsonl"
    append_note(path, note())
    with path.open("a") as file:
        file.write(f"{line}\n")

    with pytest.raises(RecordError, match=message):
        read_notes(path)


def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    """Missing files, folders and bad notes: nothing is written."""
    with pytest.raises(RecordError, match="cannot be read: No such file or directory; name a notes file"):
        read_notes(tmp_path / "missing.jsonl")
    with pytest.raises(RecordError, match=r"the note was not saved to .*: Is a directory"):
        append_note(tmp_path, note())
    with pytest.raises(RecordError, match="a note: not a note: its reviewer is None"):
        append_note(tmp_path / "notes.jsonl", note(reviewer=None))
    assert list(tmp_path.iterdir()) == []
