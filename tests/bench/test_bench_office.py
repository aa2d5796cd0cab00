"""What the office costs through Miroir's own client over loopback, and what importing Miroir costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from miroir import Fleet, Session, tasks
from miroir.pool import Pool, ProcessEngine

pytestmark = pytest.mark.bench

SLACK = 3  # how much slower a busy machine may be than the figures in the docstrings
IMPORTS, MOST_IMPORTS = 8, 24
IMPORT_RATIO = 1.25
TIMED = """
import json, sys, time
began = time.process_time()
{}
print(json.dumps([time.process_time() - began, list(sys.modules)]))
"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """An office in a process of its own."""
    with Pool(ProcessEngine("office", allow_code=True), n=1) as pool:
        yield pool.urls[0]


def percentile(seconds: list[float], share: float) -> float:
    """The time in milliseconds that the share of them does not exceed."""
    return 1000 * sorted(seconds)[min(len(seconds) - 1, int(len(seconds) * share))]


def timed(seconds: list[float], call: Any, *arguments: Any, **options: Any) -> Any:
    """What the call returns; its time is added to the list."""
    began = time.perf_counter()
    result = call(*arguments, **options)
    seconds.append(time.perf_counter() - began)
    return result


def test_an_episode_costs_little(url: str) -> None:
    """At the median a reset takes 25 ms, a step 3 ms, and taking over a session that was given back 1 ms."""
    leases: list[float] = []
    resets: list[float] = []
    steps: list[float] = []
    listed = tasks(url)
    with Fleet([url]) as fleet:
        for task in listed[:48]:
            with timed(leases, fleet.lease) as session:
                timed(resets, session.reset, task["id"])
                for _ in range(10):
                    timed(steps, session.step, "mail_list", {})
                session.finish()

    print(
        f"lease p50 {percentile(leases, 0.5):.2f} ms, reset p50 {percentile(resets, 0.5):.2f} ms, "
        f"step p50 {percentile(steps, 0.5):.2f} ms"
    )
    assert percentile(resets, 0.5) <= 25 * SLACK
    assert percentile(steps, 0.5) <= 3 * SLACK


def test_health_answers_while_a_step_runs(url: str) -> None:
    """Each /health on a connection of its own takes 20 ms at the 99th percentile while a client's step runs for 5 s."""
    health: list[float] = []
    program = {"code": "import time\nend = time.time() + 5\nwhile time.time() < end: pass\nprint('done')"}
    with Session.lease([url]) as session:
        session.reset(tasks(url)[0]["id"], surface="code")
        replies: list[Any] = []
        stepping = threading.Thread(target=lambda: replies.append(session.step("run_python", program)))
        stepping.start()
        time.sleep(0.2)
        while stepping.is_alive():
            timed(health, requests.get, f"{url}/health", timeout=5)
        stepping.join()

    assert "done" in str(replies[0]["observation"]["result"])
    print(f"/health p50 {percentile(health, 0.5):.2f} ms, p99 {percentile(health, 0.99):.2f} ms over {len(health)}")
    assert percentile(health, 0.99) <= 20 * SLACK


def test_importing_costs_little_more_than_what_it_needs(tmp_path: Path) -> None:
    """`from miroir import Session` takes at most 1.25 times `import requests, websockets.sync.client`; no server loads.

    `import miroir` alone loads none of it. In processor time, the best of several, and of some more on a busy machine.
    """
    ours, theirs = 1e9, 1e9
    loaded: set[str] = set()
    cached = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(tmp_path)}
    for number in range(MOST_IMPORTS):
        took_s, modules = _imported("from miroir import Session", cached)
        ours, loaded = min(ours, took_s), loaded | modules
        theirs = min(theirs, _imported("import requests, websockets.sync.client", cached)[0])
        if number > IMPORTS and ours <= IMPORT_RATIO * theirs:
            break

    alone, _ = _imported("import miroir", cached)
    print(f"import miroir {1000 * alone:.0f} ms; its Session {1000 * ours:.0f} ms, what that needs", end=" ")
    print(f"{1000 * theirs:.0f} ms: {ours / theirs:.2f} times")
    assert alone <= theirs
    assert ours <= IMPORT_RATIO * theirs
    assert not {name for name in loaded if name.startswith(("starlette", "uvicorn", "asyncio", "websockets.asyncio"))}


def _imported(what: str, env: dict[str, str]) -> tuple[float, set[str]]:
    """Seconds of processor time for the import in a new process, and the modules that are loaded then."""
    words = [sys.executable, "-c", TIMED.format(what)]
    took_s, modules = json.loads(subprocess.run(words, check=True, capture_output=True, env=env).stdout)
    return took_s, set(modules)
