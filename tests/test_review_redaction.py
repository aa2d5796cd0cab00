"""Secrets are taken out of everything that is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import rollouts

from miroir.errors import InvalidArgument
from miroir.notes import Note, append_note, record_sha256
from miroir.review import Collection, Settings, write_report
from miroir.review.redaction import Redaction

SECRET = "sk-abc123"


def test_texts_and_keys_are_redacted_everywhere() -> None:
    """At every depth, in values and in keys, and every place is counted."""
    redaction = Redaction([r"sk-\w+", "hunter2"])
    value = redaction.value({SECRET: [{"a": f"key {SECRET} {SECRET}"}, "hunter2", 7, None], "b": {"c": "clean"}})

    assert value == {"[redacted]": [{"a": "key [redacted] [redacted]"}, "[redacted]", 7, None], "b": {"c": "clean"}}
    assert redaction.count == 4


def test_deep_values_are_redacted_without_recursion() -> None:
    """Nesting beyond the interpreter's limit is no way around it."""
    deep: dict[str, object] = {"a": SECRET}
    for _ in range(5000):
        deep = {"a": deep}
    found: object = Redaction([SECRET]).value(deep)
    while isinstance(found, dict):
        found = found["a"]

    assert found == "[redacted]"


@pytest.mark.parametrize(
    ("pattern", "said"),
    [("(", "is no regular expression"), ("x*", "matches nothing at all"), ("", "matches nothing at all")],
)
def test_patterns_that_cannot_work_are_refused(pattern: str, said: str) -> None:
    """A pattern that does not compile, or that matches between any two characters."""
    with pytest.raises(InvalidArgument, match=said):
        Redaction([pattern])


def test_nothing_of_a_secret_is_in_the_report(tmp_path: Path) -> None:
    """Not in records, lists, failure groups, notes or the title; hashes are still those of the records."""
    records = list(rollouts.records(2, steps=(2, 3)))
    for record in records:
        record["task"]["instruction"] = f"use {SECRET}"
        record["metadata"]["void_reason"] = SECRET
        record["metadata"]["checks"] = [{"name": f"check {SECRET}", "passed": False, "detail": SECRET}]
        record["steps"][0]["arguments"] = {SECRET: SECRET}
    traces = rollouts.save(tmp_path / "traces.jsonl", records)
    note = Note(
        schema=1, episode_id=records[0]["episode_id"], record_sha256=record_sha256(records[0]), at="", reviewer="Ada",
        labels=[], grade_right=True, step=None, text=f"saw {SECRET}",
    )  # fmt: skip
    append_note(tmp_path / "notes.jsonl", note)
    settings = Settings(title=f"about {SECRET}", notes=[tmp_path / "notes.jsonl"])
    page = write_report(traces, tmp_path / "r.html", settings, redact=["sk-[a-z0-9]+"]).path.read_text()
    with Collection(traces, redact=["sk-[a-z0-9]+"]) as collection:
        shown = [collection.record(entry) for entry in collection.entries]
        hashes = {entry.sha256 for entry in collection.entries}

    assert SECRET not in page
    assert "[redacted]" in page
    assert SECRET not in json.dumps(shown)
    assert hashes == {record_sha256(record) for record in records}
