"""GRPOTrainer, as it is, on served containers: what it sees, what it is given for a reward, and what it leaves."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcptools import CALLS, TOOLS
from peers.servers import serving
from peers.sites import site
from ports import free_ports
from trainers.environment import interpreter, offline
from trlplay import free
from troubled import Troubled, served

from miroir import tools
from miroir.agents import load_agent
from miroir.derive import Options, derive
from miroir.envs.office import Office
from miroir.records import load
from miroir.run import run
from miroir.serve import running

pytestmark = pytest.mark.trainers

HERE = Path(__file__).parent
LIMIT_S = 240.0
TASK = "correct-figure-1"
GROUP = 4
# How arguments are shown whose names no signature can hold.
SHOWN = {"from": "from_", "user-id": "user_id", "class": "class_", "self": "self_", "Returns": "Returns_"}
Train = Callable[..., tuple[list[dict[str, Any]], list[dict[str, Any]]]]


class Various(Troubled):
    """It has the tools of many servers, and answers with what it was called with."""

    def tools(self, surface):
        return TOOLS

    def call(self, tool, arguments):
        self.said += 1
        return {"tool": tool, "arguments": arguments}


@pytest.fixture(scope="module")
def offices() -> Iterator[dict[str, int]]:
    """Four office containers: the process of each by its URL."""
    with contextlib.ExitStack() as stack:
        found = {}
        for _ in range(GROUP):
            port = free_ports()
            url = f"http://127.0.0.1:{port}"
            command = [sys.executable, "-m", "miroir", "serve", "office", "--port", str(port)]
            found[url] = stack.enter_context(serving(command, f"{url}/health")).pid
        yield found


@pytest.fixture(scope="module")
def solution(tmp_path_factory: pytest.TempPathFactory) -> list[list[Any]]:
    """The calls that solve the task, `submit` left out."""
    folder = tmp_path_factory.mktemp("solution")
    with running(Office) as url:
        run([url], folder, load_agent("miroir.envs.office.agents:reference"), task_ids=[TASK])
    [record] = load([folder])
    assert record["reward"] == 1.0
    return [[step["tool"], step["arguments"]] for step in record["steps"] if step["tool"] != "submit"]


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs Python in the trainers' environment, where this very miroir can be imported."""
    paths = [site(tmp_path), HERE / "grpo", HERE / "consumers"]

    def run_script(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [interpreter(), *map(str, arguments)],
            env=offline(tmp_path / "hf", PYTHONPATH=":".join(map(str, paths)), OMP_NUM_THREADS="1"),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    return run_script


@pytest.fixture
def train(script: Any, tmp_path: Path) -> Train:
    """Trains by the script: what each process told, and the records of all."""

    def trained(job: dict[str, Any], *, ranks: int = 1, code: int = 0) -> Any:
        (tmp_path / "job.json").write_text(json.dumps({**job, "records": str(tmp_path / "records")}))
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 1 else []
        done = script(*launcher, HERE / "grpo" / "train.py", tmp_path / "job.json", tmp_path / "told")
        assert done.returncode == code, done.stderr[-4000:]
        told = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("told.*"))]
        return told or done.stderr, list(load([tmp_path / "records"])) if (tmp_path / "records").exists() else []

    return trained


def rendered(folder: Path) -> list[str]:
    """The tools of each row that `miroir derive` makes of the training's records, in the order of their keys."""
    rows = folder / "rows.jsonl"
    derive([folder / "records"], "sft", rows, Options(outcome="any"))
    tools = [json.loads(json.loads(line)["tools"]) for line in rows.read_text().splitlines()]
    return [json.dumps([tool["function"] for tool in listed]) for listed in tools]


def test_the_office_is_trained_on(
    train: Train, offices: dict[str, int], solution: list[list[Any]], tmp_path: Path
) -> None:
    """Two steps change parameters; rewards are the environment's; a container that is killed costs one rollout.

    Its reward is None, and the others' advantages are those of a group without it.
    """
    plays = [solution, [], solution, solution]
    said = [tool["name"] for tool in tools(next(iter(offices)))]

    [told], records = train({"urls": list(offices), "task": TASK, "plays": plays, "kill": [3, 2, offices]})

    assert told["demand"] == {"wanted": GROUP, "group": GROUP, "containers": GROUP}
    assert [tool["name"] for tool in told["tools"]] == said
    assert told["changed"]
    assert str(told["rewards"]) == "[1.0, 0.0, 1.0, nan]"
    high, low = pytest.approx(0.577, abs=1e-3), pytest.approx(-1.155, abs=1e-3)
    assert told["advantages"] == [high, low, high, 0.0]
    assert [(entry["void"], entry["success"]) for entry in told["log"]] == [(0.0, 0.75), (0.25, pytest.approx(2 / 3))]
    assert [record["reward"] for record in records].count(None) == 1
    assert sorted(record["training"]["step"] for record in records) == [0] * GROUP + [1] * GROUP
    for record in records:
        assert record["messages"][0]["content"] == record["prompt"] in told["prompt"]
        assert record["messages"][1]["content"].startswith("I am ")
    alive = [url for url in offices if url not in {r["container"] for r in records if r["reward"] is None}]
    assert len(alive) == GROUP - 1
    assert free(alive)
    assert set(rendered(tmp_path)) == {json.dumps(told["tools"])}


