"""Packages of tasks under verifiers 0.4, and the bridge over which its harnesses play."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from peers.venvs import venv
from troubled import Troubled, served

pytestmark = pytest.mark.peers

REQUIREMENTS = ("verifiers==0.4.0",)
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FLEET_S = 240.0


@pytest.fixture(scope="module")
def bin_folder() -> Path:
    """The commands of an environment that has verifiers."""
    return venv("verifiers", REQUIREMENTS) / "bin"


def install(bin_folder: Path, site: Path, *packages: str | Path) -> None:
    """Have pip install the packages, and nothing else, into a folder that PYTHONPATH can name."""
    words = [str(bin_folder / "python"), "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site)]
    subprocess.run([*words, *map(str, packages)], check=True, capture_output=True, timeout=FLEET_S)


@pytest.fixture(scope="module")
def site(bin_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with Miroir, built as a wheel, and what verifiers does not bring of its requirements."""
    folder = tmp_path_factory.mktemp("site")
    install(bin_folder, folder, ROOT, "websockets>=15")
    return folder


def environment(site: Path, **more: str) -> dict[str, str]:
    """The variables of a process that imports from the folder."""
    return {**os.environ, "PYTHONPATH": str(site), "HOME": str(site.parent), **more}


@pytest.fixture(scope="module")
def bridged(bin_folder: Path, site: Path) -> dict[str, Any]:
    """What came of episodes that MCP's own client played over the bridge."""
    with served(Troubled) as (url,):
        done = subprocess.run(
            [str(bin_folder / "python"), str(HERE / "bridge_client.py"), url],
            env=environment(site),
            capture_output=True,
            text=True,
            timeout=FLEET_S,
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
    """As a bearer or in the URL, while the rollout lasts; it is in no log and no repr."""
    closed = {"none": 401, "wrong": 401, "wrong in URL": 401}
    assert bridged["refused"] == {**closed, "bearer": 200, "in URL": 200}
    assert bridged["over"] == {**closed, "bearer": 401, "in URL": 401}
    assert bridged["shown"] == [False, False]
    assert bridged["threads"] == []
