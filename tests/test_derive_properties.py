"""What holds for any traces: nothing unfit comes through, counts add up, the same inputs give the same bytes."""

from __future__ import annotations

import json
import random
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from derive_records import LOOK, SUBMIT, record, saved
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from miroir.derive import FORMATS, Options, derive
from miroir.derive.formats import Kind
from miroir.errors import RecordError

FULL = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
PROMPTS = ("Who owns it?\n\nToday is 2026-01-31 (UTC).", "Who owns it?\n\nToday is 2026-02-01 (UTC).", "Who has it?")
TASKS = ("a", "b", "c", "d")
EPISODE = r"\d{32}"  # how the ids of these records look


@st.composite
def traces(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Records of a few tasks: void, harmful, failed, stale, of eval tasks under other ids, duplicates, by programs."""
    made = []
    for number in range(draw(st.integers(1, 14))):
        task_id = draw(st.sampled_from(TASKS))
        void = draw(st.integers(0, 5)) == 0
        success = not void and draw(st.booleans())
        changes: dict[str, Any] = {"messages": ...} if draw(st.integers(0, 3)) == 0 else {}
        calls = [("look", {"query": draw(st.sampled_from("xy"))}) for _ in range(draw(st.integers(0, 3)))]
        made.append(
            _marked(
                task_id,
                success=success,
                harm=draw(st.integers(0, 4)) == 0,
                reward=None if void else draw(st.sampled_from((0.0, 0.5, 1.0))),
                task_hash=f"hash of {task_id}" if draw(st.integers(0, 3)) else "stale",
                calls=(*calls, SUBMIT if draw(st.booleans()) else LOOK),
                prompt=draw(st.sampled_from(PROMPTS)),
                trial=number,
                **changes,
            )
        )
    return made


def _marked(*args: Any, **given: Any) -> dict[str, Any]:
    """A record that is known by what its first call found, in formats that keep no ids."""
    made = record(*args, **given)
    made["steps"][0]["result"] = made["episode_id"]
    if "messages" in made:
        made["messages"][2]["content"] = made["episode_id"]
    return made


def current(folder: Path) -> str:
    """A file of the tasks as they are now."""
    path = folder / "tasks.jsonl"
    path.write_text("".join(json.dumps({"id": each, "task_hash": f"hash of {each}"}) + "\n" for each in TASKS))
    return str(path)


def excluded(folder: Path) -> str:
    """A file of evaluation tasks: task d is one of them."""
    path = folder / "eval.jsonl"
    path.write_text(json.dumps({"id": "d", "task_hash": "another", "instruction": "Something else"}) + "\n")
    return str(path)


def written(folder: Path, name: str, records: list[dict[str, Any]], **options: Any) -> Any:
    """The report and each side's rows, or None where nothing is left."""
    out = folder / ("rows" if FORMATS[name].file_each else "rows.jsonl")
    try:
        report = derive([saved(folder, records)], name, out, Options(**options))
    except RecordError as error:
        assert "nothing is left" in str(error) or "which cannot be split" in str(error)  # noqa: PT017
        return None
    sides = []
    for place in map(Path, report.files):
        lines = [line for file in sorted(place.iterdir()) for line in [file.read_text()]] if place.is_dir() else []
        sides.append(lines or [json.loads(line) for line in place.read_text().splitlines()])
    return report, sides


@pytest.mark.parametrize("name", FORMATS)
@given(records=traces(), seed=st.integers(0, 3))
@FULL
def test_nothing_unfit_comes_through(name: str, records: list[dict[str, Any]], seed: int) -> None:
    """No void, harmful, stale or excluded record is in any output, and the stages' counts add up."""
    by_id = {each["episode_id"]: each for each in records}
    with tempfile.TemporaryDirectory() as folder:
        made = written(
            Path(folder),
            name,
            records,
            tasks_file=current(Path(folder)),
            exclude=(excluded(Path(folder)),),
            seed=seed,
            validation=0.25,
        )
    if made is None:
        return
    report, sides = made
    for text in (json.dumps(row) for side in sides for row in side):
        assert "stale" not in text
        for episode_id in re.findall(EPISODE, text):
            used = by_id[episode_id]
            assert used["reward"] is not None
            assert not used["metadata"]["harm"]
            assert used["metadata"]["task_hash"] == f"hash of {used['task_id']}"
            assert used["task_id"] != "d"
            assert used["metadata"]["success"] or FORMATS[name].any_outcome
    funnel = report.funnels[0].as_json()
    assert funnel["read"] == len(records)
    assert funnel["read"] - funnel["stages"]["picked"]["left"] == sum(
        count for stage in funnel["stages"].values() for count in stage["left_out"].values()
    )
    if FORMATS[name].kind is Kind.EPISODES:
        assert funnel["stages"]["picked"]["left"] == sum(map(len, sides))
    assert report.rows == sum(map(len, sides)) == sum(counts["rows"] for counts in report.tasks.values())


@given(records=traces(), seed=st.integers(0, 3), mode=st.sampled_from(("all", "near-miss", "best-worst")))
@FULL
def test_pairs_are_of_one_task_and_prompt(records: list[dict[str, Any]], seed: int, mode: str) -> None:
    """Both sides of a pair have the same task, version and prompt, and the chosen one the larger reward."""
    by_id = {each["episode_id"]: each for each in records}
    with tempfile.TemporaryDirectory() as folder:
        made = written(Path(folder), "dpo", records, tasks_file=current(Path(folder)), seed=seed, pairs=mode)
    for row in [] if made is None else made[1][0]:
        chosen, rejected = by_id[row["chosen_id"]], by_id[row["rejected_id"]]
        assert chosen["task_id"] == rejected["task_id"] == row["task_id"]
        assert chosen["metadata"]["task_hash"] == rejected["metadata"]["task_hash"]
        assert chosen["prompt"].split("\n")[0] == rejected["prompt"].split("\n")[0]
        assert chosen["reward"] > rejected["reward"]
        assert chosen["metadata"]["success"]
        assert row["chosen"] != row["rejected"]
        assert row["chosen"][0]["role"] == row["rejected"][0]["role"] == "assistant"


@given(records=traces(), seed=st.integers(0, 3), name=st.sampled_from(("sft", "dpo", "turns")))
@FULL
def test_the_same_inputs_and_seed_give_the_same_bytes(records: list[dict[str, Any]], seed: int, name: str) -> None:
    """Whatever the order of the records; and a task is never on both sides of the split."""
    outcomes = []
    for order in (records, random.Random(seed).sample(records, len(records))):
        with tempfile.TemporaryDirectory() as folder:
            options: dict[str, Any] = {"pick": "random", "k": 2} if name == "sft" else {}
            outcomes.append(
                written(
                    Path(folder), name, order, tasks_file=current(Path(folder)), seed=seed, validation=0.3, **options
                )
            )
    if outcomes[0] is None:
        assert outcomes[1] is None
        return
    (_, first), (_, second) = outcomes
    assert json.dumps(first) == json.dumps(second)
    tasks = [{row["task_id"] for row in side} for side in first]
    assert not tasks[0] & tasks[1]
