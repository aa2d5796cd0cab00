"""Packages of tasks under verifiers 0.4, and the bridge over which its harnesses play."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import modelserver
import pytest
from peers.sites import site, variables
from peers.venvs import venv
from troubled import Troubled, served

from miroir.pool import Pool, ProcessEngine

pytestmark = pytest.mark.peers

HARNESS_S = 15  # in which uv must have started a harness
KEY = "sk-of-the-model"
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LIMIT_S = 240.0


@pytest.fixture(scope="module")
def bin_folder() -> Path:
    """The commands of an environment that has verifiers."""
    return venv("verifiers") / "bin"


@pytest.fixture(scope="module")
def miroir_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with Miroir for that environment."""
    return site(tmp_path_factory.mktemp("miroir") / "site")


@pytest.fixture(scope="module")
def bridged(bin_folder: Path, miroir_site: Path) -> dict[str, Any]:
    """What came of episodes that MCP's own client played over the bridge."""
    with served(Troubled) as (url,):
        done = subprocess.run(
            [str(bin_folder / "python"), str(HERE / "bridge_client.py"), url],
            env=variables(miroir_site, miroir_site.parent),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-4000:]
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def test_tools_arrive_as_they_are(bridged: dict[str, Any]) -> None:
    """By their own names, without a prefix, and with their schemas byte for byte."""
    assert bridged["listed"]["same"]
    assert bridged["listed"]["names"][:2] == ["say", "ask"]


def test_an_episode_is_played_to_its_end(bridged: dict[str, Any]) -> None:
    """What tools say is text; after the end no call reaches the environment."""
    said = bridged["played"].pop("said")
    assert said[0] == '{"said":"hi"}'
    assert said[1].startswith("execution_error: not today")
    assert said[2].startswith("tool_not_found: ")
    assert said[4].startswith("EPISODE_OVER: ")
    assert bridged["played"] == {"done": True, "reward": 1.0, "steps": ["say", "refuse", "fly", "submit"]}


def test_a_call_that_is_sent_again_is_made_once(bridged: dict[str, Any]) -> None:
    """However often its client sends it; the model may make the same call in its next turn."""
    assert bridged["sent_again"] == {"said": ['{"said":"hi"}'] * 2, "reward": 0.0, "steps": ["say", "say", "submit"]}
    assert bridged["given_up"] == {"said": ["slept"], "reward": 0.0, "steps": ["sleep", "submit"]}


def test_a_lost_container_is_answered(bridged: dict[str, Any]) -> None:
    """By an error of the tool, which no client sends again."""
    assert bridged["lost"] == {"error": True, "code": "CONNECTION_LOST"}


def test_only_the_key_of_a_rollout_opens_the_bridge(bridged: dict[str, Any]) -> None:
    """As a bearer or in the URL, while the rollout lasts; it is in no log, no repr and no error of a trace."""
    closed = {"none": 401, "wrong": 401, "wrong in URL": 401}
    assert bridged["refused"] == {**closed, "bearer": 200, "in URL": 200}
    assert bridged["over"] == {**closed, "bearer": 401, "in URL": 401}
    assert bridged["shown"] == [False, False]
    assert bridged["redacted"] == {"message": "key=…", "kept": False}
    assert bridged["threads"] == []


def test_a_harness_that_could_only_play_without_tools_is_refused(bridged: dict[str, Any]) -> None:
    """One that is on another machine, from where it cannot reach the bridge, and one that does not speak MCP."""
    assert bridged["elsewhere"] == (
        "INVALID_ARGUMENT: the harness 'null' would run in a sandbox from which the tools on this machine cannot be "
        "reached; use --env.agent.runtime.type subprocess or docker"
    )
    assert bridged["without MCP"].startswith("Harness 'mini_swe_agent' does not support MCP tools")


