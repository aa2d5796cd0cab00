"""`miroir derive` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from derive_records import LOOK, SUBMIT, record, rows, saved

from miroir.cli import main


def test_it_derives_and_prints_the_funnel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows are written, the funnel is printed, notes go to standard error."""
    traces = saved(tmp_path, [record("a"), record("b", success=False)])
    traces_with_length = record("c")
    traces_with_length["messages"][2]["content"] = "x" * 8000
    saved(tmp_path, [traces_with_length], "more.jsonl")

    code = main(["derive", str(tmp_path), "--format", "sft", "--out", str(tmp_path / "out" / "rows.jsonl")])

    told = capsys.readouterr()
    assert code == 0
    assert len(rows(tmp_path / "out" / "rows.jsonl")) == 2
    assert "successful             2  left out: 1 failed" in told.out
    assert told.err.startswith("note: 50% of the rows have more than 1,024 tokens")
    assert traces.exists()


def test_the_manifest_is_printed_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json standard output is one JSON object."""
    traces = saved(tmp_path, [record()])

    main(["derive", str(traces), "--format", "sft", "--out", str(tmp_path / "r.jsonl"), "--json", "--dry-run"])

    assert json.loads(capsys.readouterr().out)["funnels"]["records read"]["read"] == 1


def test_every_option_reaches_the_derivation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Options of the command line are those of the library."""
    traces = saved(tmp_path, [record("a", calls=(LOOK, SUBMIT)), record("a", calls=(SUBMIT,)), record("b")])
    tasks = tmp_path / "eval.jsonl"
    tasks.write_text('{"id": "z", "task_hash": "z"}\n')
    line = (
        "--split train --task a --task b --agent chat --model small --outcome success --min-reward 0.5 "
        "--max-reward 1 --since 2026-01-01 --until 2026-12-31T00:00:00Z --version latest --pick shortest -k 1 "
        f"--balance --seed 3 --exclude {tasks} --allow-split dev --allow-harm --allow-grader-text "
        "--allow-invalid-calls --redact secret --canary xyzzy --no-reasoning --max-tokens 9000 --too-long cut "
        "--validation 0.5 --skip-bad --json --force"
    )

    code = main(["derive", str(traces), "--format", "sft", "--out", str(tmp_path / "rows.jsonl"), *line.split()])

    options = json.loads(capsys.readouterr().out)["options"]
    assert code == 0
    assert {name: options[name] for name in ("splits", "tasks", "pick", "k", "seed", "redact", "canaries")} == {
        "splits": ["train"],
        "tasks": ["a", "b"],
        "pick": "shortest",
        "k": 1,
        "seed": 3,
        "redact": ["secret"],
        "canaries": ["xyzzy"],
    }
    assert options["since"] == "2026-01-01T00:00:00+00:00"
    assert (options["reasoning"], options["balance"], options["validation"]) == (False, True, 0.5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--format sfd", "error: INVALID_ARGUMENT: there is no format 'sfd'; the formats are sft, "),
        ("--format sft --min-reward 2", "error: RECORD: nothing is left: 2 records read; left out: 2 with a smaller"),
        ("--format sft --tokenizer nowhere", "error: INVALID_ARGUMENT: the tokenizer nowhere is missing; name a"),
        ("--format sft --notes nowhere", "error: RECORD: the notes nowhere cannot be read: No such file"),
        ("--format sft --exclude nowhere", "error: INVALID_ARGUMENT: nowhere cannot be read"),
        ("--format sft --calibration nowhere", "error: RECORD: nowhere cannot be read: No such file"),
        ("--format sft --tools nowhere", "error: INVALID_ARGUMENT: the tools nowhere cannot be read"),
        ("--format sft", "error: RECORD: the records of task a are of 2 versions: new (1), old (1); choose with"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: str, message: str
) -> None:
    """One line on standard error, exit code 2, nothing written."""
    traces = saved(tmp_path, [record("a", task_hash="old"), record("a", task_hash="new")])

    code = main(["derive", str(traces), "--out", str(tmp_path / "rows.jsonl"), *arguments.split()])

    told = capsys.readouterr()
    assert (code, told.out) == (2, "")
    assert told.err.startswith(message)
    assert told.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["traces.jsonl"]


def test_an_output_that_exists_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without --force what is there stays."""
    traces = saved(tmp_path, [record()])
    arguments = ["derive", str(traces), "--format", "sft", "--out", str(tmp_path / "rows.jsonl")]
    main(arguments)
    capsys.readouterr()

    assert main(arguments) == 2
    assert "rows.jsonl exists; name another file, or replace it with --force" in capsys.readouterr().err
    assert main([*arguments, "--force"]) == 0
