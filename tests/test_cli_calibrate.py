"""`miroir calibrate`: what it prints where, its exit codes, and what it refuses in one line."""

from __future__ import annotations

import csv
import gzip
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from miroir.cli import main

AIRLINE = json.loads((Path(__file__).parent / "data" / "tau_bench_airline_gpt4o.json").read_text())
RESULTS = Path(__file__).parent / "data" / "results"


def record(task_id: str, reward: float | None, number: int, **changes: Any) -> dict[str, Any]:
    metadata = {"task_hash": f"hash of {task_id}", "success": reward == 1.0, "harm": False, "ended_by": "submit"}
    return {"schema": 1, "episode_id": f"{task_id}-{number}", "task_id": task_id, "reward": reward, **changes} | {
        "metadata": metadata
    }


def jsonl(*records: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in records)


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """A folder as a run leaves it: one file a process, one of them gzipped, one torn, one that is a copy."""
    rows = [record(f"airline-{task_id:02}", reward, trial) for task_id, trial, reward in AIRLINE["rows"]]
    folder = tmp_path / "traces"
    folder.mkdir()
    (folder / "a.jsonl").write_text(jsonl(*rows[:80]) + jsonl(rows[80])[:70])
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(jsonl(*rows[80:]).encode()))
    (folder / "c.jsonl").write_text(jsonl(*rows[:7]))
    return folder


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs the command with `--model m --out out.json`; its exit code, stdout and stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        words = ["calibrate", *map(str, arguments), "--model", "m", "--out", str(tmp_path / "out.json")]
        code = main(words)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


Run = Callable[..., tuple[int, str, str]]


