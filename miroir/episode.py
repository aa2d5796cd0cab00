"""One episode, from its lease to its record: the one place that plays it and that says what makes it void."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar, cast

from .agents import Agent, Played, Player, episode_seed
from .catalog import opening
from .chat.form import chat_tools
from .coworkers import ANSWER_TIMEOUT_S, CoworkerModel, answer_coworkers
from .errors import ConnectionLost, CoworkerFailed, EnvError, InvalidArgument, MiroirError, NotGraded, StepTimeout
from .session import Graded, Session
from .void import blame, ending, gradable, void_record, worth_again
from .wire import (
    EPISODE_OVER,
    EXECUTION_ERROR,
    SUBMIT,
    UNKNOWN_TASK,
    UNKNOWN_TYPE,
    VALIDATION_ERROR,
    CoworkerTurn,
    Record,
    Step,
    Task,
    Tool,
    encode,
)

RESET_CONTAINERS = 3  # different containers on which a reset is tried before its episode is void
RESET_TRIES = 6  # and at most so many tries, where the fleet has fewer containers, or gives the same one again
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
    coworker_s: float = ANSWER_TIMEOUT_S
    options: Mapping[str, Any] = field(default_factory=dict)


def shown(task: Task, tools: Iterable[Tool]) -> list[Tool]:
    """Those of the tools that the task shows."""
    narrowed = task.get("tools")
    return [tool for tool in tools if narrowed is None or tool["name"] in (SUBMIT, *narrowed)]


class Ended(NamedTuple):
    """An episode's record, whether a void one is worth playing again, and the error that made it void."""

    record: Record
    again: bool
    fault: BaseException | None = None


class Episode:
    """An episode with the surface of a session; after each step it has the coworkers answer.

    `fault` keeps the first error of the environment, the network or a coworker's model, whoever swallowed it, and
    `coworker_usages` the tokens that each answer of that model cost.
    """

    def __init__(self, task: Task, setting: Setting, *, trial: int = 0, attempt: int = 0) -> None:
        self.task = task
        self.trial = trial
        self.attempt = attempt
        self.fault: MiroirError | None = None
        self.coworker_usages: list[dict[str, int]] = []
        self._setting = setting
        self._session: Session | None = None
        self._observation: Mapping[str, Any] = {}
        self.tools = shown(task, setting.tools)
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
        """Lease a container and reset it, on others where a reset fails; the first observation.

        What is raised once there is an `url` makes the episode void: `conclude` says how. Anything else is no
        episode's fault: no container, an unknown task, an option that the environment refuses.
        """
        failed: list[str] = []
        while True:
            session = lease()
            self._start()
            try:
                self._observation = observation = self._reset(session)
            except (EnvError, ConnectionLost, StepTimeout) as error:
                callers = isinstance(error, EnvError) and error.code in _CALLERS_FAULTS
                session.close(fault="" if callers else f"a reset failed: {error.message}")
                failed.append(session.url)
                if callers:
                    raise
                if len(set(failed)) == RESET_CONTAINERS or len(failed) == RESET_TRIES:
                    self._session, self.fault = session, error
                    raise
            except BaseException:
                session.close()
                raise
            else:
                self._session = session
                self._answer()
                return observation

    def _reset(self, session: Session) -> dict[str, Any]:
        setting = self._setting
        session.env = setting.env or None
        if not setting.tools:
            self.tools = shown(self.task, session.tools())
        surface = {"surface": setting.surface} if setting.surface else {}
        options = {**setting.options, **self.task.get("reset", {}), **surface}
        own_id = options.pop("task_id", None)  # an id in a user's list means nothing to a plain server
        task_id = own_id if session.plain else self.task["id"]
        observation = session.reset(task_id, setting.max_seconds, setting.coworker_model is not None, **options)
        if session.task_tools is not None:
            self.tools = shown(self.task, session.task_tools)
        return observation

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

    def close(self, *, fault: str = "") -> None:
        """Free the container; `fault` says why it should rather not be leased again at once."""
        if self._session is not None:
            self._session.close(fault=fault)

    def _stepped(self, call: Callable[[Session], Step]) -> Step:
        step = self._kept(call)
        return {**step, "done": step["done"] or self._answer()}

    def _answer(self) -> bool:
        """Have the coworkers answer; whether the episode's time ran out while their model wrote."""
        model, timeout_s, usages = self._setting.coworker_model, self._setting.coworker_s, self.coworker_usages
        if model is None or not self.task.get("coworkers"):
            return False
        try:
            self._kept(lambda session: answer_coworkers(session, model, timeout_s=timeout_s, usages=usages))
        except EnvError as error:
            if error.code == EPISODE_OVER:
                return True
            if error.code != EXECUTION_ERROR:  # after that one there is a record
                self.fault = self.fault or error
            raise
        return False

    def _kept(self, call: Callable[[Session], _T]) -> _T:
        assert self._session is not None
        try:
            return call(self._session)
        except (ConnectionLost, StepTimeout, CoworkerFailed, NotGraded) as error:
            self.fault = self.fault or error
            raise

    # The record

    def conclude(
        self, agent: Player | None = None, played: Played | None = None, error: BaseException | None = None
    ) -> Ended:
        """Grade the episode, or make its void record where `error` or a fault forbids it; free the container."""
        fault = self.fault or (None if gradable(error) else error)
        if fault is None and self._session is not None and self._session.closed:
            fault = InvalidArgument("the agent closed its session, so nobody can grade it; leave that to the run")
        record: Record | None = None
        if fault is None:
            try:
                record = self.finish()["record"]
            except MiroirError as failure:
                fault = self.fault = failure
        if record is None:
            assert fault is not None
            record = self._void(fault)
        self.close(fault=blame(record, fault))
        again = record["reward"] is None and worth_again(record, fault)
        return Ended(self._completed(record, agent, played), again, fault)

    def _void(self, fault: BaseException) -> Record:
        return void_record(
            self.task,
            fault,
            ending(fault, agents=fault is not self.fault),
            episode_id=self.episode_id,
            env=self._setting.env,
            steps=self._session.steps if self._session else [],
            started_at=self._began_at,
            episode_s=time.monotonic() - self._began,
        )

    def _completed(self, record: Record, agent: Player | None, played: Played | None) -> Record:
        """The record with what only the client knows."""
        setting = self._setting
        client: dict[str, Any] = {
            "task": self.task,
            "prompt": opening(self.task, self.tools, self._observation),
            "surface": setting.surface,
            "max_seconds": setting.max_seconds,
            "trial": self.trial,
            "attempt": self.attempt,
            "container": self.url,
        }
        if agent is not None:
            client["agent"] = agent_entry(agent, played)
            client["tools"] = chat_tools(self.tools)
        if record.get("made_by") == "client":  # which may have been a session's, that knows nothing of the task's row
            metadata = {**record["metadata"], "task_hash": self.task["task_hash"]}
            client |= {"metadata": metadata, "task_id": self.task["id"], "split": self.task.get("split")}
        told: Mapping[str, Any] = played or {}
        client |= {name: told[name] for name in ("messages", "usage") if told.get(name)}
        return cast("Record", {**record, **client})


