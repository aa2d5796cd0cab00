"""One episode, from its lease to its record: the one place that plays it and that says what makes it void."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar, cast

from .agents import Agent, Played, episode_seed
from .catalog import opening, prompt
from .chatform import chat_tools
from .coworkers import CoworkerModel, answer_coworkers
from .errors import ConnectionLost, CoworkerFailed, EnvError, MiroirError, ModelError, NotGraded, StepTimeout
from .session import SUBMIT, Graded, Session
from .wire import (
    EPISODE_OVER,
    EXECUTION_ERROR,
    RECORD_SCHEMA,
    UNKNOWN_TASK,
    UNKNOWN_TYPE,
    VALIDATION_ERROR,
    CoworkerTurn,
    Record,
    Step,
    Task,
    Tool,
)

RESET_TRIES = 3  # containers on which a reset is tried before its episode is void
_T = TypeVar("_T")
_CALLERS_FAULTS = frozenset({UNKNOWN_TASK, VALIDATION_ERROR, UNKNOWN_TYPE})


@dataclass(frozen=True)
class Setting:
    """What the episodes of one run have in common."""

    tools: Sequence[Tool] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    surface: str | None = None
    max_seconds: int | None = None
    coworker_model: CoworkerModel | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


class Ended(NamedTuple):
    """An episode's record, whether a void one is worth playing again, and the error that made it void."""

    record: Record
    again: bool
    fault: Exception | None = None


class Episode:
    """An episode with the surface of a session; after each step it has the coworkers answer.

    `fault` keeps the first error that makes it void, whoever swallowed it.
    """

    def __init__(self, task: Task, setting: Setting, *, trial: int = 0, attempt: int = 0) -> None:
        self.task = task
        self.trial = trial
        self.attempt = attempt
        self.fault: MiroirError | None = None
        self._setting = setting
        self._session: Session | None = None
        self._observation: Mapping[str, Any] = {}
        narrowed = task.get("tools")
        self.tools = [tool for tool in setting.tools if narrowed is None or tool["name"] in (SUBMIT, *narrowed)]
        self._start()

    def _start(self) -> None:
        self._began = time.monotonic()
        self._began_at = datetime.now(UTC)

    # The surface of a session

    @property
    def url(self) -> str:
        """The base URL of the container."""
        return self._session.url if self._session else ""

    @property
    def episode_id(self) -> str | None:
        """The id under which the environment plays it."""
        return self._session.episode_id if self._session else None

    @property
    def done(self) -> bool:
        """Whether the environment has ended it."""
        return self._session is not None and self._session.done

    def begin(self, lease: Callable[[], Session]) -> dict[str, Any]:
        """Lease a container and reset it, on others where one fails; the first observation."""
        options = {
            **self._setting.options,
            **self.task.get("reset", {}),
            **({"surface": self._setting.surface} if self._setting.surface else {}),
        }
        for remaining in reversed(range(RESET_TRIES)):
            session = lease()
            self._start()
            try:
                coworkers = self._setting.coworker_model is not None
                observation = session.reset(self.task["id"], self._setting.max_seconds, coworkers, **options)
            except (EnvError, ConnectionLost, StepTimeout) as error:
                session.close(fault=f"a reset failed: {error.message}")
                if isinstance(error, EnvError) and error.code in _CALLERS_FAULTS:
                    raise
                if not remaining:
                    self._session, self.fault = session, error
                    raise
            except BaseException:
                session.close()
                raise
            else:
                self._session = session
                self._observation = observation
                if self.task.get("coworkers"):
                    self._answer()
                return observation
        raise AssertionError("the last try returns or raises")

    def step(self, tool: str, arguments: dict[str, Any], *, timeout_s: float | None = None) -> Step:
        """Call a tool, then have the coworkers answer who owe a reply."""
        return self._stepped(lambda session: session.step(tool, arguments, timeout_s=timeout_s))

    def act(self, action: dict[str, Any], *, timeout_s: float | None = None) -> Step:
        """Send a raw action, then have the coworkers answer who owe a reply."""
        return self._stepped(lambda session: session.act(action, timeout_s=timeout_s))

    def coworker_turns(self) -> list[CoworkerTurn]:
        """Who owes a reply now."""
        return self._kept(lambda session: session.coworker_turns())

    def coworker_reply(self, coworker: str, text: str) -> int | None:
        """Deliver a coworker's reply."""
        return self._kept(lambda session: session.coworker_reply(coworker, text))

    def state(self) -> dict[str, Any]:
        """What the server says of the session."""
        return self._kept(lambda session: session.state())

    def finish(self) -> Graded:
        """Submit the episode if it still runs, and return its grade."""
        return self._kept(lambda session: session.finish())

    def close(self) -> None:
        """Free the container."""
        if self._session is not None:
            self._session.close()

    def _stepped(self, call: Callable[[Session], Step]) -> Step:
        step = self._kept(call)
        if not step["done"]:
            self._answer()
        return step

    def _answer(self) -> None:
        model = self._setting.coworker_model
        if model is not None and self.task.get("coworkers"):
            self._kept(lambda session: answer_coworkers(session, model))

    def _kept(self, call: Callable[[Session], _T]) -> _T:
        assert self._session is not None
        try:
            return call(self._session)
        except (ConnectionLost, StepTimeout, CoworkerFailed, NotGraded) as error:
            self.fault = self.fault or error
            raise

    # The record

    def conclude(
        self, agent: Agent | None = None, played: Played | None = None, error: Exception | None = None
    ) -> Ended:
        """Grade the episode, or make its void record where `error` or a fault forbids it; free the container."""
        fault: Exception | None = self.fault or (None if _over(error) else error)
        record: Record | None = None
        if fault is None:
            try:
                record = self.finish()["record"]
            except MiroirError as failure:
                fault = failure
        if record is None:
            assert fault is not None
            record = self._void(fault)
        self.close()
        again = record["reward"] is None and (fault is None or _again(fault))
        return Ended(self._completed(record, agent, played), again, fault)

    def _completed(self, record: Record, agent: Agent | None, played: Played | None) -> Record:
        """The record with what only the client knows."""
        setting = self._setting
        client: dict[str, Any] = {
            "task": self.task,
            "prompt": self._told(),
            "surface": setting.surface,
            "max_seconds": setting.max_seconds,
            "trial": self.trial,
            "attempt": self.attempt,
            "container": self.url,
        }
        if agent is not None:
            client["agent"] = {"name": agent.name, "model": agent.model, "params": dict(agent.params)}
            client["tools"] = chat_tools(self.tools)
        if played is not None and played.get("messages"):
            client["messages"] = played["messages"]
            client["usage"] = played.get("usage") or {}
        return cast("Record", {**record, **client})

    def _told(self) -> str:
        """What an agent was told first."""
        submit = any(tool["name"] == SUBMIT for tool in self.tools)
        return opening(prompt(self.task, self._began_at.date(), submit=submit), self._observation)

    def _void(self, fault: Exception) -> Record:
        steps = self._session.steps if self._session else []
        return {
            "schema": RECORD_SCHEMA,
            "episode_id": self.episode_id or uuid.uuid4().hex,
            "task_id": self.task["id"],
            "split": self.task.get("split"),
            "env": dict(self._setting.env),
            "reward": None,
            "metadata": {
                "task_hash": self.task["task_hash"],
                "success": False,
                "harm": False,
                "ended_by": _ending(fault),
                "void_reason": str(fault) or type(fault).__name__,
                "checks": [],
                "harms": [],
            },
            "diagnostics": {
                "steps": sum(1 for step in steps if step.get("tool") != SUBMIT),
                "tool_errors": sum(1 for step in steps if step["error"]),
            },
            "timings": {
                "started_at": self._began_at.isoformat(),
                "episode_s": round(time.monotonic() - self._began, 6),
                "env_s": round(sum(step["seconds"] for step in steps), 6),
            },
            "steps": cast("list[dict[str, Any]]", list(steps)),
            "made_by": "client",
        }


