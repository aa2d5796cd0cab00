"""Runs with real servers and clients, killed and stopped in every way."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from console import started
from processes import until

from miroir import rest
from miroir.agents import CallableAgent, load_agent
from miroir.pool import Pool, ProcessEngine, read_statuses
from miroir.records import load
from miroir.run import run
from miroir.urls import read_urls

pytestmark = pytest.mark.faults

TESTS = Path(__file__).parent.parent
STOPPING = "WARNING miroir.run: stopping: episodes that run have 7 s to finish; interrupt again to end at once\n"


@pytest.fixture
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers find the tests' environment."""
    monkeypatch.setenv("PYTHONPATH", str(TESTS))


@pytest.fixture
def troubled(tmp_path: Path, _importable: None) -> Iterator[Pool]:
    """Two servers, each a process of its own."""
    with Pool(ProcessEngine("troubled:Troubled"), n=2, urls_file=tmp_path / "urls.txt") as pool:
        yield pool


def health(url: str) -> dict[str, Any]:
    """What a server says of itself."""
    said: dict[str, Any] = rest.get(f"{url}/health")
    return said


def graded(folder: Path) -> Counter[tuple[str, int]]:
    """How often each rollout was graded."""
    return Counter((record["task_id"], record["trial"]) for record in load([folder]) if record["reward"] is not None)


def test_four_hundred_episodes_on_eight_servers(tmp_path: Path) -> None:
    """32 threads play 400 episodes: all graded, all successful, none void, and no server ever had two sessions."""
    with Pool(ProcessEngine("office"), n=8, urls_file=tmp_path / "urls.txt") as pool:
        began = time.monotonic()
        report = run(
            tmp_path / "urls.txt",
            tmp_path / "traces",
            load_agent("miroir.envs.office:reference"),
            narrow=lambda tasks: tasks[:40],
            k=10,
            concurrency=32,
        )
        took_s = time.monotonic() - began
        assert until(lambda: not any(health(url)["leased"] for url in pool.urls), 2)
        sessions = [health(url)["sessions"] for url in pool.urls]

    print(f"400 episodes in {took_s:.1f} s, {400 / took_s:.0f} a second; {report.stats}")
    totals = report.splits["train"]
    assert (totals.graded, totals.successes, totals.harmful, totals.void, report.unfinished) == (400, 400, 0, 0, 0)
    assert len(list(load([tmp_path / "traces"]))) == 400
    assert set(graded(tmp_path / "traces").values()) == {1}
    assert sessions == [{"active": 0, "max": 1, "peak": 1}] * 8


def test_a_server_killed_in_a_step(tmp_path: Path, troubled: Pool) -> None:
    """Its client knows within a second; the episode is void and played again; the pool has the server back."""
    noticed_s: list[float] = []
    killed_at = 0.0

    def kill(pid: int) -> None:
        nonlocal killed_at
        killed_at = time.monotonic()
        os.kill(pid, signal.SIGKILL)

    def plays(session: Any, task: Any, tools: Any, **_: Any) -> None:
        if not noticed_s:
            pid = session.step("where", {})["observation"]["result"]["structured_content"]["pid"]
            killer = threading.Timer(0.3, kill, [pid])
            killer.start()
            try:
                session.step("sleep", {"seconds": 30})
            finally:
                noticed_s.append(time.monotonic() - killed_at)
        session.step("say", {})

    report = run(tmp_path / "urls.txt", tmp_path / "traces", CallableAgent("t:a", plays), task_ids=["plain"])
    back = until(lambda: [status.healthy for status in read_statuses(read_urls(tmp_path / "urls.txt"))] == [True] * 2)

    void, played = load([tmp_path / "traces"])
    print(f"noticed after {1000 * noticed_s[0]:.0f} ms")
    assert noticed_s[0] < 1
    assert (void["reward"], void["metadata"]["ended_by"], void["attempt"]) == (None, "lost", 0)
    assert void["metadata"]["void_reason"].startswith("CONNECTION_LOST: ")
    assert (played["reward"], played["attempt"], report.unfinished) == (1.0, 1, 0)
    assert back


CLIENT = """
import sys
from miroir import Session
session = Session.lease([sys.argv[1]])
session.reset("plain")
print("holds", flush=True)
if len(sys.argv) > 2:
    session.step("sleep", {"seconds": 1.0, "mark": sys.argv[2]})
else:
    sys.stdin.read()
"""


@pytest.mark.parametrize("stepping", [True, False])
def test_a_client_killed_in_an_episode(tmp_path: Path, troubled: Pool, stepping: bool) -> None:
    """Its container is free within 200 ms of the step's end, or of the kill where no step runs."""
    url = troubled.urls[0]
    late_s = []
    for number in range(3):
        mark = tmp_path / f"step-ended-{number}"
        words = [sys.executable, "-c", CLIENT, url, *([str(mark)] if stepping else [])]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
            assert client.stdout is not None
            assert client.stdout.readline() == "holds\n"
            time.sleep(0.2)
            assert health(url)["leased"]
            client.kill()
            killed_at = time.time()
        free_at = _free_at(url)
        late_s.append(free_at - (float(mark.read_text()) if stepping else killed_at))

    print(f"free after {[round(1000 * s) for s in late_s]} ms")
    assert min(late_s) <= 0.2
    assert max(late_s) <= 0.6