def play(
    lease: Callable[[], Session], agent: Agent, task: Task, setting: Setting, *, trial: int = 0, attempt: int = 0
) -> Ended:
    """Play one episode with the agent; its record, graded or void.

    An interrupt leaves no record. Errors that no episode can be blamed for are raised: no container, an unknown task
    or option.
    """
    episode = Episode(task, setting, trial=trial, attempt=attempt)
    played: Played | None = None
    failure: BaseException | None = None
    try:
        try:
            observation = episode.begin(lease)
        except MiroirError as error:
            if not episode.url:
                raise
            failure = error
        else:
            seed = episode_seed(agent.base_seed, task["id"], trial)
            try:
                # Copies: what an agent does to its task and tools must not reach the other episodes.
                mine, tools = copy.deepcopy(task), copy.deepcopy(episode.tools)
                played = _checked(agent.play(episode, mine, tools, observation=observation, trial=trial, seed=seed))
            except (Exception, SystemExit) as error:  # whatever an agent raises is its own fault
                failure = error
        return episode.conclude(agent, played, failure)
    finally:
        episode.close()


def agent_entry(agent: Player, played: Played | None = None) -> dict[str, Any]:
    """The agent as a record names it; `given`, where it played with other parameters than it was given."""
    given = dict(agent.params)
    params = {**given, **(played.get("params") or {} if played else {})}
    entry = {"name": agent.name, "model": agent.model, "params": params}
    return entry if params == given else {**entry, "given": given}


def _checked(played: Any) -> Played | None:
    """What an agent returned; InvalidArgument when no record could hold it."""
    if played is None:
        return None
    try:
        encode(played)
        if not isinstance(played, dict):
            raise TypeError(f"a {type(played).__name__} is no dict")
        for name, kind in (("messages", list), ("usage", dict), ("params", dict)):
            if not isinstance(played.get(name) or kind(), kind):
                raise TypeError(f"its {name} are no {kind.__name__}")
    except (TypeError, ValueError, RecursionError) as error:
        form = '{"messages": […], "usage": {…}, "params": {…}}'
        raise InvalidArgument(f"the agent returned what no record can hold ({error}); return None or {form}") from error
    return cast("Played", played)