def play(
    lease: Callable[[], Session], agent: Agent, task: Task, setting: Setting, *, trial: int = 0, attempt: int = 0
) -> Ended:
    """Play one episode with the agent; its record, graded or void.

    An interrupt leaves no record. Errors that no episode can be blamed for are raised: no container, an unknown task
    or option.
    """
    episode = Episode(task, setting, trial=trial, attempt=attempt)
    played: Played | None = None
    failure: Exception | None = None
    try:
        try:
            observation = episode.begin(lease)
        except (EnvError, ConnectionLost, StepTimeout, CoworkerFailed):
            if episode.fault is None:
                raise
        else:
            seed = episode_seed(agent.base_seed, task["id"], trial)
            try:
                played = agent.play(episode, task, episode.tools, observation=observation, trial=trial, seed=seed)
            except Exception as error:  # whatever an agent raises is its own fault, unless the episode knows better
                failure = error
        return episode.conclude(agent, played, failure)
    finally:
        episode.close()


def _over(error: Exception | None) -> bool:
    """Whether an error that an agent let through says no more than that the environment has ended the episode."""
    return error is None or (isinstance(error, EnvError) and error.code in (EXECUTION_ERROR, EPISODE_OVER))


def _ending(fault: Exception) -> str:
    if isinstance(fault, ConnectionLost | StepTimeout):
        return "lost"
    return "env_error" if isinstance(fault, EnvError | CoworkerFailed | NotGraded) else "agent_error"


def _again(fault: Exception) -> bool:
    if isinstance(fault, ModelError):
        return fault.retryable
    return _ending(fault) != "agent_error"
