"""`miroir tasks`: the list for people, and the same for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from troubled import TASKS, Troubled, served

from miroir import cli
from miroir.run.jobs import read_tasks


def test_lists_a_task_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Ids in a column, and the first line of each instruction."""

    class Long(Troubled):
        def tasks(self, split):
            return [
                {"id": "a", "task_hash": "h", "instruction": "\n First.\nSecond."},
                {"id": "longer", "task_hash": "h", "instruction": "x" * 300},
            ]

    with served(Long) as (url,):
        assert cli.main(["tasks", url]) == 0

    assert capsys.readouterr().out == f"a       First.\nlonger  {'x' * 100}\n"


def test_json_is_what_run_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` is one whole task a line, which `miroir run --tasks` takes back."""
    with served(Troubled) as (url,):
        cli.main(["tasks", url, "--json"])
    text = capsys.readouterr().out
    (tmp_path / "tasks.jsonl").write_text(text)

    assert [json.loads(line)["id"] for line in text.splitlines()] == list(TASKS)
    assert read_tasks(tmp_path / "tasks.jsonl") == [json.loads(line) for line in text.splitlines()]


def test_a_split_is_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    """`--split` lists another split; one that is not there is refused with those that are."""
    with served(Troubled) as (url,):
        cli.main(["tasks", url, "--split", "eval"])
        assert capsys.readouterr().out == "held-out  Do held-out.\n"

        assert cli.main(["tasks", url, "--split", "nope"]) == 2
        assert "train, eval" in capsys.readouterr().err


def test_a_token_is_sent(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The token of an environment variable opens a guarded fleet."""
    monkeypatch.setenv("TOKEN", "s3cret")
    with served(Troubled, token="s3cret") as (url,):
        assert cli.main(["tasks", url, "--token-env", "TOKEN"]) == 0
        assert cli.main(["tasks", url]) == 2

    said = capsys.readouterr()
    assert said.out.startswith("plain")
    assert "HTTP_401" in said.err


def test_an_environment_without_tasks_is_an_empty_list(capsys: pytest.CaptureFixture[str]) -> None:
    """No task is no error."""

    class Empty(Troubled):
        def tasks(self, split):
            return []

    with served(Empty) as (url,):
        assert cli.main(["tasks", url]) == 0

    assert capsys.readouterr().out == ""
