"""`miroir review` from the command line."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import rollouts

from miroir.cli import main
from miroir.notes import append_note, read_notes
from miroir.review import Collection

MIROIR = [sys.executable, "-m", "miroir", "review"]
START_S = 30


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """32 episodes of 8 tasks."""
    return rollouts.save(tmp_path / "traces.jsonl", rollouts.records(8, steps=(2, 5)))


def run(*words: object) -> int:
    """The exit code of `miroir review` with these words."""
    return main(["review", *map(str, words)])


def test_the_page_is_written_and_its_path_printed(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The path on stdout, what was read on stderr."""
    assert run(traces, "--html", tmp_path / "r.html") == 0
    out, err = capsys.readouterr()

    assert out == f"{tmp_path / 'r.html'}\n"
    assert err == "32 records of 1 file\n"
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")


def test_the_terminal_is_plain_where_it_is_none(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table of tasks, without colours; so are failures, an episode and a comparison."""
    with Collection(traces) as collection:
        one, other = (entry.episode_id for entry in collection.entries[:2])
    for words, holds in (
        ([], "score"),
        (["--failures"], "unmet"),
        (["--show", one], one),
        (["--compare", one, other], "|"),
    ):
        assert run(traces, *words) == 0
        out = capsys.readouterr().out
        assert holds in out
        assert "\x1b" not in out


def test_json_lists_every_episode(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For programs."""
    assert run(traces, "--json") == 0
    found = json.loads(capsys.readouterr().out)

    assert len(found) == 32
    assert {"episode_id", "sha256", "task_id", "outcome", "harm", "reward", "reason"} <= set(found[0])


def test_agreement_is_printed(traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From the notes of several files, as a table or as JSON."""
    with Collection(traces) as collection:
        graded = [entry for entry in collection.entries if entry.outcome != "void"][:6]
    for at, entry in enumerate(graded):
        note: Any = {"schema": 1, "episode_id": entry.episode_id, "record_sha256": entry.sha256, "at": ""}
        note |= {"reviewer": "Ada", "labels": [], "grade_right": at != 0, "step": None, "text": ""}
        append_note(tmp_path / f"{at % 2}.jsonl", note)
    files = [tmp_path / "0.jsonl", tmp_path / "1.jsonl"]
    assert run(traces, "--agreement", "--notes", *files) == 0
    assert "agreement: 5 of 6" in capsys.readouterr().out
    assert run(traces, "--agreement", "--json", "--notes", *files) == 0
    assert sum(map(sum, json.loads(capsys.readouterr().out)["table"])) == 6


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none.jsonl"], "none.jsonl does not exist"),
        (["TRACES", "--html", "FOLDER"], "is a folder; name a file"),
        (["TRACES", "--html", "r.html", "--notes", "none.jsonl"], "the notes none.jsonl cannot be read"),
        (["TRACES", "--html", "r.html", "--notes", "TRACES"], "not a note"),
        (["TRACES", "--html", "r.html", "--redact", "("], "is no regular expression"),
        (["TRACES", "--html", "r.html", "--max-mb", "0"], "a report of 0 MB holds nothing"),
        (["TRACES", "--html", "r.html", "--calibration", "TRACES"], "no calibration file"),
        (["TRACES", "--agreement"], "no note says whether a grade"),
        (["TRACES", "--show", "zz"], "no episode begins with 'zz'"),
        (["TRACES", "--blind"], "give --sample N with --blind"),
        (["TRACES", "--sample", "3", "--stratify", "colour"], "'colour' is no stratum"),
        (["TRACES", "--sample", "3", "--stratify", "class"], "classes need a calibration file; name it with --calib"),
        (["TRACES", "--stratify", "task"], "strata are of a sample; give --sample N with --stratify"),
        (["EMPTY"], "there is no episode to review"),
        (["TRACES", "--serve", "--port", "TAKEN"], "is in use; give another with --port"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    words: list[str], said: str,
) -> None:  # fmt: skip
    """Each says what to do, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.jsonl").touch()
    before = sorted(tmp_path.iterdir())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        stand = {"TRACES": traces, "FOLDER": tmp_path, "EMPTY": "empty.jsonl", "TAKEN": taken.getsockname()[1]}
        assert run(*(stand.get(word, word) for word in words)) == 2
    out, err = capsys.readouterr()

    assert out == ""
    assert said in err.splitlines()[-1]
    assert err.splitlines()[-1].startswith("error: ")
    assert sorted(tmp_path.iterdir()) == before


def test_the_server_prints_its_address_and_ends_with_130(traces: Path, tmp_path: Path) -> None:
    """It serves the page until Ctrl-C or SIGTERM, and leaves nothing but the notes."""
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    (tmp_path / "tmp").mkdir()
    for number in (signal.SIGINT, signal.SIGTERM):
        with subprocess.Popen(
            [*MIROIR, str(traces), "--serve"], cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=environment
        ) as process:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            with urllib.request.urlopen(url, timeout=10) as answer:
                assert answer.read().startswith(b"<!doctype html>")
            process.send_signal(number)
            assert process.wait(START_S) == 130
        assert list((tmp_path / "tmp").iterdir()) == []


def test_a_reviewer_converses_on_a_terminal(traces: Path, tmp_path: Path) -> None:
    """Commands are answered one after the other, mistakes included, notes are written, and it ends with the input."""
    with Collection(traces) as collection:
        entry = collection.entries[0]
    environment = {**os.environ, "TERM": "xterm", "PAGER": "cat", "NO_COLOR": "1", "USER": "Ada"}
    leader, follower = pty.openpty()
    words = [*MIROIR, str(traces), "--notes", str(tmp_path / "n.jsonl")]
    with subprocess.Popen(words, stdin=follower, stdout=follower, stderr=follower, env=environment) as process:
        os.close(follower)
        typed = ["1", "fly", f"note {entry.episode_id[:8]} right fine", "quit"]
        seen = "".join(said(leader, f"{word}\n") for word in typed)
        assert process.wait(START_S) == 0
    os.close(leader)

    assert "episode   trial  outcome" in seen
    assert "error: fly is no command" in seen
    assert [note["text"] for note in read_notes(tmp_path / "n.jsonl")] == ["fine"]


def said(terminal: int, words: str) -> str:
    """What stood on the terminal until it asked again, and then was told these words."""
    seen = b""
    deadline = time.monotonic() + START_S
    while b"review> " not in seen and time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.1)[0]:
            seen += os.read(terminal, 65536)
    os.write(terminal, words.encode())
    return seen.decode()
