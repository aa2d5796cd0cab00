"""How fast training data is derived, against the loading of its records in the same run, and in how much memory."""

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
BODIES = 100
ROLLOUTS = 4  # of each task
SUCCESS = 0.42  # what share succeeds, as in tau-bench's airline: a row is made of each of these
LEAST = 0.5
MOST_MB = 150

RATES = (
    TURNS
    + """
import sys
traces, out, quick = sys.argv[1:]
if quick == "json":
    sys.modules["orjson"] = None
from miroir.derive import derive
from miroir.records import load

def loaded():
    for _ in load(traces):
        pass

def deriving():
    derive(traces, "sft", out, force=True)

print(times_as_long(loaded, deriving, 6))
"""
)

MEMORY = (
    PEAK
    + """
import sys
from miroir.derive import derive
derive(sys.argv[1], sys.argv[3], sys.argv[2])
print(peak_mb())
"""
)


def _words(generator: random.Random, count: int) -> str:
    return " ".join("".join(generator.choices("etaoinshrdlu", k=generator.randint(2, 9))) for _ in range(count))


def _tools(generator: random.Random) -> list[dict[str, Any]]:
    properties = {"query": {"type": "string", "description": _words(generator, 6)}, "page": {"type": "integer"}}
    schema = {"type": "object", "properties": properties, "required": ["query"], "additionalProperties": False}
    return [
        {"type": "function", "function": {"name": name, "description": _words(generator, 12), "parameters": schema}}
        for name in [*(f"app_{number}" for number in range(19)), "submit"]
    ]


def _body(generator: random.Random) -> dict[str, Any]:
    """Steps with results of many small values, as the office gives them, and the chat that holds them as text."""
    steps: list[dict[str, Any]] = []
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Go through the inbox and file every message where it belongs."}
    ]
    for step in range(STEPS):
        rows = [
            {"id": row, "name": _words(generator, 2), "title": _words(generator, 2), "team": "Operations", "new": True}
            for row in range(7)
        ]
        name, arguments = f"app_{generator.randrange(19)}", {"query": _words(generator, 3), "page": 1}
        result = {"rows": rows, "page": 1, "pages": 1, "total": 9}
        call = {"id": f"call_{step}", "type": "function", "function": {"name": name, "arguments": arguments}}
        steps.append(
            {"tool": name, "arguments": arguments, "result": result, "error": None, "reward": None}
            | {"done": step == STEPS - 1, "at_s": round(step * 1.37, 3), "seconds": round(generator.random(), 4)}
        )
        messages.append({"role": "assistant", "content": _words(generator, 5), "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{step}", "name": name, "content": json.dumps(result)})
    return {"steps": steps, "messages": messages}


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Records of 50 KB, each with an id of its own and one of many bodies."""
    generator = random.Random(3)
    tools = _tools(generator)
    bodies = [_body(generator) for _ in range(BODIES)]
    path = tmp_path_factory.mktemp("bench") / "traces.jsonl"
    with path.open("w") as file:
        for number in range(RECORDS):
            task, success = number // ROLLOUTS, generator.random() < SUCCESS
            record = {
                "schema": 1,
                "episode_id": f"{generator.getrandbits(128):032x}",
                "task_id": f"task-{task}",
                "split": "train",
                "env": {"name": "office", "version": "1"},
                "reward": float(success),
                "metadata": {"task_hash": f"{task:064x}", "success": success, "harm": False, "ended_by": "submit"},
                "diagnostics": {"steps": STEPS, "tool_errors": 0},
                "timings": {"started_at": "2026-01-01T00:00:00Z", "episode_s": 31.25, "env_s": 2.5},
                **bodies[number % len(bodies)],
                "tools": tools,
                "trial": number % ROLLOUTS,
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


@pytest.mark.parametrize("quick", ["json", "orjson"])
def test_derive_keeps_up_with_loading(traces: Path, tmp_path: Path, quick: str) -> None:
    """From the traces to the rows, with hashes and checks, at no less than half the rate of loading alone."""
    assert traces.stat().st_size == pytest.approx(RECORDS * RECORD_BYTES, rel=0.01)
    ratio = run(RATES, traces, tmp_path / "rows.jsonl", quick)
    print(f"derive with {quick}: {ratio:.2f} of the rate of load")
    assert ratio >= LEAST


@pytest.mark.parametrize("name", ["sft", "dpo"])
def test_derive_needs_little_memory(traces: Path, tmp_path: Path, name: str) -> None:
    """Half a gigabyte of records passes through a process of less than 150 MB, for rows and for pairs."""
    used = run(MEMORY, traces, tmp_path / "rows.jsonl", name)
    print(f"derive to {name}: {used:.0f} MB")
    assert used <= MOST_MB
