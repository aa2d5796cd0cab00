"""What must not reach a trainer: evaluation tasks, secrets, the grader's words, broken episodes, rows too long."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from derive_records import LOOK, SUBMIT, TOOLS, answered, called, derived, left_out, record, talk

from miroir.derive import Options
from miroir.errors import InvalidArgument, MissingExtra, RecordError

INSTRUCTION = "Please book the smallest free room in Berlin for the four people who work on the data migration"


def tasks_file(folder: Path, *tasks: Mapping[str, Any]) -> str:
    """A file of tasks."""
    path = folder / "eval.jsonl"
    path.write_text("".join(json.dumps(task) + "\n" for task in tasks))
    return str(path)


# Splits


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"split": "eval"}, r"is of split 'eval', and evaluation tasks must not be trained on.*--allow-split eval$"),
        ({"split": None}, r"has no split, and evaluation .*--allow-split none$"),
        ({"split": ...}, r"has no split"),
        ({"task": {"id": "task-1", "split": "test"}}, r"is of split 'test'"),
    ],
)
def test_a_record_outside_train_stops_the_run(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    """One record of an evaluation split, or without any, stops everything, even where it would be left out anyway."""
    with pytest.raises(RecordError, match=message):
        derived(tmp_path, [record(), record("b", success=False, **changes)])

    assert [path.name for path in tmp_path.iterdir()] == ["traces.jsonl"]


def test_a_split_can_be_allowed_or_left_aside(tmp_path: Path) -> None:
    """Allowed splits train, and with a chosen split all others are left out and counted."""
    records = [record("a"), record("b", split="eval"), record("c", split=None)]

    _, allowed = derived(tmp_path, records, allow_splits=("eval", "none"))
    report, chosen = derived(tmp_path, records, splits=("train",))

    assert [row["task_id"] for row in allowed] == ["a", "b", "c"]
    assert [row["task_id"] for row in chosen] == ["a"]
    assert left_out(report) == {"of split eval": 1, "of split none": 1}


# Excluded tasks


def test_excluded_tasks_are_known_by_id_hash_and_words(tmp_path: Path) -> None:
    """An evaluation task under another id, or reworded only by case and punctuation, is still excluded."""
    exclude = tasks_file(
        tmp_path,
        {"id": "a", "task_hash": "x", "instruction": "One"},
        {"id": "y", "task_hash": "hash of b", "instruction": "Two"},
        {"id": "z", "task_hash": "z", "instruction": INSTRUCTION},
    )
    same_words = {"id": "c", "instruction": INSTRUCTION.upper().replace(" ", "  ") + "!"}

    report, rows = derived(
        tmp_path, [record("a"), record("b"), record("c", task=same_words), record("d")], exclude=(exclude,)
    )

    assert [row["task_id"] for row in rows] == ["d"]
    assert left_out(report) == {
        "the id of an excluded task": 1,
        "the task_hash of an excluded task": 1,
        "the instruction of an excluded task": 1,
    }


def test_near_duplicates_are_reported(tmp_path: Path) -> None:
    """A training task whose instruction is nearly an excluded one's is used, and named."""
    exclude = tasks_file(tmp_path, {"id": "e1", "task_hash": "x", "instruction": INSTRUCTION})
    near = record("near", task={"id": "near", "instruction": INSTRUCTION + " of the London office"})

    report, rows = derived(tmp_path, [near, record("far")], exclude=(exclude,))

    assert [row["task_id"] for row in rows] == ["far", "near"]
    assert [(one["task_id"], one["excluded_id"]) for one in report.manifest()["near_duplicates"]] == [("near", "e1")]
    assert "the instructions of 1 training tasks are nearly those of excluded ones, such as near and e1" in "\n".join(
        report.notes
    )


# Secrets and the grader


