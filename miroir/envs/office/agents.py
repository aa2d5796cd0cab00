"""Agents that need no model: the reference solutions, and the same with seeded mistakes. They play surface `api`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from ...errors import InvalidArgument
from ...serve.environment import ToolError
from .draw import Draw
from .scene import scenes
from .tasks.template import Act, Situation, Template
from .tools import by_tool

Answer = dict[str, Any]


class Session(Protocol):
    """What these agents need of a session."""

    def step(self, tool: str, arguments: dict[str, Any]) -> Mapping[str, Any]:
        """Call a tool: `{"observation", "reward", "done"}`."""


class _Over(Exception):
    """The episode ended while its solution was still at work."""


def reference(
    session: Session,
    task: Mapping[str, Any],
    tools: Sequence[Mapping[str, Any]],
    *,
    observation: Mapping[str, Any] | None = None,  # noqa: ARG001 - listed, so that a misspelt option is refused
    trial: int = 0,  # noqa: ARG001
    seed: int = 0,  # noqa: ARG001
) -> None:
    """Play the task's reference solution."""
    template, situation = _solution(task)
    _play(template, situation, _acting(session, tools))


def clumsy(
    session: Session,
    task: Mapping[str, Any],
    tools: Sequence[Mapping[str, Any]],
    *,
    observation: Mapping[str, Any] | None = None,  # noqa: ARG001
    trial: int = 0,  # noqa: ARG001
    seed: int,
    rate: float = 0.3,
) -> Mapping[str, Any]:
    """Play the reference solution, where each call goes wrong with chance `rate`, as `seed` decides."""
    if not isinstance(rate, int | float) or not 0 <= rate <= 1:
        raise InvalidArgument(f"rate is {rate!r}; it must be a number from 0 to 1")
    template, situation = _solution(task)
    fingers = _Fingers(_acting(session, tools), situation, Draw("clumsy", seed), rate)
    _play(template, situation, fingers.act)
    return {"params": {"rate": rate}}


def _solution(task: Mapping[str, Any]) -> tuple[Template, Situation]:
    """The template and situation of a listed task."""
    scene = scenes().get(task["id"])
    if scene is None or scene.task["task_hash"] != task["task_hash"]:
        raise InvalidArgument(
            f"the server's task {task['id']!r} is not this office's; install the server's miroir here"
        )
    return scene.template, scene.situation


def _play(template: Template, situation: Situation, act: Act) -> None:
    """Play the solution to its end, or until a mistake or a coworker's vague reply makes the rest impossible."""
    with suppress(_Over, LookupError, StopIteration, ValueError, ToolError):
        template.solve(act, situation.brief)


def _acting(session: Session, tools: Sequence[Mapping[str, Any]]) -> Act:
    """Calls of the session's tools by name, as solutions make them."""
    if not {tool["name"] for tool in tools}.issuperset(by_tool()):
        raise InvalidArgument("the office's reference and clumsy agents play surface api; run them on that surface")

    def act(tool: str, **arguments: Any) -> Answer:
        reply = session.step(tool, arguments)
        if reply["done"]:
            raise _Over
        return _content(reply["observation"])

    return act


def _content(observation: Mapping[str, Any]) -> Answer:
    """The JSON object that a tool answered; ToolError for its error."""
    error = observation.get("error")
    if error:
        raise ToolError(error["message"], error["error_type"])
    result = observation["result"]
    answer: Answer = result.get("structured_content") or json.loads(result["content"][0]["text"])
    return answer


class _Fingers:
    """An `act` that slips: a look in the wrong place, a wrong target, a skipped step, a wrong argument."""

    def __init__(self, act: Act, situation: Situation, draw: Draw, rate: float) -> None:
        self._act = act
        self._wrong = situation.wrong
        self._draw = draw
        self._rate = rate

    def act(self, tool: str, **arguments: Any) -> Answer:
        """The call, or with chance `rate` what a clumsy agent does instead."""
        if not self._draw.chance(self._rate):
            return self._act(tool, **arguments)
        if not by_tool()[tool].writes:
            self._look_elsewhere(tool, arguments)
            return self._act(tool, **arguments)
        misdirected = self._wrong.applied(tool, arguments)
        if misdirected is not None and self._draw.chance(0.5):
            return self._act(tool, **misdirected)
        if self._draw.chance(0.5):
            return {}  # skipped, though it looks done
        return self._act(tool, **_garbled(arguments))

    def _look_elsewhere(self, tool: str, arguments: Mapping[str, Any]) -> None:
        """A first look with a wrong argument, which costs a call and answers nothing of use."""
        with suppress(ToolError):
            self._act(tool, **_garbled(arguments))


def _garbled(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with the longest text changed: digits turned to the next one, else its second half lost."""
    texts = {name: value for name, value in arguments.items() if isinstance(value, str)}
    if not texts:
        return dict(arguments)
    name = max(sorted(texts), key=lambda key: len(texts[key]))
    text = texts[name]
    turned = "".join(str((int(char) + 1) % 10) if char.isdecimal() and char.isascii() else char for char in text)
    return {**arguments, name: turned if turned != text else text[: len(text) // 2]}
