"""How many steps can be under way under verifiers at once, and how late its event loop is meanwhile."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from peers.sites import site, variables
from peers.stage import staged
from peers.venvs import venv

pytestmark = pytest.mark.bench

SCENES = Path(__file__).parents[1] / "peers" / "verifiers_v1.py"


def test_two_hundred_steps_take_as_long_as_one(tmp_path: Path) -> None:
    """Steps of a second: all within two seconds, with the loop 50 ms late at the 99th percentile."""
    python = venv("verifiers") / "bin" / "python"
    with staged(4, 64) as (urls, model):
        done = subprocess.run(
            [str(python), str(SCENES), json.dumps(urls), model.base_url, str(tmp_path), "napping"],
            env=variables(site(tmp_path / "site"), tmp_path),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])["napping"]
    assert told["took_s"] <= 2.0
    assert told["lag_p99_s"] <= 0.05
