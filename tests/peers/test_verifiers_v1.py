"""Fleets under verifiers 0.4: evaluated, cut short in every way, served to a trainer; nothing leased is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from modelserver import ModelServer
from peers import scenes
from peers.scenes import Peer, Played
from peers.sites import site, variables
from peers.stage import TRICKY, active, staged
from peers.venvs import venv
from serveclient import until

from miroir.pool import Pool, ProcessEngine
from miroir.records import load

pytestmark = pytest.mark.peers

HERE = Path(__file__).parent
SCENES_S = 240.0
COMMAND_S = 120.0
TOKEN, KEY, FRIENDS_KEY = "S3CRET-OF-THE-OFFICE", "sk-S3CRET-OF-THE-MODEL", "sk-S3CRET-OF-FRIENDS"


def evaluation(urls: list[str], model: ModelServer, name: str, out: Path, *more: str) -> list[str]:
    """The command of an evaluation without a dashboard."""
    endpoint = ["--client.base-url", model.base_url, "--client.api-key-var", "STUB_KEY"]
    fleet = ["--env.taskset.task.urls", *urls]
    quiet = ["--no-push", "--no-rich", "--output-dir", str(out), "--run.name", name]
    return ["vf-eval", "miroir_verifiers", "--model", name, *endpoint, *fleet, *quiet, *more]


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Peer:
    """Verifiers 0.4 with Miroir."""
    folder = tmp_path_factory.mktemp("v1")
    keys = {"STUB_KEY": KEY, "FRIENDS_KEY": FRIENDS_KEY, "OFFICE_TOKEN": TOKEN}
    return Peer(venv("verifiers") / "bin", variables(site(folder / "site"), folder / "home", **keys))


@pytest.fixture(scope="module")
def played(peer: Peer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """All scenes, in one process."""
    script, folder = HERE / "verifiers_v1.py", tmp_path_factory.mktemp("scenes")
    with scenes.played(peer, script, folder, sessions=64, timeout_s=SCENES_S) as scene:
        assert "never retrieved" not in scene.errors
        yield scene


def episodes(path: Path) -> list[dict[str, Any]]:
    """The episodes of a run."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_an_evaluation_by_the_command_line(peer: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty rollouts on four offices: rewards, metrics, records of what was said; and no secret anywhere."""
    monkeypatch.setenv("OFFICE_TOKEN", TOKEN)
    with staged(0, 1) as (_, model), Pool(ProcessEngine("office", token_env="OFFICE_TOKEN"), n=4) as pool:
        settings = {
            "token-env": "OFFICE_TOKEN",
            "traces": str(tmp_path / "records"),
            "coworker-model": "friend",
            "coworker-base-url": model.base_url,
            "coworker-api-key-env": "FRIENDS_KEY",
        }
        flags = [word for name, value in settings.items() for word in (f"--env.taskset.task.{name}", value)]
        done = peer.finished(
            evaluation(pool.urls, model, "say", tmp_path, *flags, "-n", "10", "-r", "2"), tmp_path, COMMAND_S
        )
    assert done.returncode == 0, done.stderr[-4000:]

    made = episodes(tmp_path / "say" / "traces.jsonl")
    records = {record["episode_id"]: record for record in load([tmp_path / "records"])}
    assert (len(made), len(records)) == (20, 20)
    assert all(episode["ok"] for episode in made)
    assert len({record["container"] for record in records.values()}) == 4
    for episode in made:
        (trace,) = episode["traces"]
        told = trace["info"]["miroir"]
        record = records[told["episode_id"]]
        assert trace["rewards"] == {"miroir": {"score": record["reward"], "weight": 1.0}}
        assert {"success": 0.0, "harm": 0.0, **record["diagnostics"]}.items() <= trace["metrics"].items()
        assert told["versions"] == {"miroir": version("miroir"), "office": "1"}
        assert (told["url"], told["checks"]) == (record["container"], record["metadata"]["checks"])
        assert trace["task"]["key"] == record["task_id"] == told["task_id"]
        assert [message["role"] for message in record["messages"]] == ["user", "assistant", "tool", "assistant"]
        assert record["agent"] == {"name": "verifiers/miroir_verifiers", "model": "say", "params": {}}
        assert record["usage"] == {"prompt_tokens": 20, "completion_tokens": 10}

    shown = [done.stdout, done.stderr, *(path.read_text() for path in tmp_path.rglob("*") if path.is_file())]
    assert not [secret for secret in (TOKEN, KEY, FRIENDS_KEY) for text in shown if secret in text]


