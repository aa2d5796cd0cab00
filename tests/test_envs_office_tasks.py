"""Every task of the office: solvable, not solved by doing nothing, and a wrong target is caught."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest
from officeplay import playing, solved

from miroir.envs.office import Office
from miroir.envs.office.scene import scenes
from miroir.envs.office.tasks import TEMPLATES

HASHES = Path(__file__).parent / "data" / "office_hashes.json"
SCRIPT = Path(__file__).parent / "office_hashes.py"
TASKS = list(scenes())


@pytest.mark.parametrize("task_id", TASKS)
def test_the_reference_solves_the_task_without_harm(task_id: str) -> None:
    """The reference solution passes every check, harms nothing and takes 3 to 20 calls, no more than it says."""
    scene = scenes()[task_id]
    grade, called = solved(scene)
    assert [check for check in grade.checks if not check.passed] == []
    assert (grade.reward, grade.success, list(grade.harms)) == (1.0, True, [])
    assert 3 <= len(called) <= min(20, scene.template.calls)


@pytest.mark.parametrize("task_id", TASKS)
def test_doing_nothing_solves_nothing(task_id: str) -> None:
    """Without a call the reward is under a half, the task is not solved, and nothing is harmed."""
    with playing(task_id) as office:
        grade = office.grade()
    assert len(grade.checks) >= 2
    assert grade.reward is not None
    assert grade.reward < 0.5
    assert not grade.success
    assert list(grade.harms) == []


@pytest.mark.parametrize("task_id", TASKS)
def test_a_wrong_target_is_a_harm(task_id: str) -> None:
    """The reference solution with one wrong person, ticket, file or event fails, and the harm is named."""
    grade, _ = solved(scenes()[task_id], misdirected=True)
    assert not grade.success
    assert [harm for harm in grade.harms if harm.name and harm.detail]


def test_no_two_templates_share_a_sequence_of_tools() -> None:
    """What has to be done differs from template to template, not names alone."""
    sequences: dict[str, set[tuple[str, ...]]] = {template.name: set() for template in TEMPLATES}
    for scene in scenes().values():
        sequences[scene.template.name].add(tuple(solved(scene)[1]))
    shared = [pair for pair in combinations(sequences, 2) if sequences[pair[0]] & sequences[pair[1]]]
    assert shared == []


def test_calls_is_the_longest_reference_run() -> None:
    """A template's `calls`, of which the steps allowed are made, is its longest solution."""
    longest = dict.fromkeys((template.name for template in TEMPLATES), 0)
    for scene in scenes().values():
        longest[scene.template.name] = max(longest[scene.template.name], len(solved(scene)[1]))
    assert longest == {template.name: template.calls for template in TEMPLATES}


def test_each_template_has_three_train_seeds_and_an_eval_seed() -> None:
    """Train and eval hold the same templates; ids are unique; levels go from 1 to 3."""
    train, held_out = Office().tasks("train"), Office().tasks("eval")
    assert (len(train), len(held_out)) == (3 * len(TEMPLATES), len(TEMPLATES))
    assert len({task["id"] for task in [*train, *held_out]}) == 4 * len(TEMPLATES)
    assert {template.level for template in TEMPLATES} == {1, 2, 3}


def test_a_task_row_says_all_that_the_protocol_lists() -> None:
    """A row has instruction, persona, coworkers, steps, split and tags."""
    task = scenes()["chase-approval-1"].task
    assert task["split"] == "train"
    assert task["tags"] == ["level-3", "chase-approval"]
    assert task["coworkers_scripted"] is True
    assert len(task["coworkers"]) == 1
    assert task["max_steps"] == 39
    assert task["persona"]["name"] in {row["name"] for row in scenes()["chase-approval-1"].start["people"].values()}
    assert "In the office it is" in task["instruction"]


def test_the_hashes_are_the_stored_ones() -> None:
    """A change of any world, text or check shows here; store the new hashes with tests/office_hashes.py."""
    stored = json.loads(HASHES.read_text())
    assert {task_id: scene.task["task_hash"] for task_id, scene in scenes().items()} == stored


@pytest.mark.parametrize("hash_seed", ["0", "4242"])
def test_the_hashes_are_equal_in_every_process(hash_seed: str) -> None:
    """Another process or PYTHONHASHSEED lists the same hashes; so does another Python, where these tests run too."""
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    listing = [sys.executable, str(SCRIPT)]
    listed = subprocess.run(listing, env=environment, capture_output=True, check=True, timeout=60).stdout
    assert json.loads(listed) == json.loads(HASHES.read_text())
