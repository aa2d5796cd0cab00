"""A run's episodes played by the worker processes of a real Dask cluster."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from peers.venvs import venv

import miroir
from miroir.catalog import tasks
from miroir.pool import Pool, ProcessEngine
from miroir.records import load

pytestmark = pytest.mark.peers

HERE = Path(__file__).parent
TOKEN = "S3CRET-OF-THE-OFFICE"


def test_two_hundred_episodes_by_four_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over eight offices: 200 records, none lost and none twice; the token is in none, and was never sent."""
    monkeypatch.setenv("OFFICE_TOKEN", TOKEN)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "miroir").symlink_to(Path(miroir.__file__).parent)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    python = venv("dask") / "bin" / "python"
    with Pool(ProcessEngine("office", token_env="OFFICE_TOKEN"), n=8, urls_file=tmp_path / "urls.txt") as pool:
        chosen = [task["id"] for task in tasks(pool.urls[0], "train", TOKEN)][:40]
        done = subprocess.run(
            [str(python), str(HERE / "dask_run.py"), str(tmp_path / "urls.txt"), str(tmp_path / "out")],
            input=json.dumps(chosen), env=environment, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr

    report = json.loads(done.stdout.splitlines()[-1])
    assert (report["workers"], report["unfinished"], report["splits"]["train"]["graded"]) == (4, 0, 200)
    records = list(load([tmp_path / "out"]))
    assert Counter((record["task_id"], record["trial"]) for record in records) == {
        (task, trial): 1 for task in chosen for trial in range(5)
    }
    assert {record["reward"] for record in records} == {1.0}
    assert len({record["container"] for record in records}) == 8
    assert TOKEN not in done.stdout + done.stderr + json.dumps(records)
