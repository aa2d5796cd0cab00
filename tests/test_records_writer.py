"""Saving records: names, single writes, forks, torn tails, full disks, numbers."""

from __future__ import annotations

import errno
import json
import math
import multiprocessing
import os
import re
import resource
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from miroir.errors import RecordError
from miroir.records import metrics, save_record, writable
from miroir.records import writer as saving


def record(episode_id: str = "e1", **changes: Any) -> dict[str, Any]:
    return {
        "schema": 1,
        "episode_id": episode_id,
        "task_id": "t1",
        "reward": 1.0,
        "metadata": {"task_hash": "h1", "success": True, "harm": False, "void_reason": None},
        "diagnostics": {"steps": 3, "tool_errors": 1},
        "timings": {"started_at": "2026-01-02T03:04:05Z", "episode_s": 2.5},
        "steps": [],
        **changes,
    }


@pytest.fixture(autouse=True)
def _own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test is a process that has saved nothing yet."""
    monkeypatch.setattr(saving, "_own", saving._OwnFile())
    monkeypatch.delenv(saving.FSYNC_VARIABLE, raising=False)


def saved(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in sorted(directory.iterdir()) for line in path.read_bytes().splitlines()]


def test_a_record_is_one_line_of_the_process_own_file(tmp_path: Path) -> None:
    """The folder is made, and the file is named for the start, the host and the process."""
    directory = tmp_path / "deep" / "traces"
    save_record(str(directory), record("a"))
    save_record(directory, record("b"))
    (path,) = directory.iterdir()
    assert re.fullmatch(rf"\d{{8}}T\d{{6}}Z-{re.escape(socket.gethostname())}-{os.getpid()}\.jsonl", path.name)
    assert [row["episode_id"] for row in saved(directory)] == ["a", "b"]
    assert path.read_bytes().endswith(b"\n")


def test_a_record_is_written_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One write holds the whole line, so that a reader never sees a record's newline alone."""
    writes: list[bytes] = []
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: writes.append(bytes(data)) or write(fd, data))
    save_record(tmp_path, record(prompt="x" * 2_000_000))
    assert len(writes) == 1
    assert writes[0].endswith(b"}\n")


def test_threads_append_whole_lines(tmp_path: Path) -> None:
    """Records saved by eight threads at once all arrive whole."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: save_record(tmp_path, record(f"e{i}", prompt="x" * 10_000)), range(200)))
    assert {row["episode_id"] for row in saved(tmp_path)} == {f"e{i}" for i in range(200)}


def test_a_forked_child_has_its_own_file(tmp_path: Path) -> None:
    """A child forked while the parent's lock is held saves to a file of its own pid."""
    save_record(tmp_path, record("parent"))
    with saving._own.lock:
        child = multiprocessing.get_context("fork").Process(target=save_record, args=(tmp_path, record("child")))
        child.start()
    child.join(20)
    assert child.exitcode == 0
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == 2
    assert any(name.endswith(f"-{child.pid}.jsonl") for name in names)
    child.close()


def test_a_half_written_tail_is_healed(tmp_path: Path) -> None:
    """What a dead process of the same name left half written is cut off, and never glued to the next record."""
    save_record(tmp_path, record("a"))
    (path,) = tmp_path.iterdir()
    with path.open("ab") as file:
        file.write(b'{"schema": 1, "episode_id": "torn", "prompt": "' + b"x" * 200_000)
    save_record(tmp_path, record("b"))
    assert [row["episode_id"] for row in saved(tmp_path)] == ["a", "b"]


def test_a_whole_tail_without_its_newline_is_kept(tmp_path: Path) -> None:
    """A record that lacks only its newline gets it."""
    save_record(tmp_path, record("a"))
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes() + json.dumps(record("b")).encode())
    save_record(tmp_path, record("c"))
    assert [row["episode_id"] for row in saved(tmp_path)] == ["a", "b", "c"]


def test_a_file_that_is_only_a_torn_line_is_healed(tmp_path: Path) -> None:
    """A torn first line leaves an empty file, then the record."""
    save_record(tmp_path, record("a"))
    (path,) = tmp_path.iterdir()
    path.write_bytes(b'{"schema": 1, "epi')
    save_record(tmp_path, record("b"))
    assert [row["episode_id"] for row in saved(tmp_path)] == ["b"]


def test_short_writes_are_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that takes only part of the line is gone on with."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data)[:100]))
    save_record(tmp_path, record("a", prompt="x" * 1000))
    assert [row["prompt"] for row in saved(tmp_path)] == ["x" * 1000]


def _fill(directory: Path) -> None:
    save_record(directory, record("fits"))
    (path,) = directory.iterdir()
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 4000,) * 2)
    try:
        save_record(directory, record("large", prompt="x" * 10_000))
    except RecordError as error:
        (directory / "error").write_text(str(error))
    save_record(directory, record("after"))


