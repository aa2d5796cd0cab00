"""How fast records are read and calibrated, against a bare json.loads loop in the same run, and in how much memory."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from memory import PEAK
from turns import TURNS

pytestmark = pytest.mark.bench

RECORDS = int(os.environ.get("MIROIR_BENCH_RECORDS", "10000"))
RECORD_BYTES = 50_000
STEPS = 20
ROLLOUTS = 8  # of each task
MOST_MB = 80

RATES = (
    TURNS
    + """
import contextlib, io, json, sys
traces, out, quick = sys.argv[1:]
if quick == "json":
    sys.modules["orjson"] = None
from miroir.calibrate import run_calibrate

def bare():
    with open(traces) as file:
        for line in file:
            json.loads(line)

def calibrating():
    with contextlib.redirect_stdout(io.StringIO()):
        run_calibrate(traces, "m", out)

print(times_as_long(bare, calibrating, 8))
"""
)

MEMORY = (
    PEAK
    + """
import contextlib, io, sys
from miroir.calibrate import run_calibrate
with contextlib.redirect_stdout(io.StringIO()):
    run_calibrate(sys.argv[1], "m", sys.argv[2])
print(peak_mb())
"""
)


def _words(generator: random.Random, count: int) -> str:
    return " ".join("".join(generator.choices("etaoinshrdlu", k=generator.randint(2, 9))) for _ in range(count))


def _record(generator: random.Random) -> dict[str, Any]:
    """Steps with results of many small values, as the office gives them, and the chat that holds them as text."""
    steps: list[dict[str, Any]] = []
    messages: list[dict[str, Any]] = [{"role": "system", "content": _words(generator, 100)}]
    for step in range(STEPS):
        rows = [
            {"id": row, "name": _words(generator, 2), "title": _words(generator, 2), "team": "Operations", "new": True}
            for row in range(9)
        ]
        arguments = {"folder": "inbox", "query": _words(generator, 2), "limit": 5}
        result = {"rows": rows, "page": 1, "pages": 1, "total": 9}
        call = {"id": f"call_{step}", "type": "function", "function": {"name": "search", "arguments": arguments}}
        steps.append(
            {"tool": "search", "arguments": arguments, "result": result, "error": None, "reward": None}
            | {"done": step == STEPS - 1, "at_s": round(step * 1.37, 3), "seconds": round(generator.random(), 4)}
        )
        text = json.dumps(result)
        messages.append({"role": "assistant", "content": _words(generator, 5), "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{step}", "name": "search", "content": text})
    return {"steps": steps, "messages": messages}


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Records of 50 KB, each with an id of its own and one of a few bodies."""
    generator = random.Random(3)
    bodies = [_record(generator) for _ in range(40)]
    path = tmp_path_factory.mktemp("bench") / "traces.jsonl"
    with path.open("w") as file:
        for number in range(RECORDS):
            task = number // ROLLOUTS
            record = {
                "schema": 1,
                "episode_id": f"{generator.getrandbits(128):032x}",
                "task_id": f"task-{task}",
                "split": "train",
                "env": {"name": "office", "version": "1"},
                "reward": float(generator.random() < 0.5),
                "metadata": {"task_hash": f"{task:064x}", "success": False, "harm": False, "ended_by": "submit"},
                "diagnostics": {"steps": STEPS, "tool_errors": 0},
                "timings": {"started_at": "2026-01-01T00:00:00Z", "episode_s": 31.25, "env_s": 2.5},
                **bodies[number % len(bodies)],
                "usage": {"prompt_tokens": 90_000, "completion_tokens": 900},
            }
            record["prompt"] = "x" * (RECORD_BYTES - len(json.dumps(record)) - 15)
            file.write(json.dumps(record) + "\n")
        file.flush()
        os.fsync(file.fileno())  # or the disk would still write while the first figures are taken
    yield path
    path.unlink()


def run(script: str, *arguments: object) -> float:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.parametrize(("quick", "least"), [("json", 0.85), ("orjson", 2.0)])
def test_calibrate_keeps_up_with_a_bare_loop(traces: Path, tmp_path: Path, quick: str, least: float) -> None:
    """From the traces to the file, with its hashes, at this share of the rate of json.loads over the same lines."""
    assert traces.stat().st_size == pytest.approx(RECORDS * RECORD_BYTES, rel=0.01)
    ratio = run(RATES, traces, tmp_path / "out.json", quick)
    print(f"calibrate with {quick}: {ratio:.2f} of a bare json.loads loop")
    assert ratio >= least


def test_calibrate_needs_little_memory(traces: Path, tmp_path: Path) -> None:
    """Half a gigabyte of records passes through a process of less than 80 MB."""
    used = run(MEMORY, traces, tmp_path / "out.json")
    print(f"calibrate: {used:.0f} MB")
    assert used <= MOST_MB