def _free_at(url: str) -> float:
    """When the server says that it is free, on the wall clock."""
    while health(url)["leased"]:
        time.sleep(0.005)
    return time.time()


def test_a_run_killed_twenty_times(tmp_path: Path, troubled: Pool) -> None:
    """Resumed after each SIGKILL, it ends with one graded record a rollout, and torn lines only where it was killed."""
    dice = random.Random(7)
    words = ["run", tmp_path / "urls.txt", "--out", tmp_path / "traces", "--concurrency", 4, "--task", "plain"]
    words += ["--task", "short", "-k", 200, "--agent", "playing:slow?seconds=0.04"]
    counts = []
    (tmp_path / "traces").mkdir()
    for number in range(20):
        files = len(list((tmp_path / "traces").iterdir()))
        with started(*words, cwd=TESTS) as process:
            if number % 2:  # in its play, however slow the machine is to start it; else at any time
                until(lambda files=files: len(list((tmp_path / "traces").glob("*.jsonl"))) > files)
            time.sleep(dice.uniform(0.0, 0.8))
            process.kill()
        counts.append(sum(graded(tmp_path / "traces").values()))
    with started(*words, cwd=TESTS) as process:
        out, errors = process.communicate(timeout=60)

    print(f"graded after each kill: {counts}")
    assert process.returncode == 0, errors
    assert out.splitlines()[1].split()[:3] == ["train", "2", "400"]
    assert graded(tmp_path / "traces") == dict.fromkeys([(t, n) for t in ("plain", "short") for n in range(200)], 1)
    for path in (tmp_path / "traces").iterdir():
        *whole, _torn = path.read_bytes().split(b"\n")
        assert all(json.loads(line)["schema"] == 1 for line in whole), path


def _interrupted(folder: Path, agent: str, *signals: int) -> tuple[int, float, str]:
    """A run that is sent the signals half a second apart once its first record is there: exit code, seconds, errors."""
    words = ["run", folder / "urls.txt", "--out", folder / "traces", "--task", "plain", "-k", 5, "--concurrency", 2]
    with started(*words, "--agent", agent, cwd=TESTS) as process:
        assert until(lambda: (folder / "traces").exists() and any((folder / "traces").glob("*.jsonl")))
        time.sleep(0.3)
        began = time.monotonic()
        for number in signals:
            process.send_signal(number)
            time.sleep(0.5)
        _, errors = process.communicate(timeout=30)
        return process.returncode, time.monotonic() - began, errors


@pytest.mark.parametrize("agent", ["playing:thinks", "playing:waits"])
def test_ctrl_c_ends_a_run_that_is_blocked(tmp_path: Path, troubled: Pool, agent: str) -> None:
    """Blocked for a minute in its agent's code or in a step, it ends within ten seconds and keeps what was finished."""
    code, took_s, errors = _interrupted(tmp_path, agent, signal.SIGINT)

    print(f"{agent}: ended after {took_s:.1f} s")
    assert (code, errors) == (130, STOPPING + "interrupted\n")
    assert took_s < 10
    assert [(record["trial"], record["reward"]) for record in load([tmp_path / "traces"])] == [(0, 1.0)]


def test_a_second_ctrl_c_ends_a_run_at_once(tmp_path: Path, troubled: Pool) -> None:
    """Who is in a hurry waits for nothing, and still keeps what was finished."""
    code, took_s, errors = _interrupted(tmp_path, "playing:thinks", signal.SIGINT, signal.SIGINT)

    print(f"ended after {took_s:.1f} s, the half second between the signals included")
    assert (code, errors) == (130, STOPPING + "interrupted\n")
    assert took_s < 3
    assert [(record["trial"], record["reward"]) for record in load([tmp_path / "traces"])] == [(0, 1.0)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_lets_its_episodes_finish(tmp_path: Path, troubled: Pool, number: int) -> None:
    """Episodes that can finish do, and are saved; what is left is played by the same command again."""
    code, took_s, errors = _interrupted(tmp_path, "playing:slow?seconds=0.7", number)
    kept = graded(tmp_path / "traces")
    words = ["run", tmp_path / "urls.txt", "--out", tmp_path / "traces", "--task", "plain", "-k", 5]
    with started(*words, "--agent", "playing:slow?seconds=0.7", cwd=TESTS) as process:
        process.communicate(timeout=60)

    assert (code, errors) == (130, STOPPING + "interrupted\n")
    assert took_s < 5
    assert 2 <= len(kept) < 5
    assert graded(tmp_path / "traces") == dict.fromkeys([("plain", trial) for trial in range(5)], 1)


def test_a_stopped_demo_leaves_no_server(tmp_path: Path) -> None:
    """SIGTERM while it plays ends the demo and its four servers."""
    with started("demo", "--dir", tmp_path) as process:
        assert until(lambda: any(tmp_path.glob("traces/*.jsonl")))
        urls = (tmp_path / "urls.txt").read_text()
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)

    assert process.returncode == 130
    assert errors.endswith("interrupted\n")
    assert urls.count("http://") == 4
    assert not (tmp_path / "urls.txt").exists()
