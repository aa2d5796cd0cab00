"""The real AppWorld through gateways: `miroir pool`, `miroir run` and `miroir calibrate`; how episodes become void."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
from peers.appworld_home import TASKS, data_root, environment, python
from processes import alive, children, until

from miroir.appworld import session as session_module
from miroir.check import check
from miroir.envs.appworld import AppWorld
from miroir.errors import EnvError, InvalidArgument
from miroir.records import load
from miroir.serve import running
from miroir.session import Session

pytestmark = pytest.mark.peers

HERE = Path(__file__).parent
SWALLOWED = "i = 0\nwhile True:\n  try:\n    while True:\n      i += 1\n  except BaseException:\n    j = 1"


def miroir(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A command, to its end."""
    path = os.pathsep.join([str(HERE.parent), str(HERE)])
    env = {**environment(), "PYTHONPATH": path, **environ}
    argv = [sys.executable, "-m", "miroir", *words]
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=300, check=False)


@contextmanager
def pooled(folder: Path, count: int, *words: str) -> Iterator[subprocess.Popen[str]]:
    """`miroir pool` over gateways with servers of their own."""
    argv = ["pool", "--env", "appworld", "--data-root", str(data_root()), "--engine", "process", "--python", python()]
    argv += ["-n", str(count), "--urls", str(folder / "urls.txt"), "--wait", "120", *words]
    with subprocess.Popen(
        [sys.executable, "-m", "miroir", *argv], env=environment(), stderr=subprocess.PIPE, text=True
    ) as pool:
        try:
            assert until(lambda: (folder / "urls.txt").exists() or pool.poll() is not None, 120.0)
            yield pool
        finally:
            pool.terminate()
            pool.wait(30)


def test_a_run_over_gateways_is_graded_void_where_it_broke_and_calibrated(tmp_path: Path) -> None:
    """T1, T2, T4, T5, T7, T8: right, wrong and broken episodes; each that broke is void once, run again, never 0."""
    notes = tmp_path / "notes"
    notes.mkdir()
    proxies = {"http_proxy": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}
    with pooled(tmp_path, 2) as pool:
        done = miroir(
            *("run", str(tmp_path / "urls.txt"), "--out", str(tmp_path / "out"), "-k", "5"),
            *("--agent", f"appworld_agent:plays?notes={notes}"),
            **proxies,
        )
        servers = [pid for gateway in children(pool.pid) for pid in children(gateway)]
    assert done.returncode == 0, done.stderr
    assert not any(map(alive, servers))

    records = list(load([tmp_path / "out"]))
    graded = {(r["task_id"], r["trial"]): r["reward"] for r in records if r["reward"] is not None}
    assert graded == {(task, trial): float(trial != 1) for task in TASKS for trial in range(5)}
    broken = [r for r in records if r["reward"] is None]
    assert Counter(r["trial"] for r in broken) == {2: 3, 3: 3, 4: 3}
    assert {r["metadata"]["ended_by"] for r in broken} == {"env_error"}
    assert all("/execute" in r["metadata"]["void_reason"] for r in broken)
    assert len(records) == 15 + 9

    calibrated = miroir("calibrate", str(tmp_path / "out"), "--model", "toy", "--out", str(tmp_path / "c.json"))
    assert calibrated.returncode == 0, calibrated.stderr
    classes = {task: entry["class"] for task, entry in json.loads((tmp_path / "c.json").read_text())["tasks"].items()}
    assert classes == dict.fromkeys(TASKS, "learnable")
    assert "9 of 24 rollouts void" in calibrated.stdout


@contextmanager
def gateway(folder: Path, **options: Any) -> Iterator[str]:
    """A gateway in this process, with a server of its own."""
    with running(
        lambda: AppWorld(str(data_root()), python=python(), outputs_dir=str(folder / "out"), **options)
    ) as url:
        yield url


def test_a_server_that_never_returns_or_opens_no_world_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T3, T10, T12: void within the bound, then well again in the same session; a stop with one in flight ends."""
    monkeypatch.setattr(session_module, "_LOST_CLOSE_TIMEOUT_S", 0.5)
    with gateway(tmp_path, execution_timeout_s=1.0) as url, Session.lease([url]) as session:
        session.reset(TASKS[0])
        (server,) = (pid for pid in children(os.getpid()) if alive(pid))
        began = time.monotonic()
        with pytest.raises(EnvError, match=r"/execute did not complete: .* timed out"):
            session.step("execute", {"code": SWALLOWED})
        assert time.monotonic() - began < 60.0
        assert session.finish()["record"]["reward"] is None

        session.reset(TASKS[0])
        assert not alive(server)
        (port,) = _ports(os.getpid())
        for path, body in (("/save_state", {"state_id": "a"}), ("/load_state", {"state_id": "a"})):
            base = f"http://127.0.0.1:{port}"
            requests.post(base + path, json={"task_id": TASKS[0], **body}, timeout=30).raise_for_status()
        session.reset(TASKS[1])
        assert session.step("execute", {"code": "apis.supervisor.complete_task(answer=3)"})["done"]
        assert session.finish()["reward"] == 1.0
    assert children(os.getpid()) == []


def _ports(parent: int) -> list[int]:
    """The ports of the AppWorld servers among a process's children."""
    lines = (Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in children(parent))
    return [int(words[words.index(b"--port") + 1]) for words in lines if b"environment" in words]


def test_what_cannot_start_says_why(tmp_path: Path) -> None:
    """T6, T9, T11: an interpreter without appworld, an unknown task, a server killed while it starts."""
    root, pool = str(data_root()), ("pool", "--env", "appworld", "-n", "1")
    without = miroir(*pool, "--data-root", root, "--python", sys.executable)
    assert without.returncode == 2
    assert "No module named 'appworld'" in without.stderr

    with pytest.raises(InvalidArgument, match="which interpreter has appworld"):
        AppWorld(root, engine="process")

    with subprocess.Popen(
        [sys.executable, "-m", "miroir", *pool, "--data-root", root, "--python", python()],
        env=environment(), stderr=subprocess.PIPE, text=True,
    ) as starting:  # fmt: skip
        assert until(lambda: any(_ports(gateway) for gateway in children(starting.pid)), 60.0)
        (gateway_pid,) = children(starting.pid)
        os.kill(children(gateway_pid)[0], signal.SIGKILL)
        assert starting.wait(60) == 2
        assert starting.stderr is not None
        assert "killed by SIGKILL" in starting.stderr.read()

    with pooled(tmp_path, 1):
        unknown = miroir("run", str(tmp_path / "urls.txt"), "--out", str(tmp_path / "out"), "--task", "nope_1",
                         "--agent", "appworld_agent:plays?notes=x")  # fmt: skip
    assert unknown.returncode == 2
    assert "there is no task 'nope_1'" in unknown.stderr


def test_the_gateway_keeps_the_protocol(tmp_path: Path) -> None:
    """Every rule of the check, over a root whose splits share no task, as in AppWorld's own."""
    root = tmp_path / "root" / "data"
    (root / "datasets").mkdir(parents=True)
    (root / "datasets" / "train.txt").write_text("\n".join(TASKS[:2]))
    (root / "datasets" / "dev.txt").write_text(TASKS[2])
    for name in ("api_docs", "base_dbs", "tasks"):
        (root / name).symlink_to(data_root() / "data" / name)
    options = {"data_root": str(root.parent), "python": python(), "outputs_dir": str(tmp_path / "out")}
    with running(lambda: AppWorld(**options)) as url:
        assert check(url).broken == []
