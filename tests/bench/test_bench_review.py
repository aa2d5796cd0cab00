"""How fast a report of ten thousand episodes is built, against loading the same records, and in how much memory."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import rollouts
from memory import PEAK

pytestmark = pytest.mark.bench

RECORDS = int(os.environ.get("MIROIR_BENCH_RECORDS", "10000"))
RECORD_BYTES = 50_000
BODIES = 40
MOST_MB = 300
LEAST = 1 / 5

ROUNDS = 3  # interleaved, the best of each: what else runs on the machine slows single ones

LOAD = """
import sys, time
sys.modules["orjson"] = None
from miroir.records import load
start = time.perf_counter()
sum(1 for _ in load(sys.argv[1]))
print(time.perf_counter() - start)
"""

BUILD = (
    PEAK
    + """
import sys, time
from miroir.review import write_report
start = time.perf_counter()
write_report(sys.argv[1], sys.argv[2])
print(time.perf_counter() - start, peak_mb())
"""
)


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Records of 50 KB, each with an id of its own and one of a few bodies."""
    path = tmp_path_factory.mktemp("bench") / "traces.jsonl"
    generator = random.Random(5)
    bodies = list(rollouts.records(BODIES // 4, steps=(24, 36), result_words=85))
    for body in bodies:
        text = " ".join(generator.choices(rollouts.WORDS, k=RECORD_BYTES // 5))
        body["prompt"] += text[: RECORD_BYTES - len(json.dumps(body))]
    with path.open("w") as file:
        for number in range(RECORDS):
            body = bodies[number % BODIES]
            named = {
                "episode_id": f"{generator.getrandbits(128):032x}",
                "task_id": f"task-{number // 4:05}",
                "trial": number % 4,
            }
            file.write(json.dumps({**body, **named}) + "\n")
        file.flush()
        os.fsync(file.fileno())  # or the disk would still write while the first figures are taken
    yield path
    path.unlink()


def run(script: str, *arguments: Path) -> list[float]:
    """The numbers that a script prints in a process of its own."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return [float(word) for word in subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()]


def test_a_report_is_built_fast_in_little_memory(traces: Path, tmp_path: Path) -> None:
    """Half a gigabyte becomes an index and pages at a fifth of the standard library's rate of loading, under 300 MB."""
    assert traces.stat().st_size == pytest.approx(RECORDS * RECORD_BYTES, rel=0.03)
    rounds = [(*run(LOAD, traces), *run(BUILD, traces, tmp_path / "report.html")) for _ in range(ROUNDS)]
    loading, building, used = (min(times) for times in zip(*rounds, strict=True))
    size = sum(path.stat().st_size for path in tmp_path.rglob("*.html")) >> 20
    print(f"review: {loading / building:.2f} of load's rate, {used:.0f} MB of memory, {size} MB of pages")

    assert max(memory for _, _, memory in rounds) <= MOST_MB
    assert loading / building >= LEAST