@dataclass(frozen=True)
class Desk:
    """A folder with a package that was begun there, a fleet of offices, and a model; commands run in it."""

    folder: Path
    bin_folder: Path
    variables: dict[str, str]
    model_url: str

    def run(self, command: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one of the environment's commands."""
        return subprocess.run(
            [str(self.bin_folder / command), *words],
            cwd=self.folder,
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    def evaluate(self, out: str, *words: str) -> list[dict[str, Any]]:
        """The traces of a run of `vf-eval` whose results are in the folder `out`, in the tasks' order."""
        client = ["-m", "stub", "--client.base-url", self.model_url, "--client.api-key-var", "MODEL_KEY"]
        done = self.run("vf-eval", *words, *client, "--no-push", "--no-rich", "-o", out)
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
        [path] = (self.folder / out).rglob("traces.jsonl")
        episodes = sorted(map(json.loads, path.read_text().splitlines()), key=lambda row: row["task"]["data"]["idx"])
        return [{**trace, "env": episode["env"]} for episode in episodes for trace in episode["traces"]]


@pytest.fixture(scope="module")
def desk(bin_folder: Path, miroir_site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A package as `miroir verifiers init` leaves it, installed; two offices in its URL file, and a stub model."""
    folder, packages = tmp_path_factory.mktemp("desk"), tmp_path_factory.mktemp("packages")
    with (
        Pool(ProcessEngine("office"), n=2, urls_file=folder / "urls.txt"),
        modelserver.serving(modelserver.tool_then_submit) as model,
    ):
        uv = venv("uv")
        own = variables(
            miroir_site,
            folder,
            PYTHONPATH=os.pathsep.join([str(miroir_site), str(packages)]),
            PATH=os.pathsep.join([str(uv / "bin"), os.environ["PATH"]]),
            UV_CACHE_DIR=str(uv / "cache"),
            MODEL_KEY=KEY,
        )
        desk = Desk(folder, bin_folder, own, model.base_url)
        begun = desk.run("python", "-m", "miroir", "verifiers", "init", "acme-crm")
        assert begun.returncode == 0, begun.stderr
        install = ["-m", "pip", "install", "--quiet", "--no-deps", "--target", str(packages), "./acme-crm"]
        installed = desk.run("python", *install)
        assert installed.returncode == 0, installed.stderr
        yield desk


def test_a_generated_package_is_listed(desk: Desk) -> None:
    """With what its preset fixes, by name and version."""
    listed = desk.run("python", "-m", "miroir", "verifiers", "list", "--json")
    [row] = json.loads(listed.stdout)

    assert (row["name"], row["distributions"], row["urls"]) == ("acme-crm", ["acme-crm 0.1.0"], "urls.txt")
    assert row["metrics"] == ["calls"]


def test_a_generated_package_passes_its_own_test(desk: Desk) -> None:
    """Without verifiers, which its preset does not need."""
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    packages = desk.variables["PYTHONPATH"].rpartition(os.pathsep)[2]
    done = subprocess.run(
        words, cwd=desk.folder / "acme-crm", env={**os.environ, "PYTHONPATH": packages}, capture_output=True, text=True,
        timeout=LIMIT_S, check=False,
    )  # fmt: skip

    assert done.stdout.splitlines()[-1].startswith("2 passed"), done.stdout


def test_a_generated_package_is_evaluated_by_its_name(desk: Desk) -> None:
    """On the fleet of its preset, which measures too; no key is in what was written."""
    traces = desk.evaluate("named", "acme-crm", "-n", "3")

    assert [(trace["ok"], trace["env"]["id"]) for trace in traces] == [(True, "acme-crm")] * 3
    assert [trace["rewards"]["miroir"]["score"] for trace in traces] == [0.0] * 3
    assert [(trace["metrics"]["calls"], trace["metrics"]["steps"]) for trace in traces] == [(1.0, 1.0)] * 3
    assert KEY not in "".join(file.read_text() for file in (desk.folder / "named").rglob("*") if file.is_file())


def test_a_generated_package_is_evaluated_by_its_preset(desk: Desk) -> None:
    """Under Miroir's own name; what is given besides wins over it."""
    words = ["--env.taskset.preset", "acme-crm", "--env.taskset.split", "eval", "-n", "1"]
    [trace] = desk.evaluate("preset", "miroir_verifiers", *words)

    assert (trace["ok"], trace["env"]["id"], trace["metrics"]["calls"]) == (True, "miroir_verifiers", 1.0)
    assert trace["task"]["data"]["row"]["split"] == "eval"


def test_a_generated_package_is_evaluated_by_verifiers_before_0_4(desk: Desk) -> None:
    """By its name, on the fleet of its preset, which measures too; with an option over it; no key is written."""
    older = replace(desk, bin_folder=venv("verifiers-v0") / "bin")
    client = ["-m", "stub", "-b", desk.model_url, "-k", "MODEL_KEY"]
    done = older.run("vf-eval", "acme-crm", *client, "-a", '{"split": "eval"}', "-n", "2", "-r", "2", "-s", "-d")
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]

    [results] = desk.folder.rglob("results.jsonl")
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    assert [(row["error"], row["miroir"], row["calls"]) for row in rows] == [(None, 0.0, 1.0)] * 4
    assert {row["info"]["row"]["split"] for row in rows} == {"eval"}
    assert KEY not in "".join(file.read_text() for file in results.parent.iterdir())


def test_the_configuration_for_prime_rl_is_one(desk: Desk) -> None:
    """Verifiers reads the environment of the README's TOML as it is meant."""
    [text] = re.findall(r"```toml\n(.*?orchestrator.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    [source] = tomllib.loads(text)["orchestrator"]["train"]["source"]
    code = (
        "import json, sys, verifiers.v1 as vf\n"
        "config = vf.resolve_env_config(json.loads(sys.argv[1]))\n"
        "print(type(config).__name__, config.taskset.split, config.taskset.task.urls, config.agent.runtime.type)"
    )
    done = desk.run("python", "-c", code, json.dumps(source["env"]))

    assert done.stdout.split() == ["MiroirEnvConfig", "train", "['dns://office:8000']", "subprocess"], done.stderr


def test_another_harness_plays_over_the_bridge(desk: Desk) -> None:
    """With the tools' own names; it ends with the episode, and its key is in nothing that was written."""
    [trace] = desk.evaluate("null", "acme-crm", "-n", "1", "--env.agent.harness.id", "null")

    assert (trace["ok"], trace["stop_condition"], trace["metrics"]["steps"]) == (True, "episode_over", 1.0)
    assert trace["info"]["miroir"]["ended_by"] == "submit"
    assert "submit" in [tool["name"] for tool in trace["tools"]]
    told = next(node["message"]["content"] for node in trace["nodes"] if node["message"]["role"] == "user")
    assert told.startswith(trace["task"]["data"]["prompt"])
    assert "\n\nToday is " in told  # in the episode's world, which its first observation tells
    assert trace["task"]["type"] == "MiroirTask"
    written = "".join(file.read_text() for file in (desk.folder / "null").rglob("*") if file.is_file())
    assert "/mcp?key=…" in written
    assert written.count("/mcp?key=") == written.count("/mcp?key=…")
    assert KEY not in written


def test_a_call_that_a_harness_leaves_behind_makes_the_episode_void(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not waited for, and nothing is graded as 0."""

    def sleeps(body: dict[str, Any]) -> modelserver.Reply:
        completion = modelserver.answer(calls=[("sleep", {"seconds": 2 * LIMIT_S})])
        chunks = modelserver.events(modelserver.chunks(completion))
        return modelserver.stream_reply(chunks) if body.get("stream") else modelserver.Reply(completion)

    monkeypatch.chdir(HERE.parent)  # where the environment's module is found
    engine = ProcessEngine("troubled:Troubled")
    with modelserver.serving(sleeps) as model, Pool(engine, n=1, urls_file=tmp_path / "urls.txt") as pool:
        words = ["--env.taskset.task.urls", *pool.urls, "--env.agent.timeout.rollout", str(HARNESS_S), "-n", "1"]
        left = replace(desk, model_url=model.base_url)
        [trace] = left.evaluate("left", "miroir_verifiers", *words, "--env.agent.harness.id", "null")

        assert model.asked  # so that the call was under way
    assert not trace["ok"]
    assert [error["type"] for error in trace["errors"]] == ["SandboxError"]
    assert trace["errors"][0]["message"].startswith("VOID: ")
    assert trace["rewards"] == {}
