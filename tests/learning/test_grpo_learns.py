"""GRPO on a fleet of offices learns: from flawed demonstrations a tiny model picks the ones that earn the reward.

It proves the plumbing and no more, as in `test_sft_learns`: the tasks and their worlds are those that it was taught.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from learning.demonstrations import demonstrations
from peers.sites import site
from trainers.environment import interpreter, offline

from miroir.pool import Pool, ProcessEngine

pytestmark = pytest.mark.learning

HERE = Path(__file__).parent
TASKS = ("answer-from-handbook-1", "schedule-around-conflicts-1", "correct-figure-1", "reconcile-expenses-1")
SEEDS = (0, 1, 2)
CONTAINERS = 4
AT_ONCE = 32  # episodes of one training
SAMPLES = 128
GAIN = 0.15
TRAINING_S = 1800.0


@pytest.fixture
def offices() -> Iterator[list[str]]:
    """The URLs of a pool of office containers with room for the trainings of all seeds."""
    room = len(SEEDS) * AT_ONCE // CONTAINERS
    with Pool(ProcessEngine("office", max_sessions=room), n=CONTAINERS) as pool:
        yield pool.urls


def test_grpo_raises_the_reward_of_a_model_that_was_taught_flaws(offices: list[str], tmp_path: Path) -> None:
    """The mean reward rises by at least 0.15 in the mean of three seeds, and falls with none."""
    (tmp_path / "plans.json").write_text(json.dumps({task: demonstrations(task) for task in TASKS}))
    with ThreadPoolExecutor(len(SEEDS)) as threads:
        told = list(threads.map(lambda seed: reinforced(offices, tmp_path, seed), SEEDS))
    for seed, one in zip(SEEDS, told, strict=True):
        print(f"seed {seed}: {json.dumps(one)}")

    assert all(one["samples"] >= SAMPLES and one["void"] == 0 for one in told)
    for one in told:
        right, *flawed = (one["demonstrations"][at::3] for at in range(3))
        assert set(right) == {1.0}
        assert all(reward < 1.0 for rewards in flawed for reward in rewards)
    gains = [one["after"] - one["before"] for one in told]
    assert min(gains) >= 0, gains
    assert statistics.mean(gains) >= GAIN, gains


def reinforced(urls: list[str], folder: Path, seed: int) -> dict[str, Any]:
    """What came of a training with this seed."""
    out = folder / f"seed-{seed}.json"
    done = subprocess.run(
        [interpreter(), HERE / "reinforce.py", folder / "plans.json", out, str(seed), *urls],
        env=environment(folder / f"seed-{seed}"),
        capture_output=True,
        text=True,
        timeout=TRAINING_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told: dict[str, Any] = json.loads(out.read_text())
    return told


def environment(home: Path) -> dict[str, str]:
    """What the script sees: no network, the tiny model's module, and of this environment's packages Miroir alone."""
    (packages := home / "packages").mkdir(parents=True)
    path = os.pathsep.join(map(str, (HERE.parent / "trainers" / "consumers", site(packages))))
    return offline(home, PYTHONPATH=path, OMP_NUM_THREADS="1", OMP_WAIT_POLICY="PASSIVE")
