"""Environments as trainers look at them: their tools, their factories, and both in another process."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcptools import TOOLS
from trlplay import environment, free
from troubled import Closed, Troubled, served

from miroir import tools
from miroir.envs.office import Office
from miroir.errors import MiroirError
from miroir.serve import running
from miroir.trl import Spec

SECRET = "t0ps3cret"


class Various(Troubled):
    """It has the tools of many servers, and answers what it was called with."""

    def tools(self, surface):
        return TOOLS

    def call(self, tool, arguments):
        return {"tool": tool, "arguments": arguments}


@pytest.fixture(scope="module")
def urls() -> Iterator[list[str]]:
    """A troubled container."""
    with served(Troubled) as one:
        yield one


def visible(env: Any) -> list[str]:
    """The tools that a trainer finds, in the order in which it shows them."""
    members = inspect.getmembers(type(env), inspect.isfunction)
    hidden = ("reset", "get_reward")
    return [tool.__name__ for name, tool in members if not name.startswith("_") and name not in hidden]


def test_the_visible_tools_are_the_environments(urls: list[str]) -> None:
    """Exactly the tools that the environment lists, in its order, `submit` included, and nothing of ours."""
    with Spec(urls, tasks=["plain", "narrow"]) as spec:
        assert visible(environment(spec)) == [tool["name"] for tool in tools(urls[0])]


def test_the_office_is_shown_whole() -> None:
    """All tools of the office, with its names and descriptions."""
    with running(Office) as url, Spec([url]) as spec:
        env = environment(spec)
        listed = tools(url)

        assert visible(env) == [tool["name"] for tool in listed]
        assert all(inspect.getdoc(getattr(env, tool["name"])).startswith(f"{tool['description']}\n") for tool in listed)


def test_tools_of_any_name_are_called(urls: list[str]) -> None:
    """Hyphens, dots and the names of a trainer's own methods reach the environment under their own names."""
    with running(Various) as url, Spec([url], tasks=["plain"]) as spec:
        env = environment(spec, "plain")
        methods = {tool.__name__: tool for tool in (getattr(env, name) for name in dir(env) if name[:5] == "tool_")}

        assert '"tool":"API-post-search"' in methods["API-post-search"](query="x")
        assert '"arguments":{"from":"a","user-id":"b"}' in methods["send-message"](from_="a", user_id="b")
        assert '"tool":"reset"' in methods["reset"](hard=True)
        assert '"tool":"browser.click"' in getattr(env, "browser.click")(ref=1, élément="x")
        assert env._rollout.grade()["reward"] == 0.0


def test_a_tool_that_is_not_there(urls: list[str]) -> None:
    """By hand too only tools are found; a trainer that looks for get_reward finds none."""
    with Spec(urls, tasks=["plain", "narrow"]) as spec:
        env = environment(spec)
        for name in ("fly", "_private", "get_reward"):
            with pytest.raises(AttributeError, match=f"the environment has no tool '{name}'"):
                getattr(env, name)


def test_one_class_for_one_set_of_tools(urls: list[str]) -> None:
    """A trainer tells environments apart by their class: equal tools have the same, others another."""
    with Spec(urls, tasks=["plain", "narrow"]) as spec:
        first, again = environment(spec), environment(spec)
        other, own = environment(spec, name="tools-2"), environment(spec, graded=True)

    assert type(first) is type(again)
    assert len({type(first), type(other), type(own)}) == 3
    assert visible(other) == ["say", "submit"]
    assert type(own).__name__ == "Miroir-tools-1"


def test_what_is_shown_of_them_is_short_and_holds_no_secret() -> None:
    """Trainers print environments and factories; neither shows the token, nor pages of tools."""
    with served(Troubled, token=SECRET) as urls, Spec(urls, SECRET, tasks=["plain"], eval_split=None) as spec:
        env = environment(spec, "plain")
        shown = [repr(env), repr(spec.environment_factory), repr(spec.reward)]
        env.say()
        assert env._rollout.grade()["reward"] == 1.0

    assert shown[0] == "<Miroir plain, running>"
    assert SECRET not in "".join(shown)
    assert len(max(shown, key=len)) < 100


def test_an_environment_that_grades_itself(urls: list[str]) -> None:
    """For AsyncGRPOTrainer: the reward, None for a void episode and where there was none."""
    with Spec(urls, tasks=["plain"]) as spec:
        env = environment(spec, graded=True)
        found = [env.get_reward()]
        for tool in ("say", "boom"):
            env.reset(task_id="plain")
            getattr(env, tool)()
            found.append(env.get_reward())

        assert found == [None, 1.0, None]
        assert free(urls)


def test_factories_and_reward_work_in_a_spawned_process() -> None:
    """They pickle, lease for themselves there, and free what is left at its end."""
    script = Path(__file__).with_name("trlspawn.py")
    with served(Troubled, Troubled, Troubled) as urls:
        done = subprocess.run([sys.executable, script, *urls], capture_output=True, text=True, timeout=90, check=False)

        assert free(urls)
    assert (done.stdout, done.stderr) == ("[[1.0, 1.0], 0]\n", "")


def test_making_environments_leases_nothing(urls: list[str]) -> None:
    """Factories, and the environments that a trainer makes to look at them, hold no container."""
    with Spec(urls, tasks=["plain", "narrow"]) as spec:
        made = [environment(spec), environment(spec, name="tools-2"), environment(spec, graded=True)]

        assert len(made) == 3
        assert free(urls)


def test_a_trainer_without_batches_ends_too_when_all_is_void(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many void episodes in a row end AsyncGRPOTrainer's child with the reason."""
    monkeypatch.setattr("miroir.trl.environment.BATCH", 2)
    with served(Closed) as urls, Spec(urls, tasks=["plain"], void_batches=2) as spec:
        env = environment(spec, graded=True)
        found = []
        with pytest.raises(MiroirError, match=r"the last 4 episodes .* were all void.* disk is full"):
            for _ in range(4):
                env.reset(task_id="plain")
                found.append(env.get_reward())

    assert found == [None] * 3