def test_a_folder_of_traces_is_calibrated(
    traces: Path, tmp_path: Path, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """The table on stdout; what was read, dropped and left out on stderr; 0."""
    code, out, err = run(traces)
    assert code == 0
    assert out.splitlines()[50:53] == [
        "airline-49  4     0    1.00    1.00    1.00    1.00  0.00  0.00        solved",
        "50 tasks: 10 solved, 26 learnable, 14 out of reach",
        "0 of 200 rollouts void (0.0 %)",
    ]
    assert err == "200 records of 3 files; 7 duplicates dropped; 1 half-written last line left out\n"
    assert f"{traces}/a.jsonl:81: the last line is half written and left out" in caplog.text
    assert json.loads((tmp_path / "out.json").read_text())["suite"]["pass^k"]["mean"] == pytest.approx(0.2)


def test_json_csv_and_markdown(traces: Path, tmp_path: Path, run: Run) -> None:
    """Each in place of the table: the file's own document, every number, and a table for a report."""
    _, out, _ = run(traces, "--json")
    assert out == (tmp_path / "out.json").read_text()
    _, out, _ = run(traces, "--csv")
    assert len(list(csv.DictReader(io.StringIO(out)))) == 50
    _, out, _ = run(traces, "--markdown", "--wide", "-k", 2, "--group", 3)
    assert out.startswith("| task | n | void | pass@1 | pass@2 | pass^2 |")
    assert "| sure | mixed@3 |" in out.splitlines()[0]
    assert "\n\n50 tasks: 10 solved" in out


@pytest.mark.parametrize(
    ("gate", "code", "message"),
    [
        ("pass@1=0.31", 0, ""),
        ("pass@1=0.4", 1, "failed: pass@1 is only sure to be at least 0.315, under 0.4\n"),
        ("reward=0.32", 1, "failed: reward is only sure to be at least 0.315, under 0.32\n"),
        ("pass^4=0.1", 0, ""),
        ("pass^4=0.11", 1, "failed: pass^4 is only sure to be at least 0.100, under 0.11\n"),
        ("pass@4=0.5", 0, ""),
    ],
)
def test_a_gate_fails_on_the_lower_bound(traces: Path, run: Run, gate: str, code: int, message: str) -> None:
    """A mean above the bound is not enough; the exit code is 1, and the file is written all the same."""
    exit_code, _, err = run(traces, "--fail-under", gate)
    assert exit_code == code
    assert err.endswith(message)
    assert ("failed" in err) == (code == 1)


def test_several_gates_are_all_reported(traces: Path, run: Run) -> None:
    """Each that fails has its line."""
    code, _, err = run(traces, "--fail-under", "pass@1=0.9", "--fail-under", "pass^4=0.9", "--fail-under", "reward=0")
    assert code == 1
    assert err.count("failed: ") == 2


def test_another_calibration_is_compared(traces: Path, tmp_path: Path, run: Run) -> None:
    """Task by task, below the table and in the file."""
    run(traces)
    shutil.copy(tmp_path / "out.json", tmp_path / "base.json")
    rows = [record(f"airline-{task_id:02}", float(task_id < 30), trial) for task_id, trial, _ in AIRLINE["rows"]]
    (tmp_path / "new.jsonl").write_text(jsonl(*rows))
    code, out, _ = run(tmp_path / "new.jsonl", "--against", tmp_path / "base.json")
    assert code == 0
    assert out.splitlines()[-3].startswith(f"against {tmp_path}/base.json: reward +0.18 (")
    assert out.splitlines()[-2].startswith("regressions: 18 (airline-35 1.00 -> 0.00, airline-36 1.00 -> 0.00")
    assert json.loads((tmp_path / "out.json").read_text())["against"]["tasks"] == 50


@pytest.mark.parametrize(
    ("kind", "folder", "tasks"),
    [
        ("verifiers", "verifiers", 1),
        ("verifiers", "verifiers_v0", 2),
        ("tau-bench", "tau_bench", 2),
        ("tau2", "tau2", 2),
        ("inspect", "inspect", 2),
        ("inspect:match", "inspect", 2),
    ],
)
def test_results_of_other_tools_are_calibrated(tmp_path: Path, run: Run, kind: str, folder: str, tasks: int) -> None:
    """A folder or a file of theirs, with the hashes of what was read."""
    code, _, err = run(RESULTS / folder, "--from", kind)
    assert code == 0
    document = json.loads((tmp_path / "out.json").read_text())
    assert len(document["tasks"]) == tasks
    assert len(document["inputs"]) == 1
    assert err == f"{document['inputs'][0]['records']} records of 1 file\n"


def test_bad_lines_are_skipped_when_asked(tmp_path: Path, run: Run) -> None:
    """They are counted and named on stderr, and counted in the file."""
    path = tmp_path / "a.jsonl"
    path.write_text(jsonl(record("a", 1.0, 0)) + "rubbish\n" + jsonl(record("a", 0.0, 1)))
    code, _, err = run(path)
    assert code == 2
    assert err.startswith(
        f"error: RECORD: {path}:2: not JSON at character 1: Expecting value; repair or remove the line"
    )
    code, _, err = run(path, "--skip-bad")
    assert code == 0
    assert err == f"2 records of 1 file; 1 bad line skipped\n{path}:2: not JSON at character 1: Expecting value\n"
    assert json.loads((tmp_path / "out.json").read_text())["counts"]["bad"] == 1


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("", [], "RECORD: there is no record to calibrate by (0 records of 1 file)"),
        (
            jsonl(record("a", 1.0, 0), record("b", 1.0, 0)),
            [],
            "RECORD: no task has two graded rollouts (2 records of 1",
        ),
        (
            jsonl(record("a", 1.0, 0), record("a", 1.0, 1)),
            ["-k", "0"],
            "INVALID_ARGUMENT: k is 0, and tasks have up to 2",
        ),
        (
            jsonl(record("a", 1.0, 0), record("a", 1.0, 1)),
            ["-k", "3"],
            "INVALID_ARGUMENT: k is 3, and tasks have up to",
        ),
        ('{"messages": []}\n', [], "RECORD: {folder}/a.jsonl:1: not a record: it has no task_id; repair or remove"),
        ("task,reward\na,1\n", [], "RECORD: {folder}/a.jsonl:1: not JSON at character 1: Expecting value; repair"),
        ("\x89PNG\r\n\x1a\n", [], "RECORD: {folder}/a.jsonl:1: not JSON at character 1"),
        (
            jsonl(record("a", 1.0, 0), record("a", 0.0, 1)),
            ["--against", "none.json"],
            "RECORD: none.json cannot be read",
        ),
        (
            jsonl(record("a", 1.0, 0), record("a", 0.0, 1)),
            ["--fail-under", "pass@1"],
            "INVALID_ARGUMENT: a gate is a number",
        ),
        (
            jsonl(record("a", 1.0, 0), record("a", 0.0, 1)),
            ["--fail-under", "reward=x"],
            "INVALID_ARGUMENT: a gate is a nu",
        ),
        (
            jsonl(record("a", 1.0, 0), record("a", 0.0, 1)),
            ["--fail-under", "pass@9=0.5"],
            "INVALID_ARGUMENT: no number of the suite is called pass@9; give one of reward, pass@1, pass@2, pass^2",
        ),
        (
            jsonl(record("a", 1.0, 0), record("a", 0.0, 1)),
            ["--fail-under", "reward=0.5"],
            "INVALID_ARGUMENT: reward has no interval, being of one task; calibrate at least two",
        ),
        ("{}\n", ["--from", "trl"], "INVALID_ARGUMENT: 'trl' is no kind of results; give verifiers, tau-bench"),
        ("{}\n", ["--from", "tau2"], "RECORD: {folder}/a.jsonl does not hold what tau2 writes (KeyError: 'tasks')"),
    ],
)
def test_bad_input_is_one_line_and_leaves_the_old_file(
    tmp_path: Path, run: Run, text: str, arguments: list[str], message: str
) -> None:
    """Exit code 2, one line on stderr, nothing on stdout, and the file of before untouched."""
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    (tmp_path / "out.json").write_text("old")
    code, out, err = run(path, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: " + message.format(folder=tmp_path))
    assert err.count("\n") == 1
    assert (tmp_path / "out.json").read_text() == "old"


def test_a_missing_name_is_refused(tmp_path: Path, run: Run) -> None:
    """Neither file, folder nor pattern."""
    code, _, err = run(tmp_path / "none")
    assert code == 2
    assert err.startswith(f"error: RECORD: {tmp_path}/none does not exist, and as a pattern it matches nothing; name")


def test_versions_and_agents_are_chosen_on_the_command_line(tmp_path: Path, run: Run) -> None:
    """`--version`, `--agent-filter` and `--model-filter` say which records count."""
    rows = [
        record("a", float(number % 2), number, agent={"name": name, "model": model})
        for number, (name, model) in enumerate([("x", "m1"), ("x", "m1"), ("y", "m1"), ("y", "m2"), ("y", "m2")])
    ]
    for row in rows[3:]:
        row["metadata"]["task_hash"] = "new"
    (tmp_path / "a.jsonl").write_text(jsonl(*rows))
    assert run(tmp_path / "a.jsonl")[0] == 2
    assert run(tmp_path / "a.jsonl", "--agent-filter", "x")[0] == 0
    assert run(tmp_path / "a.jsonl", "--agent-filter", "y", "--model-filter", "m2")[0] == 0
    for row in rows:
        row["agent"] = {"name": "x", "model": "m1"}
    (tmp_path / "a.jsonl").write_text(jsonl(*rows))
    code, _, err = run(tmp_path / "a.jsonl")
    assert code == 2
    assert "those of a are hash of a (3 rollouts), new (2 rollouts); choose with --version latest or" in err
    assert run(tmp_path / "a.jsonl", "--version", "new")[0] == 0
    document = json.loads((tmp_path / "out.json").read_text())
    assert (document["tasks"]["a"]["rollouts"], document["counts"]["left_out"]) == (2, 3)
