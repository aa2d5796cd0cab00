"""Fleets under the verifiers before 0.4: evaluated, and cut short; nothing leased is left behind."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from peers import scenes
from peers.scenes import Peer, Played
from peers.sites import site, variables
from peers.stage import TRICKY, staged
from peers.venvs import venv

from miroir.records import load

pytestmark = pytest.mark.peers

HERE = Path(__file__).parent
COMMAND_S = 150.0
KEY = "sk-S3CRET-OF-THE-MODEL"


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Peer:
    """Verifiers 0.3.1 with Miroir."""
    folder = tmp_path_factory.mktemp("v0")
    return Peer(venv("verifiers-v0") / "bin", variables(site(folder / "site"), folder / "home", STUB_KEY=KEY))


@pytest.fixture(scope="module")
def played(peer: Peer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """All scenes, in one process."""
    script, folder = HERE / "verifiers_v0.py", tmp_path_factory.mktemp("scenes")
    with scenes.played(peer, script, folder, sessions=16, timeout_s=COMMAND_S) as scene:
        yield scene


def test_an_evaluation_by_the_command_line(peer: Peer, tmp_path: Path) -> None:
    """Twenty rollouts on four containers: the void ones are errors in their rows, and the others have their reward."""
    with staged(4, 2) as (urls, model):
        options = json.dumps({"urls": urls[:4], "traces": str(tmp_path / "records")})
        words = ["vf-eval", "miroir_verifiers", "-m", "say", "-b", model.base_url, "-k", "STUB_KEY", "-a", options]
        done = peer.finished([*words, "-n", "5", "-r", "4", "-s", "-d", "--max-retries", "1"], tmp_path, COMMAND_S)
    assert done.returncode == 0, done.stderr[-4000:]

    (results,) = (tmp_path / "outputs").rglob("results.jsonl")
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    void = [row for row in rows if row["info"]["miroir"]["task_id"] == "bad-grade"]
    assert (len(rows), len(void)) == (20, 4)
    for row in rows:
        if row in void:
            assert row["error"]["error"] == "InfraError"
            assert row["error"]["error_chain_repr"].startswith("InfraError('VOID: grading failed: RuntimeError: ")
        else:
            assert (row["error"], row["reward"], row["miroir"], row["success"]) == (None, 1.0, 1.0, 1.0)
    rewards = Counter(record["reward"] for record in load([tmp_path / "records"]))
    assert rewards == {1.0: 16, None: 8}  # of each try
    shown = [done.stdout, done.stderr, *(path.read_text() for path in tmp_path.rglob("*.json*"))]
    assert not [text for text in shown if KEY in text]


def test_a_model_plays_by_tool_calls(played: Played) -> None:
    """It is shown the tools as they are; a second message without a call ends the episode; limits end it too."""
    said, talked = played.report["say"], played.report["talk"]
    assert (said["reward"], said["stop"], said["error"]) == (1.0, "has_final_env_response", None)
    assert said["completion"] == ["assistant", "tool"] * 2
    assert said["metrics"].items() >= {"miroir": 1.0, "success": 1.0, "harm": 0.0}.items()
    assert (talked["reward"], talked["error"]) == (0.0, None)
    assert talked["completion"] == ["assistant", "user", "assistant"]
    assert played.report["turns"]["stop"] == "max_turns_reached"
    tricky = played.asked[0]["tools"][0]["function"]
    assert json.dumps(tricky["parameters"]) == json.dumps(TRICKY)
    records = list(load([played.folder / "records"]))
    assert [message["role"] for message in records[0]["messages"]] == ["user", "assistant", "tool", "assistant", "tool"]
    assert records[0]["usage"] == {"prompt_tokens": 20, "completion_tokens": 10}
    assert records[0]["agent"] == {"name": "verifiers", "model": "say", "params": {"temperature": 0.5}}


def test_failures_are_errors(played: Played) -> None:
    """Of the infrastructure, text VOID, where there is no grade; of verifiers' own kind where the model is down."""
    void, late, down = (played.report[name] for name in ("void", "late in a step", "down"))
    assert void["error"][0] == late["error"][0] == "InfraError"
    assert void["error"][1].startswith("InfraError('VOID: grading failed: ")
    assert late["error"][1].startswith(
        "InfraError('VOID: STEP_TIMEOUT: the rollout was stopped while one of its calls "
    )
    assert down["error"][0] == "ModelError"
    assert down["info"]["void_reason"].startswith("MODEL: ModelError: Error code: 500")
    assert [record["reward"] for record in load([played.folder / "void"])] == [None]


def test_a_timeout_between_calls_is_graded(played: Played) -> None:
    """As it stands."""
    late = played.report["late"]
    assert (late["stop"], late["error"], late["info"]["ended_by"]) == ("timeout_reached", None, "submit")


@pytest.mark.parametrize("scene", ["in a step", "leasing"])
def test_a_cancelled_rollout_frees_its_lease(played: Played, scene: str) -> None:
    """Within a second, in a tool that takes a minute and while it waits for a container; cancelled twice."""
    told = played.report[scene]
    assert told["kinds"] == ["CancelledError"]
    assert told["ended_s"] < 1.0
    assert told["freed_s"] < 2.0
    assert played.report["held"] == {"count": 0}


def test_settings_that_cannot_work_are_told(played: Played) -> None:
    """One error each, which says what to do; options of verifiers 0.4 among them."""
    begin = "Failed to load environment 'miroir_verifiers': INVALID_ARGUMENT: "
    said = {name: text.removeprefix(begin) for name, text in played.report["faults"].items()}
    assert said["taskset"].startswith(
        "load_environment has no option 'taskset' with the verifiers that is installed; it has calibration, "
    )
    assert said["empty"].startswith("the split 'empty' has no task to play (0 are listed); name another split ")
    assert said["preset"].startswith("there is no preset 'nope', nor any other; ")
    assert said["v1"] == (
        "MISSING_EXTRA: the v1 of the verifiers that is installed is older than 0.4's; "
        "install it by `pip install 'verifiers>=0.4'`, or use load_environment"
    )
