"""Records, export, training and play fit together: a tiny model learns to play from what `derive` made of records.

It proves the plumbing and no more. The model sees the very tasks and worlds that it was trained on, whose ids it
memorises, and each tool's description is one token to it: it could not play any other task.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from peers.servers import serving
from ports import free_ports
from trainers.environment import interpreter, offline

from miroir.cli import main
from miroir.envs.office.environment import Office
from miroir.records import load
from miroir.serve import running

pytestmark = pytest.mark.learning

HERE = Path(__file__).parent
TASKS = 8
ENOUGH = 6
STEPS = 480
TRAINING_S = 1200.0


@pytest.fixture
def office() -> Iterator[str]:
    """A served office."""
    with running(Office, max_sessions=2) as url:
        yield url


def play(url: str, tasks: list[str], out: Path, *who: str) -> int:
    """How many of the tasks an agent solves, by `miroir run`."""
    words = [word for task in tasks for word in ("--task", task)]
    main(["run", url, "--out", str(out), "--concurrency", "2", *words, *who])
    return sum(record["metadata"]["success"] for record in load(out) if record["reward"] is not None)


def test_a_model_trained_on_derived_rows_plays(office: str, tmp_path: Path) -> None:
    """Untrained it solves no task; trained on the reference's records of 8 easy tasks it solves at least 6 of them."""
    tasks = [task["id"] for task in Office().tasks("train") if "level-1" in task["tags"]][:TASKS]
    assert len(tasks) == TASKS
    assert play(office, tasks, tmp_path / "reference", "--agent", "miroir.envs.office.agents:reference") == TASKS
    rows = tmp_path / "sft.jsonl"
    assert main(["derive", str(tmp_path / "reference"), "--format", "sft", "--out", str(rows)]) == 0

    solved = {}
    for steps in (0, STEPS):
        model = train(rows, tmp_path, steps)
        with endpoint(model, tmp_path) as url:
            solved[steps] = play(office, tasks, tmp_path / f"played-{steps}", "--model", "tiny", "--base-url", url)

    assert solved[0] == 0
    assert solved[STEPS] >= ENOUGH, solved


def train(rows: Path, folder: Path, steps: int) -> Path:
    """A tiny model, trained for so many steps."""
    model = folder / f"model-{steps}"
    done = subprocess.run(
        [interpreter(), HERE / "train.py", rows, model, str(steps)],
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=TRAINING_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    print(done.stdout[-600:])
    return model


@contextmanager
def endpoint(model: Path, folder: Path) -> Iterator[str]:
    """The model behind an OpenAI-compatible endpoint, whose base URL this is."""
    port = free_ports()
    url = f"http://127.0.0.1:{port}/v1"
    command = [str(interpreter()), str(HERE / "serve.py"), str(model), str(port)]
    with serving(command, f"{url}/models", env=environment(folder)):
        yield url


def environment(folder: Path) -> dict[str, str]:
    """What the scripts see: no network, and the tiny model's module."""
    return offline(folder / "hf", PYTHONPATH=str(HERE.parent / "trainers" / "consumers"), OMP_WAIT_POLICY="PASSIVE")
