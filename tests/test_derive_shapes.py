"""Records of any shape: what is not of the expected type counts as absent, in every format."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from derive_records import SUBMIT, derived, left_out, record, rows, saved

from miroir.derive import FORMATS, Options, derive
from miroir.errors import RecordError

ODD: list[Any] = [True, 7, "text", [1], [[]], {"a": [1]}, [{"name": None}]]
ANYWHERE = ("task", "env", "agent", "usage", "timings", "diagnostics", "trial", "atif", "episode_id", "steps", "prompt")
INSIDE = {"env": "name", "agent": "name", "metadata": "checks", "task": "instruction", "timings": "started_at"}


def odd_records() -> list[dict[str, Any]]:
    """Successful records, each odd in one place."""
    found = [record("t", **{name: value}) for name in ANYWHERE for value in ODD]
    for section, name in INSIDE.items():
        for value in ODD:
            one = record("t")
            one[section] = {**one[section], name: value}
            found.append(one)
    found.append(record("t", timings={"started_at": "0001-01-01T00:00:00+14:00"}))
    for number, one in enumerate(found):
        if "episode_id" not in one or isinstance(one["episode_id"], str):
            one["episode_id"] = f"{number}"
        one["messages"][1]["tool_calls"][0]["function"]["arguments"] = {"query": f"{number}"}
    return found


@pytest.mark.parametrize("name", FORMATS)
def test_an_odd_record_is_a_row_or_is_counted(tmp_path: Path, name: str) -> None:
    """No record of any shape keeps the others from being written."""
    records = [*odd_records(), record("t", success=False, calls=(SUBMIT,))]
    out = tmp_path / ("folder" if FORMATS[name].file_each else "rows")
    report = derive(saved(tmp_path, records), name, out, Options(allow_splits=("none",)))

    assert report.funnels[0].read == len(records)
    assert report.rows >= 1


@pytest.mark.parametrize("split", [["train"], {"name": "train"}, 1, True])
def test_a_split_that_is_no_text_is_not_the_training_split(tmp_path: Path, split: Any) -> None:
    """It is refused as any other split is."""
    with pytest.raises(RecordError, match=r"is of split ['\"].*['\"], and evaluation tasks must not be trained on"):
        derived(tmp_path, [record(split=split)])


@pytest.mark.parametrize("call_id", [5, ["a"], {"a": 1}])
def test_the_id_of_a_call_is_text(tmp_path: Path, call_id: Any) -> None:
    """Another one is no known form of messages."""
    one = record()
    for message in one["messages"][1:3]:
        for each in message.get("tool_calls", [message]):
            each["id" if "function" in each else "tool_call_id"] = call_id
    report, _ = derived(tmp_path, [one, record("task-2")])

    assert left_out(report) == {"messages in no known form": 1}


def test_a_record_too_deep_to_be_redacted_is_left_out(tmp_path: Path) -> None:
    """What might hide in it does not reach a trainer, and the other records do."""
    deep: list[Any] = ["secret"]
    for _ in range(700):
        deep = [deep]
    report, made = derived(tmp_path, [record(calls=(("submit", {"x": deep}),)), record("task-2")], redact=("secret",))

    assert left_out(report) == {"nested too deeply": 1}
    assert [row["task_id"] for row in made] == ["task-2"]


def test_lone_surrogates_are_escaped(tmp_path: Path) -> None:
    """Half a character in a name is written as JSON escapes it, beside the rows too."""
    report, made = derived(tmp_path, [record("half \ud800", episode_id="\udfff")])
    (name,) = report.files
    manifest = json.loads(Path(name).with_suffix(".manifest.json").read_text())
    derive(tmp_path / "traces.jsonl", "rewards", tmp_path / "table.csv")
    with (tmp_path / "table.csv").open() as file:
        (row,) = csv.DictReader(file)

    assert made[0]["task_id"] == "half \ud800"
    assert list(manifest["tasks"]) == ["half \ud800"]
    assert (row["task_id"], row["episode_id"]) == ("half \\ud800", "\\udfff")


def test_episodes_of_one_name_have_files_of_their_own(tmp_path: Path) -> None:
    """Records without an id, and ids that differ only in what no file's name may hold, overwrite nothing."""
    ids: list[Any] = [..., ..., "a/b", "a?b", "x" * 300]
    records = [record(episode_id=one, calls=(("look", {"query": f"{at}"}),)) for at, one in enumerate(ids)]
    derive(saved(tmp_path, records), "hub", tmp_path / "hub")
    files = sorted((tmp_path / "hub").iterdir())

    assert [file.name[:9] for file in files] == ["None-2.js", "None.json", "a_b-2.jso", "a_b.jsonl", "xxxxxxxxx"]
    asked = {rows(file)[2]["message"]["tool_calls"][0]["function"]["arguments"]["query"] for file in files}
    assert asked == set("01234")