def test_a_training_that_fails_leaves_every_container_free(train: Train, solution: list[list[Any]]) -> None:
    """An exception in mid-episode ends the training, and the Spec gives back what it held."""
    with running(Office, max_sessions=2) as url:
        said, records = train({"urls": [url], "task": TASK, "plays": [solution] * 2, "raise_at": 2}, code=1)

        assert "LookupError: no such drawer" in str(said)
        assert records == []
        assert free([url])


def test_two_processes_train(train: Train, solution: list[list[Any]]) -> None:
    """Under torchrun the group is spread over both; no lease is lost and every episode has its record."""
    with running(Office, max_sessions=2) as one, running(Office, max_sessions=2) as other:
        told, records = train({"urls": [one, other], "task": TASK, "plays": [solution, [], [], solution]}, ranks=2)

        assert free([one, other])
    assert [rank["demand"]["wanted"] for rank in told] == [GROUP, GROUP]
    assert all(rank["changed"] for rank in told)
    assert told[0]["rewards"] == told[1]["rewards"] == [1.0, 0.0, 0.0, 1.0]
    assert sorted(record["trial"] for record in records) == list(range(2 * GROUP))
    assert sorted(record["training"]["rank"] for record in records) == [0] * GROUP + [1] * GROUP
    assert [record["reward"] for record in records].count(1.0) == GROUP


def test_tools_of_many_servers_are_offered_and_called(train: Train, tmp_path: Path) -> None:
    """Each of twenty real tools is shown by its name, with all arguments, and gets them as the model wrote them.

    Rows made of the records show each as the prompt did, and no call of theirs breaks what they show.
    """
    plays = [[one["name"], {SHOWN.get(key, key): value for key, value in given.items()}] for one, given in CALLS]
    with running(Various, max_sessions=2) as url:
        [told], records = train({"urls": [url], "task": "plain", "plays": [plays, []]})

    shown = {tool["name"]: tool["parameters"] for tool in told["tools"]}
    assert list(shown) == [*(tool["name"] for tool in TOOLS), "submit"]
    for tool in TOOLS:
        schema = tool["inputSchema"]
        wanted = {**schema.get("properties", {}), **dict.fromkeys(schema.get("required", ()))}
        parameters = shown[tool["name"]]
        assert sorted(parameters["properties"]) == sorted(SHOWN.get(key, key) for key in wanted)
        assert parameters.get("required", []) == [SHOWN.get(key, key) for key in schema.get("required", ())]
    record = next(record for record in records if len(record["steps"]) > 1)
    assert [[step["tool"], step["arguments"]] for step in record["steps"]] == [
        *([one["name"], given] for one, given in CALLS),
        ["submit", {}],
    ]
    assert not any(step["error"] for step in record["steps"])
    assert rendered(tmp_path) == [json.dumps(told["tools"])] * 2  # those of both steps are the same


def test_the_asynchronous_trainers_child_scores_a_group(script: Any, tmp_path: Path) -> None:
    """What is pickled for it plays in the spawned process: a void rollout has no reward and no advantage.

    The records show the tools as the prompt there did.
    """
    with served(Troubled, Troubled, Troubled) as urls:
        done = script(HERE / "grpo" / "asynchronous.py", *urls, tmp_path / "records", tmp_path / "told")

        assert free(urls)
    assert done.returncode == 0, done.stderr[-4000:]
    told = [["0.0", pytest.approx(-1)], ["1.0", pytest.approx(1)], ["nan", 0.0]]
    samples, prompt, code = json.loads((tmp_path / "told").read_text())
    assert (samples, code) == (told, 0)
    shown = [[tool["function"] for tool in record["tools"]] for record in load([tmp_path / "records"])]
    assert len(shown) >= len(told)
    assert all(tools == prompt for tools in shown)