def test_secrets_are_redacted_everywhere(tmp_path: Path) -> None:
    """Matches are replaced in prompts, results, thoughts and arguments, and counted."""
    key = "sk-abc123"
    messages = [
        {"role": "user", "content": f"Use {key}."},
        *answered(called(("look", {"query": f"with {key}"})), f"{key} is {key}"),
        {"role": "assistant", "content": "Done.", "reasoning_content": f"I used {key}"},
    ]

    report, rows = derived(tmp_path, [record(messages=messages)], redact=(r"sk-\w+",))

    assert key not in json.dumps(rows)
    assert json.dumps(rows).count("[redacted]") == 5
    assert report.manifest()["redacted"] == 5


def test_secrets_are_redacted_in_the_keys_of_arguments(tmp_path: Path) -> None:
    """A secret may be a key of an object that a call was given; what a tool calls its arguments is none."""
    messages = [{"role": "user", "content": "Look."}, *answered(called(("look", {"where": {"sk-abc": 1}})))]
    tools = [{"type": "function", "function": {"name": "look", "description": "", "parameters": {"type": "object"}}}]

    report, (row,) = derived(tmp_path, [record(messages=messages, tools=tools)], redact=(r"sk-\w+", "wher."))

    assert row["messages"][1]["tool_calls"][0]["function"]["arguments"] == {"where": {"[redacted]": 1}}
    assert report.manifest()["redacted"] == 1


def test_the_keys_of_a_record_are_not_redacted(tmp_path: Path) -> None:
    """Without them no tool could read it back."""
    made = record()
    made["metadata"]["checks"] = [{"name": "paid", "passed": True, "detail": "by passphrase"}]

    _, (row,) = derived(tmp_path, [made], "atif", redact=(r"pass\w+",))

    checks = row["extra"]["miroir"]["metadata"]["checks"]
    assert checks == [{"name": "paid", "passed": True, "detail": "by [redacted]"}]


@pytest.mark.parametrize(
    ("pattern", "said"),
    [("(", "is no regular expression"), ("x*", "matches nothing at all")],
)
def test_patterns_that_cannot_work_are_refused(tmp_path: Path, pattern: str, said: str) -> None:
    """A pattern that does not compile, or that would put its mark between any two characters."""
    with pytest.raises(InvalidArgument, match=f"the pattern {re.escape(repr(pattern))} {said}"):
        derived(tmp_path, [record()], redact=(pattern,))


def test_secrets_are_redacted_beside_the_conversation(tmp_path: Path) -> None:
    """A trajectory's extra, which holds the record's own facts, is redacted too; what names the record is not."""
    made = record("secret-task", prompt="Use secret-7.", task={"id": "secret-task", "instruction": "Use secret-7."})

    _, (row,) = derived(tmp_path, [made], "atif", redact=("secret",))

    assert "secret-7" not in json.dumps(row)
    assert row["extra"]["miroir"]["task_id"] == "secret-task"


def test_a_redacted_call_is_still_known_to_have_failed(tmp_path: Path) -> None:
    """Errors are found before arguments are redacted."""
    made = record(calls=(("look", {"query": "secret"}), SUBMIT))
    made["steps"][0]["error"] = {"error_type": "not_found", "message": "no"}

    _, (row,) = derived(tmp_path, [made], "openai", redact=("secret",), mask_errors=True)

    assert [message["weight"] for message in row["messages"] if message["role"] == "assistant"] == [0, 1]


@pytest.mark.parametrize("where", ["content", "arguments", "tools", "task"])
def test_a_canary_stops_the_run(tmp_path: Path, where: str) -> None:
    """A canary anywhere in a row, its tools too, stops everything and names the episode."""
    marked = record("b")
    if where == "content":
        marked["messages"][2]["content"] = "a CANARY-7 here"
    elif where == "arguments":
        marked["messages"][1]["tool_calls"][0]["function"]["arguments"]["query"] = "CANARY-7"
    elif where == "task":
        marked["task"]["persona"] = {"name": "CANARY-7"}
    else:
        marked["tools"] = [*TOOLS, {"function": {"name": "x", "description": "CANARY-7"}}]

    with pytest.raises(RecordError, match=f"the canary 'CANARY-7' is in episode {marked['episode_id']}"):
        derived(tmp_path, [record(), marked], canaries=("CANARY-7",))


