"""The office as an environment: resets, splits, and the world behind it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from officeplay import playing

from miroir.envs.office import Office
from miroir.envs.office.draw import Draw
from miroir.envs.office.scene import scenes
from miroir.serve.environment import UnknownTask


def test_each_reset_builds_the_same_world() -> None:
    """Two resets to a task give equal worlds, whatever the seed; what one episode did is gone in the next."""
    task = scenes()["correct-figure-1"].task
    office = Office()
    worlds = []
    for seed in (None, 7):
        office.reset(task, episode_id="e", seed=seed, max_seconds=None, coworkers=False, surface="api")
        worlds.append(office._playing().world.snapshot())
        office.call("files_delete", {"path": "/Company/Handbook.md"})
    office.close()
    assert worlds[0] == worlds[1] == scenes()["correct-figure-1"].start


def test_the_first_observation_says_who_where_and_when() -> None:
    """A reset answers the instruction, the person's address and the time in the office."""
    scene = scenes()["correct-figure-1"]
    office = Office()
    seen = office.reset(scene.task, episode_id="e", seed=None, max_seconds=None, coworkers=False, surface="api")
    office.close()
    assert seen == {
        "instruction": scene.task["instruction"],
        "persona": scene.me,
        "now": f"{scene.now:%Y-%m-%d}T09:00:00Z",
    }


def test_an_unknown_task_is_refused() -> None:
    """A reset to a task that is not there says where the ids are."""
    with pytest.raises(UnknownTask, match="there is no task 'x'; the task list has the ids"):
        Office().reset(
            {"id": "x", "task_hash": "", "instruction": ""},
            episode_id="e",
            seed=None,
            max_seconds=None,
            coworkers=False,
            surface="api",
        )


def test_no_episode_no_call() -> None:
    """Before a reset there is nothing to call."""
    with pytest.raises(RuntimeError, match="there is no episode; reset first"):
        Office().call("mail_list", {})


def test_ids_are_never_given_twice() -> None:
    """A new file does not get the id of a deleted one, so that a deletion stays visible."""
    with playing("correct-figure-1") as office:
        world = office._playing().world
        given = {row["id"] for row in world.all("files")}
        for number in range(300):
            path = f"/x/{number}.md"
            office.call("files_create", {"path": path, "content": ""})
            (row,) = world.all("files", path=path)
            assert row["id"] not in given
            given.add(row["id"])
            office.call("files_delete", {"path": path})


def test_draws_are_what_they_were() -> None:
    """The stream of a seed is fixed: a Python version that changed it would change every world."""
    draw = Draw("office", 1)
    assert [draw.between(1, 100) for _ in range(5)] == [64, 8, 93, 72, 26]
    assert Draw(1).shuffled("abcdef") == list("baefcd")
    assert len(set(Draw(2).sample("abcdef", 3))) == 3


def test_the_package_needs_no_server() -> None:
    """Importing the office loads neither starlette nor uvicorn."""
    program = "import sys, miroir.envs.office; print(sorted({'starlette', 'uvicorn'} & set(sys.modules)))"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed == "[]\n"