def test_ctrl_c_frees_a_hundred_leases(peer: Peer, tmp_path: Path) -> None:
    """Within two seconds on a quiet machine, whatever their model is at."""
    with staged(2, 64) as (urls, model):
        program, *words = evaluation(urls[:2], model, "slow", tmp_path, "-n", "1", "-r", "100", "-c", "100")
        command = [str(peer.commands / program), *words]
        process = subprocess.Popen(command, env=peer.variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            until(lambda: active(urls[:2]) == 100, 90.0)
            process.send_signal(signal.SIGINT)
            took_s = until(lambda: active(urls[:2]) == 0, 15.0)
            process.communicate(timeout=30)
        finally:
            process.kill()
            process.communicate()
    assert took_s < 3 * 2.0
    assert process.returncode == 130


def test_void_rollouts_alone_are_played_again(played: Played) -> None:
    """Twenty rollouts, four of them void: these are errors, never zeros, and all that is owed on the next day."""
    report = played.report["evaluated"]
    void = ["SandboxError", "VOID: grading failed: RuntimeError: no grader today"]
    assert (report["ok"], report["errors"]) == (16, [[void]] * 4)
    assert (report["again_ok"], report["kept"]) == (20, 16)
    made = episodes(played.folder / "evals" / "evaluated" / "traces.jsonl")
    assert Counter(episode["traces"][0]["rewards"]["miroir"]["score"] for episode in made) == {1.0: 20}
    rewards = Counter(record["reward"] for record in load([played.folder / "records"]))
    assert rewards == {1.0: 20, None: 4}


@pytest.mark.parametrize("scene", ["step", "model"])
def test_a_cancelled_rollout_frees_its_lease(played: Played, scene: str) -> None:
    """Within a second, in a tool that takes a minute and in the model; cancelled twice too."""
    report = played.report[scene]
    for told in report.values() if scene == "step" else [report]:
        assert (told["before"], told["kinds"]) == (8, ["CancelledError"])
        assert told["ended_s"] < 1.0
        assert told["freed_s"] < 2.0


def test_who_waits_for_a_container_can_be_cancelled(played: Played) -> None:
    """At once, and without a lease that comes later."""
    told = played.report["leasing"]
    assert (told["held"], told["kinds"]) == (1, ["CancelledError"])
    assert told["ended_s"] < 1.0
    assert told["gone_s"] < 1.0
    assert told["first"]["freed_s"] < 2.0


def test_none_of_five_hundred_leases_is_left(played: Played) -> None:
    """Nine of ten rollouts were cancelled, each at another moment of its life."""
    told = played.report["random"]
    assert sum(told["kinds"].values()) == 500
    assert told["kinds"]["CancelledError"] > 100
    assert told["ok"] == told["kinds"]["Episode"] >= 50
    assert told["leases"] > 100
    assert told["freed_s"] < 2.0


def test_limits_are_no_failures_but_in_a_call(played: Played) -> None:
    """What was played until a timeout or a limit is graded; an episode that was cut off in a call is void."""
    report = played.report["limits"]
    for name, stop in {"model": "agent_timeout", "turns": "max_turns", "said": "agent_completed"}.items():
        assert (report[name]["ok"], report[name]["stop"], report[name]["errors"]) == (True, stop, [])
        assert report[name]["rewards"] == {"miroir": float(name == "said")}
        assert report[name]["info"]["ended_by"] == "submit"
    for name, text in {"step": "VOID: STEP_TIMEOUT: ", "setup": "VOID: the rollout was stopped before "}.items():
        ((kind, message),) = report[name]["errors"]
        assert (report[name]["timeout"], report[name]["ok"], kind) == (True, False, "SandboxError")
        assert message.startswith(text)
        assert report[name]["rewards"] == {}
    assert report["said"]["branches"] == report["turns"]["branches"] == 1


def test_a_model_that_is_down_is_the_providers_fault(played: Played) -> None:
    """The error is verifiers' own, and the record says that the episode is void."""
    told = played.report["limits"]["down"]
    assert told["errors"] == [["ProviderError", 'upstream 500: {"error": {"message": "no model today"}}']]
    (record,) = load([played.folder / "down"])
    assert (record["reward"], record["metadata"]["ended_by"]) == (None, "agent_error")
    assert record["agent"] == {"name": "verifiers/miroir_verifiers", "model": "down", "params": {}}


def test_a_void_rollout_can_be_retried(played: Played) -> None:
    """By a rule for its text; each attempt has its error and its record."""
    told = played.report["retried"]
    assert told["errors"] == [["SandboxError", "VOID: grading failed: RuntimeError: no grader today"]] * 3
    records = list(load([played.folder / "retried"]))
    assert len({record["episode_id"] for record in records}) == 3
    assert {record["reward"] for record in records} == {None}


def test_another_environment_can_play_the_tasks(played: Played) -> None:
    """At once, without leaving a lease; a task without a model is valid if it can be graded."""
    valid = {"a": True, "bad-grade": False}
    assert played.report["foreign"] == {"env": "SingleAgentEnv", "ok": [True] * 8, "valid": valid, "held": 0}


def test_a_trainer_is_served(played: Played) -> None:
    """Rollouts of tasks that come over the wire and go back as they came; a cancellation; a wrong configuration."""
    report = played.report["served"]
    assert [(told["ok"], told["rewards"]) for told in report["good"]] == [(True, {"miroir": 1.0})] * 3
    assert report["same"]
    assert report["freed_s"] < 2.0
    said = "CONNECTION_FAILED: none of 1 containers is alive (http://127.0.0.1:9: connection refused); "
    for told in report["wrong"]:
        ((kind, message),) = told["errors"]
        assert kind == "SandboxError"
        assert message.startswith(said)


def test_processes_of_a_trainer_free_what_they_leased(peer: Peer) -> None:
    """Two workers: rollouts are graded; a cancellation, a SIGTERM and a SIGKILL leave nothing leased."""
    with staged(4, 16) as (urls, model):
        command = [str(peer.commands / "python"), str(HERE / "verifiers_pool.py"), json.dumps(urls[:4]), model.base_url]
        process = subprocess.Popen(
            command, env=peer.variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            first, second = json.loads(process.stdout.readline())
            process.stdin.write("say\n")
            assert process.stdout.readline() == "12\n"

            process.stdin.write("slow\n")
            until(lambda: active(urls) == 12, 30.0)
            process.stdin.write("cancel\n")
            assert until(lambda: active(urls) == 0, 15.0) < 2.0
            assert process.stdout.readline() == "0\n"

            process.stdin.write("slow\n")
            until(lambda: active(urls) == 12, 30.0)
            for worker, how, left in ((first, signal.SIGTERM, 6), (second, signal.SIGKILL, 0)):
                os.kill(worker, how)
                assert until(lambda left=left: active(urls) == left, 15.0) < 2.0  # type: ignore[misc]
            process.communicate(timeout=60)
        finally:
            process.kill()
            process.communicate()
    assert process.returncode == 0


def test_coworkers_cost_is_told_apart(played: Played) -> None:
    """Their model's tokens are not the agent's."""
    told = played.report["befriended"]
    assert (told["ok"], told["extra"]) == (True, [{"prompt_tokens": 10, "completion_tokens": 5}])


def test_schemas_reach_the_model_as_they_are(played: Played) -> None:
    """Byte for byte, defaults, unions, definitions and letters of other alphabets included; errors of tools as text."""
    said = next(body for body in played.asked if body["model"] == "say")
    tools = {tool["function"]["name"]: tool["function"] for tool in said["tools"]}
    assert next(iter(tools)) == "tricky"
    assert json.dumps(tools["tricky"]["parameters"]) == json.dumps(TRICKY)
    assert tools["tricky"]["description"] == "„Tricky“"
    wasted = [body for body in played.asked if body["model"] == "waste"][-1]["messages"]
    assert wasted[-1]["content"].startswith("tool_not_found: ")


def test_two_hundred_steps_at_once(played: Played) -> None:
    """Steps of a second take little more, and the event loop is hardly late."""
    told = played.report["napping"]
    assert told["held"] == 0
    assert told["took_s"] < 4.0
    assert told["lag_p99_s"] < 0.25


def test_settings_that_cannot_work_are_told(played: Played) -> None:
    """One error each, which says what to do."""
    assert played.report["faults"] == {
        "nothing": (
            "INVALID_ARGUMENT: no fleet is named; pass urls (a URL file, base URLs or dns://name:port), or a preset"
        ),
        "unknown": (
            "INVALID_ARGUMENT: load_environment has no option 'max_turns' with the verifiers that is installed; it has "
            "calibration, coworker_api_key_env, coworker_base_url, coworker_model, keep, max_seconds, preset, split, "
            "surface, token_env, traces, urls"
        ),
        "preset": (
            "INVALID_ARGUMENT: there is no preset 'nope', nor any other; "
            "install its package, or write one by miroir verifiers init"
        ),
        "half": (
            "INVALID_ARGUMENT: a coworker model is its name and its address; pass coworker_model and coworker_base_url"
        ),
        "variable": "INVALID_ARGUMENT: the environment variable NOT_THERE is empty or not set; put the secret into it",
        "empty": (
            "INVALID_ARGUMENT: the split 'empty' has no task to play (0 are listed); "
            "name another split or other classes, or a coworker model"
        ),
        "unreachable": (
            "CONNECTION_FAILED: none of 1 containers is alive (http://127.0.0.1:9: connection refused); "
            "start them (`miroir pool`), or mend the URLs"
        ),
    }