def test_the_graders_words_leave_a_record_out(tmp_path: Path) -> None:
    """An episode that was told a detail of its own grading is left out, unless that is allowed."""
    detail = "events event-1336 added with three guests"
    checks = [{"name": "invites the guests", "passed": True, "detail": detail}]
    told, kept = record("a", checks=checks), record("b", checks=checks)
    told["messages"][2]["content"] = f"grade: {detail}"

    report, rows = derived(tmp_path, [told, kept])
    _, allowed = derived(tmp_path, [told, kept], allow_grader_text=True)

    assert [row["task_id"] for row in rows] == ["b"]
    assert left_out(report) == {"with the grader's text in it": 1}
    assert [row["task_id"] for row in allowed] == ["a", "b"]


# Whole episodes


def test_broken_episodes_are_left_out_by_reason(tmp_path: Path) -> None:
    """Orphans, unknown tools and invalid arguments are left out, each counted under its own name."""
    orphan = record("a", messages=[*talk(LOOK)[:2], {"role": "assistant", "content": "Done."}])
    unknown = record("b", calls=(("fly", {}), SUBMIT))
    invalid = record("c", calls=(("look", {"query": 7}), SUBMIT))

    report, rows = derived(tmp_path, [orphan, unknown, invalid, record("d")])
    _, lenient = derived(tmp_path, [orphan, unknown, invalid, record("d")], allow_invalid_calls=True)

    assert [row["task_id"] for row in rows] == ["d"]
    assert left_out(report) == {
        "a tool call without its result": 1,
        "a call of a tool that is not in the list": 1,
        "arguments that break the tool's schema": 1,
    }
    assert [row["task_id"] for row in lenient] == ["b", "c", "d"]


def test_tools_can_be_given_for_records_without(tmp_path: Path) -> None:
    """Records that keep no tools are checked against a list that is given, in MCP's form or in OpenAI's."""
    mcp = [{"name": "look", "description": "", "inputSchema": {"type": "object"}}, {"name": "submit"}]
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(mcp))

    report, rows = derived(tmp_path, [record("a", tools=...), record("b")], tools_file=str(path))
    missing, _ = derived(tmp_path, [record("a", tools=...), record("b")])

    assert [[tool["function"]["name"] for tool in json.loads(row["tools"])] for row in rows] == [["look", "submit"]] * 2
    assert left_out(report) == {}
    assert left_out(missing) == {"a call of a tool that is not in the list": 1}


@pytest.mark.parametrize("tools", ["none", [3], [{"description": "no name"}], {"look": {}}])
def test_tools_that_are_none(tmp_path: Path, tools: Any) -> None:
    """A record with a strange list of tools is left out; a file with one is refused."""
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(tools))

    report, rows = derived(tmp_path, [record("a", tools=tools), record("b")])
    assert (len(rows), sum(left_out(report).values())) == (1, 1)
    with pytest.raises(InvalidArgument, match=r"tools.json is no list of tools; write them as MCP or OpenAI"):
        derived(tmp_path, [record()], tools_file=str(path))


def test_different_lists_of_tools_are_noted(tmp_path: Path) -> None:
    """Rows keep their own tools; that they differ is told."""
    report, _ = derived(tmp_path, [record("a"), record("b", tools=[*TOOLS, {"function": {"name": "x"}}])])

    assert "note: the records show 2 different lists of tools; each row keeps its own" in report.notes


# Length


def long(task_id: str, characters: int) -> dict[str, Any]:
    """A record whose first result has so many characters."""
    made = record(task_id)
    made["messages"][2]["content"] = "x" * characters
    return made


def test_lengths_are_told(tmp_path: Path) -> None:
    """The histogram says how rows are measured, and what share is beyond each bound."""
    report, _ = derived(tmp_path, [long("a", 1000), long("b", 8000), long("c", 40_000), long("d", 200_000)])

    shares = [report.lengths[f"over_{bound}"] for bound in (1024, 4096, 8192, 32768)]
    assert (report.lengths["rows"], shares) == (4, [0.75, 0.5, 0.5, 0.25])
    assert report.unit == "characters / 4, an estimate"
    assert "75% of the rows have more than 1,024 tokens, where TRL's trainers cut them" in "\n".join(report.notes)


