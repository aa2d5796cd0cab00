"""The reference and the clumsy agent, on a session made of an office."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from officeplay import playing

from miroir.agents import load_agent
from miroir.envs.office import Office, clumsy, reference
from miroir.envs.office.scene import scenes
from miroir.errors import InvalidArgument
from miroir.serve.environment import Grade, ToolError

TOOLS = Office().tools("api")


class Session:
    """An office as a session shows it."""

    def __init__(self, office: Office, max_steps: int) -> None:
        self.office = office
        self.left = max_steps
        self.tools: list[str] = []

    def step(self, tool: str, arguments: dict[str, Any]) -> Mapping[str, Any]:
        """The reply of the protocol."""
        self.left -= 1
        self.tools.append(tool)
        error, result = None, None
        try:
            result = {"content": [], "structured_content": self.office.call(tool, arguments), "is_error": False}
        except ToolError as refused:
            error = {"error_type": refused.error_type, "message": refused.message}
        return {
            "observation": {"tool_name": tool, "result": result, "error": error},
            "reward": None,
            "done": self.left == 0,
        }


def played(agent: Any, task_id: str, *, seed: int = 0, max_steps: int = 99, **options: Any) -> tuple[Grade, list[str]]:
    """The grade of the agent's episode, and the tools that it called."""
    with playing(task_id) as office:
        session = Session(office, max_steps)
        agent(session, scenes()[task_id].task, TOOLS, observation={}, trial=0, seed=seed, **options)
        return office.grade(), session.tools


def test_the_reference_agent_solves_a_task_through_a_session() -> None:
    """The agent reads a session's replies; each level is solved."""
    for task_id in ("correct-figure-1", "reassign-by-rules-2", "chase-approval-4"):
        assert played(reference, task_id)[0].success


def test_an_agent_stops_when_the_episode_is_over() -> None:
    """No call follows the reply that says done."""
    assert len(played(reference, "chase-approval-1", max_steps=4)[1]) == 4


def test_clumsy_without_mistakes_is_the_reference() -> None:
    """At rate 0 nothing goes wrong."""
    assert played(clumsy, "triage-by-rules-1", rate=0)[1] == played(reference, "triage-by-rules-1")[1]


def test_clumsy_varies_with_its_seed_alone() -> None:
    """The same seed makes the same mistakes; over seeds some episodes succeed, some fail and some harm."""
    grades = [played(clumsy, "reassign-by-rules-1", seed=seed, rate=0.3)[0] for seed in range(30)]
    again = [played(clumsy, "reassign-by-rules-1", seed=seed, rate=0.3)[0] for seed in range(30)]
    assert grades == again
    assert {grade.success for grade in grades} == {True, False}
    assert any(grade.harms for grade in grades)
    assert len({grade.reward for grade in grades}) >= 3


def test_clumsy_survives_its_mistakes_on_every_task() -> None:
    """At rate 1 every task still ends without an exception, and hardly any is solved."""
    grades = [played(clumsy, task_id, rate=1.0)[0] for task_id in scenes()]
    assert sum(grade.success for grade in grades) < 0.1 * len(grades)


def test_clumsy_says_its_rate() -> None:
    """The rate is among the agent's parameters."""
    with playing("correct-figure-1") as office:
        told = clumsy(Session(office, 99), scenes()["correct-figure-1"].task, TOOLS, seed=1, rate=0.5)
    assert told == {"params": {"rate": 0.5}}


@pytest.mark.parametrize("spec", ["reference?rate=0.1", "clumsy?rat=0.1"])
def test_a_misspelt_option_is_refused(spec: str) -> None:
    """An option that the agent does not have is an error before anything is played."""
    with pytest.raises(InvalidArgument, match="got an unexpected keyword argument 'rat"):
        load_agent(f"miroir.envs.office:{spec}")


@pytest.mark.parametrize("surface", ["mcp", "code"])
def test_another_surface_is_refused(surface: str) -> None:
    """On a surface other than api both agents say where they can play."""
    for agent in (reference, clumsy):
        with pytest.raises(InvalidArgument, match="play surface api; run them on that surface"):
            agent(None, scenes()["correct-figure-1"].task, Office().tools(surface), seed=0)


def test_a_task_of_another_version_is_refused() -> None:
    """A task whose hash is not the one here cannot be played by its solution."""
    stranger = scenes()["correct-figure-1"].task | {"task_hash": "0"}
    with pytest.raises(InvalidArgument, match="is not this office's; install the server's miroir here"):
        reference(None, stranger, TOOLS)


@pytest.mark.parametrize("rate", [2, -0.1, "often"])
def test_a_rate_that_is_no_chance_is_refused(rate: Any) -> None:
    """A rate lies from 0 to 1."""
    with pytest.raises(InvalidArgument, match="it must be a number from 0 to 1"):
        clumsy(None, scenes()["correct-figure-1"].task, TOOLS, seed=0, rate=rate)
