"""The whole loop on the bundled world."""

from __future__ import annotations

import itertools
import json
import shlex
import time
from pathlib import Path
from typing import Any

import pytest
from console import miroir

from miroir import cli
from miroir.calibrate import read_calibration
from miroir.demo import spread
from miroir.records import load
from miroir.wire import Task


def tasks(count: int) -> list[Task]:
    """So many tasks."""
    return [{"id": str(index), "task_hash": "h", "instruction": ""} for index in range(count)]


@pytest.mark.parametrize("count", [13, 24, 48, 49, 64, 100])
def test_twelve_tasks_are_spread_over_the_list(count: int) -> None:
    """Twelve different tasks from all parts of the list."""
    indices = [int(task["id"]) for task in spread(tasks(count))]

    assert len(set(indices)) == 12
    assert indices == sorted(indices)
    assert all(b - a in {count // 12, count // 12 + 1} for a, b in itertools.pairwise(indices))


def test_a_short_list_is_taken_whole() -> None:
    """Where there are no more than twelve tasks, all are played."""
    assert spread(tasks(12)) == tasks(12)
    assert spread(tasks(3)) == tasks(3)


def test_the_demo_plays_the_whole_loop(tmp_path: Path) -> None:
    """48 graded episodes of twelve tasks that vary, calibrated, in seconds; what it prints goes on from there.

    In the same folder again it plays nothing twice, and shows the same.
    """
    began = time.monotonic()
    done = miroir("demo", "--dir", tmp_path / "demo")
    took_s = time.monotonic() - began

    records: list[dict[str, Any]] = list(load([tmp_path / "demo" / "traces"]))
    calibration = read_calibration(tmp_path / "demo" / "calibration.json")
    classes = [entry["class"] for entry in calibration["tasks"].values()]
    page = (tmp_path / "demo" / "review.html").read_text()
    rows = [json.loads(line) for line in (tmp_path / "demo" / "sft.jsonl").read_text().splitlines()]
    successes = {record["episode_id"] for record in records if record["metadata"]["success"]}
    assert done.returncode == 0, done.stderr
    assert took_s < 60
    assert len(records) == 48
    assert len({(record["task_id"], record["trial"]) for record in records}) == 48
    assert all(record["reward"] is not None for record in records)
    assert len(classes) == 12
    assert classes.count("learnable") >= 6
    assert f"records: {tmp_path}/demo/traces" in done.stdout
    assert f"review: {tmp_path}/demo/review.html" in done.stdout
    assert all(f'"{record["episode_id"]}"' in page for record in records)
    assert {row["episode_id"] for row in rows} <= successes
    assert f"{len(rows)} rows" in done.stdout
    _, _, commands = done.stdout.partition("go on with:\n")
    for line in commands.splitlines():
        assert cli.parser().parse_args(shlex.split(line)[1:]).command in cli.COMMANDS
    assert all(entry in done.stdout for entry in calibration["tasks"])
    assert done.stderr.count(" ready: http://127.0.0.1:") == 4
    assert not (tmp_path / "demo" / "urls.txt").exists()

    again = miroir("demo", "--dir", tmp_path / "demo")

    assert (again.returncode, again.stdout) == (0, done.stdout)
    assert len(list(load([tmp_path / "demo" / "traces"]))) == 48