def test_rows_too_long_are_dropped(tmp_path: Path) -> None:
    """A longer row is left out and counted."""
    report, rows = derived(tmp_path, [long("a", 100), long("b", 40_000)], max_tokens=4096)

    assert [row["task_id"] for row in rows] == ["a"]
    assert left_out(report) == {"too long": 1}


def test_rows_too_long_are_cut_at_a_turns_end(tmp_path: Path) -> None:
    """What remains is whole: it ends with the assistant, and every result before has its call."""
    made = record(calls=tuple(("look", {"query": "q" * 2000}) for _ in range(8)))

    report, (row,) = derived(tmp_path, [made], max_tokens=2000, too_long="cut")

    assert row["messages"] == made["messages"][: len(row["messages"])] or row["messages"][-1]["role"] == "assistant"
    assert len(row["messages"]) < len(made["messages"]) - 1
    assert report.lengths["longest"] <= 2000


def test_turns_too_long_are_left_out_alone(tmp_path: Path) -> None:
    """Of an episode the rows that fit are kept."""
    made = record(calls=tuple(("look", {"query": "q" * 2000}) for _ in range(8)))

    _, rows = derived(tmp_path, [made], "turns", max_tokens=2000)

    assert [row["turn"] for row in rows] == [0, 1, 2]


def test_nothing_fits(tmp_path: Path) -> None:
    """Where even the first turn is too long, cutting does not help."""
    with pytest.raises(RecordError, match="nothing is left: 1 records read; left out: 1 too long"):
        derived(tmp_path, [long("a", 100)], max_tokens=10, too_long="cut")


@pytest.mark.parametrize("name", ["missing.json", "."])
def test_a_missing_tokenizer_is_refused(tmp_path: Path, name: str) -> None:
    """A tokenizer that is not there is named."""
    path = str(tmp_path / name)
    with pytest.raises(InvalidArgument, match=r"the tokenizer .* is missing; name a tokenizer.json or the folder"):
        derived(tmp_path, [record()], tokenizer=path)


def test_counting_tokens_needs_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package the error names the extra."""
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    (tmp_path / "tokenizer.json").write_text("{}")

    with pytest.raises(MissingExtra, match=r"pip install 'miroir\[tokenizers\]'"):
        derived(tmp_path, [record()], tokenizer=str(tmp_path))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"outcome": "good"}, "outcome is 'good'; choose one of success, failure, any"),
        ({"pick": "last"}, "pick is 'last'; choose one of first, best, shortest, random"),
        ({"pairs": "some"}, "pairs is 'some'; choose one of all, near-miss, best-worst, harm"),
        ({"too_long": "keep"}, "too_long is 'keep'; choose one of drop, cut"),
        ({"k": 0}, "k is 0; give at least 1"),
        ({"max_tokens": 0}, "max_tokens is 0; give at least 1"),
        ({"margin": -1}, "margin is -1; give at least 0"),
        ({"margin": float("nan")}, "margin is nan; give at least 0"),
        ({"length_ratio": 0.5}, "length_ratio is 0.5; give at least 1"),
        ({"validation": 1.0}, "a validation share of 1.0 cannot be; give one from 0 to below 1"),
        ({"only_reviewed": True}, "only reviewed records were asked for, but no notes"),
        ({"classes": ("solved",)}, "classes need a calibration file"),
        ({"canaries": ("",)}, "an empty canary is in every text"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], message: str) -> None:
    """Each is refused before anything is read."""
    with pytest.raises(InvalidArgument, match=message):
        Options(**options)


def test_versions_are_said_once(tmp_path: Path) -> None:
    """A file of tasks and a version contradict each other."""
    exclude = tasks_file(tmp_path, {"id": "a", "task_hash": "x"})
    with pytest.raises(InvalidArgument, match="--tasks and --version both say which versions are current; give one"):
        derived(tmp_path, [record()], tasks_file=exclude, version="latest")