def test_a_full_disk_is_one_clear_error_and_leaves_no_half_record(tmp_path: Path) -> None:
    """The kernel takes part of a record and refuses the rest: RecordError, and the file holds whole records only."""
    child = multiprocessing.get_context("fork").Process(target=_fill, args=(tmp_path,))
    child.start()
    child.join(20)
    assert child.exitcode == 0
    child.close()
    (path,) = tmp_path.glob("*.jsonl")
    assert [json.loads(line)["episode_id"] for line in path.read_bytes().splitlines()] == ["fits", "after"]
    message = (tmp_path / "error").read_text()
    assert message.startswith(f"RECORD: the record of episode large was not saved to {path}: File too large; ")


def test_an_unwritable_folder_is_named(tmp_path: Path) -> None:
    """A folder that cannot be made is a RecordError that names the file and the reason."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(RecordError, match=r"not saved to .*/file/traces/.*\.jsonl: Not a directory; "):
        save_record(blocked / "traces", record())


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_no_number_is_void(tmp_path: Path, reward: float) -> None:
    """It is saved as null with its reason, and the caller's record is not changed."""
    mine = record(reward=reward)
    save_record(tmp_path, mine)
    (row,) = saved(tmp_path)
    assert row["reward"] is None
    assert row["metadata"]["void_reason"] == f"the reward was {reward}, which is not a finite number"
    assert row["metadata"]["success"] is False
    assert mine["metadata"]["success"] is True
    assert mine["metadata"]["void_reason"] is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"diagnostics": {"score": math.nan}}, "diagnostics.score is not a finite number"),
        ({"steps": [{}, {"seconds": [1.0, math.inf]}]}, r"steps\[1\].seconds\[1\] is not a finite number"),
        ({"extra": {1, 2}}, "Object of type set is not JSON serializable"),
    ],
)
def test_what_json_cannot_hold_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    """A ValueError that says where, before a byte is written."""
    with pytest.raises(ValueError, match=f"a record must be JSON: {message}; nothing was saved"):
        save_record(tmp_path / "traces", record(**changes))
    assert not (tmp_path / "traces").exists()


def test_text_of_every_kind_comes_back(tmp_path: Path) -> None:
    """Line separators, NUL, astral characters and lone surrogates are saved and read as they were."""
    text = "a\u2028b\x85c\n\x00\U0001f600\ud800"
    save_record(tmp_path, record(prompt=text))
    (path,) = tmp_path.iterdir()
    (line,) = path.read_bytes().split(b"\n")[:-1]
    assert json.loads(line)["prompt"] == text


@pytest.mark.parametrize(("argument", "variable", "waits"), [(None, "1", True), (True, "", True), (False, "1", False)])
def test_fsync_is_a_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argument: bool | None, variable: str, waits: bool
) -> None:
    """The argument decides, else the environment variable."""
    calls: list[int] = []
    monkeypatch.setenv(saving.FSYNC_VARIABLE, variable)
    monkeypatch.setattr(os, "fsync", calls.append)
    save_record(tmp_path, record(), fsync=argument)
    assert bool(calls) is waits


def test_metrics_are_the_numbers_of_a_record() -> None:
    """Success, harm, every diagnostic and the seconds, all floats; what is no number is left out."""
    row = record(diagnostics={"steps": 3, "score": 0.5, "note": "text", "none": None})
    assert metrics(row) == {"success": 1.0, "harm": 0.0, "steps": 3.0, "score": 0.5, "episode_s": 2.5}
    assert list(metrics(row)) == ["success", "harm", "steps", "score", "episode_s"]
    assert metrics({"reward": None}) == {"success": 0.0, "harm": 0.0}
    assert metrics({"diagnostics": {"steps": 10**400, "score": math.nan}}) == {"success": 0.0, "harm": 0.0}


def test_a_disk_that_does_not_keep_what_it_took_has_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said not to be saved is not there, so that saving it again leaves one."""
    save_record(tmp_path, record("a"))

    def failing(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        with pytest.raises(RecordError, match=r"the record of episode b was not saved to .*: Input/output error"):
            save_record(tmp_path, record("b"), fsync=True)

    assert [row["episode_id"] for row in saved(tmp_path)] == ["a"]


def test_a_disk_that_takes_nothing_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write of no bytes is an error, not to be tried for ever."""
    monkeypatch.setattr(os, "write", lambda *_: 0)
    with pytest.raises(RecordError, match=r"the record of episode a was not saved to .*: it takes no more bytes; free"):
        save_record(tmp_path, record("a"))


def test_whether_a_folder_can_be_written_is_asked_by_many_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another host's process of the same number may have taken the file away that was to show it."""
    monkeypatch.setattr(Path, "touch", lambda path: None)

    assert writable(tmp_path / "traces") == tmp_path / "traces"
    assert list(tmp_path.rglob("*")) == [tmp_path / "traces"]
