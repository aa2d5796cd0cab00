"""One connection's session: a client's frames answered by its world, one after the other."""

from __future__ import annotations

import copy
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, cast

from ..wire import (
    EPISODE_OVER,
    EXECUTION_ERROR,
    NO_EPISODE,
    NOT_GRADED,
    STALE_EPISODE,
    SUBMIT,
    UNKNOWN_COWORKER,
    UNKNOWN_TASK,
    VALIDATION_ERROR,
    CoworkerTurn,
    Task,
)
from . import contract, frames, mcp
from .catalog import Catalog, CatalogError
from .environment import Environment, InvalidOption, ToolError, UnknownCoworker, UnknownTask
from .episode import Answer, Episode
from .frames import Action, Refusal, Reset
from .tools import Fault, Toolbox
from .world import CALL_LIMIT_S, StillRunning, World, options, reason

GRACE_S = 5.0  # how long a call that runs at the deadline is waited for

NO_STATE = {"episode_id": None, "task_id": None, "step_count": 0, "done": False, "ended_by": None}

T = TypeVar("T")

_log = logging.getLogger("miroir.serve")


class Session:
    """What a connection holds: a world and its last episode.

    `begun` is told of each episode; `wanted_s` tells how many seconds ago another client was seen waiting.
    """

    def __init__(
        self, world: World, catalog: Catalog, begun: Callable[[], None], wanted_s: Callable[[], float | None]
    ) -> None:
        self._world = world
        self._catalog = catalog
        self._begun = begun
        self._wanted_s = wanted_s
        self._options = options(world.environment)
        self._episode: Episode | None = None
        self._handlers: dict[str, Callable[[Any], Awaitable[dict[str, Any]]]] = {
            "reset": self._reset,
            "step": self._step,
            "state": self._state,
            "coworkers": self._coworkers,
            "coworker_reply": self._coworker_reply,
            "record": self._record,
            "mcp": self._mcp,
        }

    @property
    def deadline(self) -> float | None:
        """When the running episode ends by itself, on the monotonic clock."""
        return None if self._episode is None or self._episode.done else self._episode.deadline

    async def expire(self) -> None:
        """End the running episode if its deadline has passed."""
        if self._episode is not None and self.deadline is not None and time.monotonic() >= self.deadline:
            await self._end(self._episode, "deadline")

    async def answer(self, message: Mapping[str, Any]) -> dict[str, Any] | None:
        """The reply to a received message; None when the client asks to close."""
        try:
            kind, data = frames.request(message)
            return None if kind == "close" else await self._handlers[kind](data)
        except Refusal as refusal:
            return refusal.frame()
        except CatalogError as error:
            _log.warning("%s", error, exc_info=error)
            return Refusal(EXECUTION_ERROR, str(error)).frame()

    async def _reset(self, data: Mapping[str, Any]) -> dict[str, Any]:
        asked = frames.reset(data, self._options)
        toolbox = await self._catalog.toolbox(asked.surface)
        task = await self._catalog.task(asked.task_id)
        if task is None:
            raise Refusal(UNKNOWN_TASK, f"no task {asked.task_id!r}; /{self._catalog.name}/tasks lists them")
        if self._episode is not None and not self._episode.done:
            self._episode.void("abandoned", time.monotonic(), "a reset came before its end")
        self._begun()
        content, own = await self._build(task, asked)
        toolbox = own or toolbox
        if "tools" in task:
            toolbox = toolbox.narrowed(task["tools"])
        self._episode = Episode(task, asked.episode_id, asked.max_seconds, toolbox, time.monotonic())
        reply = frames.observation(content, None, False)
        if own is not None:
            reply["data"]["tools"] = toolbox.listing()
        return reply

    async def _build(self, task: Task, asked: Reset) -> tuple[dict[str, Any], Toolbox | None]:
        """The world of the task: its first observation, and its tools where they are its own."""

        def build(environment: Environment) -> tuple[dict[str, Any], Toolbox | None]:
            content = environment.reset(
                copy.deepcopy(task),
                episode_id=asked.episode_id,
                seed=asked.seed,
                max_seconds=None if asked.max_seconds is None else math.ceil(asked.max_seconds),
                coworkers=asked.coworkers,
                surface=asked.surface or self._catalog.surfaces[0],
                **asked.options,
            )
            own = environment.task_tools()
            return contract.first_observation(content), None if own is None else contract.toolbox(own)

        try:
            outcome = await self._world.call(build)
        except StillRunning as error:
            raise Refusal(EXECUTION_ERROR, f"reset: {error}") from error
        if isinstance(outcome.error, UnknownTask):
            raise Refusal(UNKNOWN_TASK, str(outcome.error))
        if isinstance(outcome.error, InvalidOption):
            raise Refusal(VALIDATION_ERROR, str(outcome.error))
        if outcome.error is not None:
            _log.warning("reset failed", exc_info=outcome.error)
            raise Refusal(EXECUTION_ERROR, f"reset failed: {reason(outcome.error)}")
        assert outcome.value is not None
        return outcome.value

    async def _step(self, data: Mapping[str, Any]) -> dict[str, Any]:
        action = frames.action(data)
        if action is None:
            listed = [
                {"name": tool["name"], "description": tool["description"], "input_schema": tool["inputSchema"]}
                for tool in (await self._toolbox()).listing()
            ]
            return frames.observation({"tools": listed}, None, self._episode is not None and self._episode.done)
        episode = await self._running(action.episode_id)
        at = time.monotonic()
        if action.tool == SUBMIT and episode.toolbox.submits:
            await self._end(episode, SUBMIT)
            answer = Answer("The episode is over.", seconds=time.monotonic() - at)
        else:
            answer = await self._call(episode, action, at)
        step = episode.add(action.tool, action.arguments, answer, at)
        if answer.crash is not None:
            raise Refusal(EXECUTION_ERROR, answer.crash)
        return frames.observation(answer.observation(action.tool), step["reward"], step["done"])

    async def _call(self, episode: Episode, action: Action, at: float) -> Answer:
        deadline = at + CALL_LIMIT_S if episode.deadline is None else episode.deadline
        answer = await self._answer(episode, action, deadline)
        submitted = action.tool == SUBMIT and answer.done
        episode.count(answer, step=not submitted)
        if answer.done:
            await self._end(episode, SUBMIT if submitted else "done")
        elif time.monotonic() >= deadline:
            await self._end(episode, "deadline")
        elif episode.out_of_steps:
            await self._end(episode, "max_steps")
        return answer

    async def _answer(self, episode: Episode, action: Action, deadline: float) -> Answer:
        tool, arguments = action.tool, action.arguments
        fault = episode.toolbox.fault(tool, arguments)
        if fault is not None:
            return Answer(fault=fault)
        limit_s = deadline + GRACE_S - time.monotonic()
        try:
            outcome = await self._world.call(
                lambda env: contract.answer(env.call(tool, copy.deepcopy(arguments))), limit_s
            )
        except StillRunning:
            text = f"{tool} still ran {GRACE_S:.0f} s after the episode's time was up"
            episode.void("deadline", time.monotonic(), text)
            return Answer(fault=Fault("timeout", text), seconds=limit_s)
        if outcome.error is None:
            assert outcome.value is not None
            answer = outcome.value
        elif isinstance(outcome.error, ToolError):
            answer = Answer(fault=Fault(str(outcome.error.error_type), str(outcome.error.message)))
        else:
            text = self._fail(episode, tool, outcome.error)
            answer = Answer(fault=Fault("env_error", text), crash=text)
        answer.seconds = outcome.seconds
        return answer

    async def _end(self, episode: Episode, by: str) -> None:
        """Grade the episode, unless it is void already."""
        if episode.done:
            return
        try:
            outcome = await self._world.call(lambda env: contract.grade(env.grade()))
        except StillRunning as error:
            episode.void("env_error", time.monotonic(), f"grading: {error}")
            return
        episode.env_s += outcome.seconds
        if outcome.error is not None:
            self._fail(episode, "grading", outcome.error)
        else:
            assert outcome.value is not None
            episode.end(by, time.monotonic(), outcome.value)

    def _fail(self, episode: Episode, what: str, error: BaseException) -> str:
        text = f"{what} failed: {reason(error)}"
        _log.warning("episode %s is void: %s", episode.episode_id, text, exc_info=error)
        episode.void("env_error", time.monotonic(), text)
        return text

    async def _coworkers(self, _data: None) -> dict[str, Any]:
        episode = self._started()
        turns = [] if episode.done else await self._ask(episode, "coworkers", _turns)
        return {"type": "coworkers", "data": {"turns": turns}}

    async def _coworker_reply(self, data: Mapping[str, Any]) -> dict[str, Any]:
        coworker, text = frames.coworker_reply(data)
        episode = await self._running(None)
        status = await self._ask(episode, "coworker_reply", lambda env: int(env.coworker_reply(coworker, text)))
        return {"type": "coworker_reply", "data": {"status": status}}

    async def _ask(self, episode: Episode, what: str, use: Callable[[Environment], T]) -> T:
        """What `use` makes of the world within the episode's time."""
        limit_s = CALL_LIMIT_S if episode.deadline is None else episode.deadline + GRACE_S - time.monotonic()
        try:
            outcome = await self._world.call(use, limit_s)
        except StillRunning as error:
            episode.void("deadline", time.monotonic(), f"{what}: {error}")
            raise Refusal(EXECUTION_ERROR, f"{what}: {error}") from error
        episode.env_s += outcome.seconds
        if isinstance(outcome.error, UnknownCoworker):
            raise Refusal(UNKNOWN_COWORKER, str(outcome.error))
        if outcome.error is not None:
            raise Refusal(EXECUTION_ERROR, self._fail(episode, what, outcome.error))
        return cast(T, outcome.value)

    async def _state(self, _data: None) -> dict[str, Any]:
        state = NO_STATE if self._episode is None else self._episode.state()
        return {"type": "state", "data": {**state, "wanted_s": self._wanted_s()}}

    async def _record(self, data: Mapping[str, Any] | None) -> dict[str, Any]:
        episode_id = frames.record(data)
        episode = self._started()
        if episode_id not in (None, episode.episode_id):
            raise _stale(episode_id, episode)
        if not episode.done:
            raise Refusal(NOT_GRADED, "the episode is not done; end it with the tool submit")
        env = {"name": self._catalog.name, "version": self._catalog.version}
        return {"type": "record", "data": episode.record(env)}

    async def _mcp(self, data: Mapping[str, Any]) -> dict[str, Any]:
        return {"type": "mcp", "data": mcp.in_session(data, await self._toolbox())}

    async def _toolbox(self) -> Toolbox:
        return await self._catalog.toolbox(None) if self._episode is None else self._episode.toolbox

    def _started(self) -> Episode:
        if self._episode is None:
            raise Refusal(NO_EPISODE, "no episode; send a reset first")
        return self._episode

    async def _running(self, episode_id: str | None) -> Episode:
        episode = self._started()
        if episode_id not in (None, episode.episode_id):
            raise _stale(episode_id, episode)
        await self.expire()
        if episode.done:
            raise Refusal(EPISODE_OVER, f"the episode is over ({episode.ended_by}); fetch its record, or reset")
        return episode


def _stale(episode_id: str | None, episode: Episode) -> Refusal:
    return Refusal(STALE_EPISODE, f"episode {episode_id} is not the session's; that is {episode.episode_id}")


def _turns(environment: Environment) -> list[CoworkerTurn]:
    return contract.turns(environment.coworker_turns())
