"""`miroir pool` as a command."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path

import pytest
from processes import until

from miroir.cli import main
from miroir.pool import Pool, ProcessEngine, read_statuses

EXAMPLES = Path(__file__).with_name("examples")


def test_a_fleet_is_shown_by_file_or_by_url(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 0 when every container is healthy, 1 when one is not, 2 when there is no list."""
    monkeypatch.chdir(EXAMPLES)
    path = tmp_path / "urls.txt"
    with Pool(ProcessEngine("counter:Counter"), n=2, urls_file=path) as pool:
        assert main(["pool", "--status", str(path)]) == 0
        assert capsys.readouterr().out.count("counter") == 2
        assert main(["pool", "--status", pool.urls[0], "http://127.0.0.1:9", "--json"]) == 1
    shown = json.loads(capsys.readouterr().out)
    assert [(status["healthy"], status["env"], status["slots"]) for status in shown] == [
        (True, "counter", 1),
        (False, "", None),
    ]
    assert main(["pool", "--status", str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"error: URL_FILE: {path} cannot be read")


def test_a_pool_without_a_file_prints_its_urls(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """URLs go to stdout, talk to stderr; the handlers of signals are as before afterwards."""
    monkeypatch.chdir(EXAMPLES)
    shown: list[str] = []

    def printed() -> bool:
        shown.append(capsys.readouterr().out)
        return "http" in shown[-1]

    def stop_when_ready() -> None:
        until(printed)
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    threading.Thread(target=stop_when_ready).start()
    assert main(["pool", "--env", "counter:Counter", "-n", "1"]) == 0
    assert signal.getsignal(signal.SIGTERM) == before
    assert not read_statuses([shown[-1].strip()])[0].healthy
    assert capsys.readouterr().err.endswith("stopping\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--env", "office"], "how many servers? add -n N"),
        (["--env", "office", "-n", "0"], "a pool of 0 has no container; ask for at least 1"),
        (["--env", "office", "-n", "1", "--token-env", "NO_TOKEN"], "variable NO_TOKEN is empty or not set"),
        (["--status", "http://127.0.0.1:9", "--token-env", "NO_TOKEN"], "variable NO_TOKEN is empty or not set"),
        (["--env", "office", "-n", "1", "--urls", "/nonexistent/urls.txt"], "name a file in a writable folder"),
        (["--env", "office", "-n", "1", "--max-sessions", "0"], "max_sessions is 0"),
        (["--env", "nowhere", "-n", "2"], "no environment 'nowhere'"),
        (["--status", "urls"], "cannot be read: no such file"),
        (["--status", "http://a", "b"], "'b' is not a base URL"),
    ],
)
def test_what_cannot_work_is_one_line_and_exit_code_2(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last line says what to do; nothing is left running."""
    monkeypatch.delenv("NO_TOKEN", raising=False)
    assert main(["pool", *words]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("error: ")
    assert message in last
