"""`miroir run`: its options reach the run, its output is for pipes and people, its exit code tells."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from console import started
from modelserver import Reply, answer, serving, tool_then_submit
from troubled import Troubled, served

from miroir import cli
from miroir.cli.progress import LINE_EVERY_S, shown
from miroir.records import load
from miroir.run import Progress

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A troubled container."""
    with served(Troubled) as urls:
        yield urls[0]


def run(*words: object) -> int:
    """`miroir run` in this process: its exit code."""
    return cli.main(["run", *map(str, words)])


def records(folder: Path) -> list[dict[str, Any]]:
    """The records of a folder."""
    return list(load([folder]))


def test_ends_with_a_table(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """0 when every episode is graded, whatever its success; the table on stdout, the talk on stderr."""
    code = run(url, "--out", tmp_path, "--agent", "playing:says", "--task", "plain", "--task", "short", "-k", 3)

    said = capsys.readouterr()
    assert code == 0
    assert said.out == (
        "split  tasks  graded  success  reward  harm  void\ntrain      2       6     1.00    1.00  0.00     0\n"
    )
    assert re.fullmatch(r"6/6 rollouts, 6 successful, 0 void, [\d.]+ a second\n", said.err)
    assert len(records(tmp_path)) == 6


def test_the_table_is_json_where_it_is_asked_for(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` prints the report for a program."""
    run(url, "--out", tmp_path, "--agent", "playing:says", "--task", "plain", "--json")

    said = json.loads(capsys.readouterr().out)
    assert said["splits"]["train"] == {
        "tasks": 1,
        "graded": 1,
        "success": 1.0,
        "reward": 1.0,
        "harm": 0.0,
        "void": 0,
    }
    assert (said["earlier"], said["unfinished"], said["reasons"]) == (0, 0, {})


def test_says_what_was_done_before(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same command again plays nothing, shows the same table, and says why."""
    for _ in range(2):
        assert run(url, "--out", tmp_path, "--agent", "playing:says", "--task", "plain") == 0

    said = capsys.readouterr()
    assert said.out[: len(said.out) // 2] * 2 == said.out
    assert said.err.endswith("1 rollouts had a graded record before\n")


def test_ends_with_1_when_some_is_void(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What stays void after its retries is counted, with the reason and what to do."""
    code = run(url, "--out", tmp_path, "--agent", "playing:breaks", "--task", "plain", "--retries", 1)

    assert code == 1
    assert capsys.readouterr().err.endswith(
        "1 rollouts are still void; the same command runs them again\n  1 x boom failed: RuntimeError: a pipe burst\n"
    )
    assert [record["attempt"] for record in records(tmp_path)] == [0, 1]


def test_options_reach_the_episodes(url: str, tmp_path: Path) -> None:
    """Surface, limit, splits, concurrency and the agent's options are what the records say."""
    options = ["--surface", "mcp", "--max-seconds", 60, "--concurrency", 2, "--split", "eval", "--split", "train"]

    run(url, "--out", tmp_path, "--agent", "playing:slow?seconds=0&seed=7", "--task", "held-out", *options)

    [record] = records(tmp_path)
    assert (record["surface"], record["max_seconds"], record["split"]) == ("mcp", 60, "eval")
    assert record["agent"] == {"name": "playing:slow", "model": None, "params": {"seconds": 0, "seed": 7}}


def test_a_model_plays(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chat model plays with its parameters and its key, and the key is in no record."""
    monkeypatch.setenv("KEY", "sk-s3cret")
    with serving(tool_then_submit) as model:
        chat = ["--model", "stub", "--base-url", model.base_url, "--api-key-env", "KEY"]
        code = run(url, "--out", tmp_path, "--task", "plain", *chat, "--param", "temperature=0.5", "--param", "seed=3")

    [record] = records(tmp_path)
    assert code == 0
    assert record["agent"] == {"name": "chat", "model": "stub", "params": {"temperature": 0.5, "seed": 3}}
    assert model.bodies[0]["temperature"] == 0.5
    assert model.asked[0].headers["Authorization"] == "Bearer sk-s3cret"
    assert record["messages"][1]["tool_calls"][0]["function"]["name"] == "say"
    assert record["usage"]["prompt_tokens"] > 0
    assert "sk-s3cret" not in json.dumps(record)


@pytest.mark.parametrize("own", [True, False])
def test_a_coworkers_model_answers(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: bool) -> None:
    """Coworkers are answered by their model, at its own endpoint, or at the agent's with the agent's key."""
    monkeypatch.setenv("KEY", "sk-s3cret")
    with serving([Reply(answer("42"))]) as model:
        where = "--coworker-base-url" if own else "--base-url"
        key = "--coworker-api-key-env" if own else "--api-key-env"
        who = ["--coworker-model", "ann", where, model.base_url, key, "KEY"]
        code = run(url, "--out", tmp_path, "--agent", "playing:says", "--task", "ask-first", *who)

    assert code == 0
    assert [asked.body["model"] for asked in model.asked] == ["ann"]
    assert model.asked[0].headers["Authorization"] == "Bearer sk-s3cret"


@pytest.mark.filterwarnings("default")
def test_tasks_without_their_coworkers_are_left_out(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a coworkers' model one line says how many tasks are left out."""
    run(url, "--out", tmp_path, "--agent", "playing:says", "--task", "plain", "--task", "ask")

    assert "warning: 1 of 2 tasks are left out: their coworkers need a model" in capsys.readouterr().err
    assert [record["task_id"] for record in records(tmp_path)] == ["plain"]


def test_a_file_of_tasks_is_played(url: str, tmp_path: Path) -> None:
    """`--tasks` plays the file's tasks, as `miroir tasks --json` writes them or with reset options."""
    path = tmp_path / "tasks.txt"
    path.write_text('{"id": "plain", "reset": {"mood": "odd"}}\n')

    run(url, "--out", tmp_path, "--agent", "playing:says", "--tasks", path)

    assert [record["task"]["reset"] for record in records(tmp_path)] == [{"mood": "odd"}]


def test_a_calibration_chooses_the_tasks(url: str, tmp_path: Path) -> None:
    """`--calibration` keeps the tasks of a class, learnable by default."""
    listed = {task["id"]: task["task_hash"] for task in Troubled().tasks("train")}
    entries = {
        task_id: {"task_hash": task_hash, "class": "learnable" if task_id == "short" else "solved"}
        for task_id, task_hash in listed.items()
    }
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps({"model": "m", "k": 2, "tasks": entries}))
    words = [url, "--agent", "playing:says", "--calibration", path]

    run(*words, "--out", tmp_path / "a")
    run(*words, "--out", tmp_path / "b", "--keep", "solved", "--task", "plain", "--task", "short")

    assert [record["task_id"] for record in records(tmp_path / "a")] == ["short"]
    assert [record["task_id"] for record in records(tmp_path / "b")] == ["plain"]


def test_shards_are_written_i_of_n(url: str, tmp_path: Path) -> None:
    """`--shard 0/2` and `1/2` share the rollouts."""
    for shard in ("0/2", "1/2"):
        run(url, "--out", tmp_path, "--agent", "playing:says", "--task", "plain", "-k", 8, "--shard", shard)

    assert sorted(record["trial"] for record in records(tmp_path)) == list(range(8))


AGENT = ["--agent", "playing:says"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "who plays? give --agent SPEC, or --model M with --base-url U"),
        ([*AGENT, "--model", "m"], "who plays? give --agent SPEC, or --model M with --base-url U"),
        (["--model", "m"], "where is m? give its endpoint with --base-url"),
        ([*AGENT, "--param", "a=1"], "--param belongs to --model; write an agent's options as module:function?name="),
        ([*AGENT, "--coworker-model", "m"], "where is m? give its endpoint with --coworker-base-url"),
        ([*AGENT, "--shard", "1"], "the shard '1' is not of the form i/n; write 0/4 to 3/4 for four hosts"),
        ([*AGENT, "--shard", "2/2"], "the shard 2/2 is none; write i/n with i from 0 to n-1"),
        ([*AGENT, "-k", 0], "k and concurrency must be at least 1"),
        ([*AGENT, "--episodes", 0], "0 episodes is none; ask for at least one"),
        ([*AGENT, "--episodes", 1, "--split", "train"], "--split and --episodes exclude each other; give one"),
        ([*AGENT, "--tasks", "nowhere.jsonl"], "nowhere.jsonl cannot be read (No such file or directory); name a file"),
        ([*AGENT, "--calibration", "nowhere.json"], "nowhere.json"),
        ([*AGENT, "--keep", "solved"], "--keep is of no use without --calibration; give both, or neither"),
        ([*AGENT, "--base-url", "http://127.0.0.1:9"], "--base-url is of no use without --model or --coworker-model;"),
        ([*AGENT, "--api-key-env", "K"], "--api-key-env is of no use without --model or --coworker-model;"),
        ([*AGENT, "--coworker-base-url", "http://127.0.0.1:9"], "--coworker-base-url is of no use without --coworker-"),
        ([*AGENT, "--coworker-api-key-env", "K"], "--coworker-api-key-env is of no use without --coworker-model;"),
        (["--model", "m", "--base-url", "http://127.0.0.1:9", "--param", "a"], "the option 'a' is not NAME=VALUE"),
        (["--model", "m", "--base-url", "http://127.0.0.1:9", "--api-key-env", "NO_KEY"], "NO_KEY is empty or not set"),
    ],
)
def test_refuses_what_does_not_go_together(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[object], message: str
) -> None:
    """Each is one line that says what to do, exit code 2, and nothing is played."""
    assert run(url, "--out", tmp_path, *words) == 2

    said = capsys.readouterr()
    assert message in said.err
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert records(tmp_path) == []


def test_signal_handlers_are_put_back(url: str, tmp_path: Path) -> None:
    """After the command the process has the signal handlers that it had before."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]

    run(url, "--out", tmp_path, "--agent", "playing:says", "--task", "plain")

    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


# Progress


def test_progress_is_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    """Where stderr is no terminal a line is printed at most every five seconds, and one at the end."""
    with shown() as tell:
        for tenth in range(121):
            tell(Progress(tenth, 120, tenth // 2, 1, tenth / 10))
    with shown() as tell:
        tell(Progress(0, 0, 0, 0, 0.0))

    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "50/120 rollouts, 25 successful, 1 void, 10.0 a second, 7 s left",
        "100/120 rollouts, 50 successful, 1 void, 10.0 a second, 2 s left",
        "120/120 rollouts, 60 successful, 1 void, 10.0 a second",
    ]
    assert LINE_EVERY_S == 5.0


def test_progress_is_a_bar_on_a_terminal(url: str, tmp_path: Path) -> None:
    """On a terminal a bar shows rate, time left, successes and voids."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    words = ["run", url, "--out", tmp_path, "--agent", "playing:slow", "--task", "plain", "-k", 5]
    try:
        with started(*words, cwd=HERE, stdout=subprocess.DEVNULL, stderr=theirs) as process:
            assert process.wait(60) == 0
        os.write(theirs, b"the end")
        shown_bar = ""
        while "the end" not in shown_bar:
            shown_bar += os.read(ours, 65536).decode()
    finally:
        os.close(ours)
        os.close(theirs)

    assert "5/5 [" in shown_bar
    assert "rollout/s" in shown_bar
    assert "success=5, void=0" in shown_bar
