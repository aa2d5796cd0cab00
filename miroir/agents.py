"""What plays an episode: a chat model by tool calls, or a callable named `module:function`."""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypedDict
from urllib.parse import unquote

from .catalog import opening
from .chat import ChatClient
from .chat.form import arguments_of, chat_tools, finite_json, recorded, result_text, sent
from .errors import ContextFull, EnvError, InvalidArgument
from .locate import locate
from .wire import EPISODE_OVER, EXECUTION_ERROR, VALIDATION_ERROR, Step, Task, Tool, submits

TURNS = 200  # completions in an episode whose task does not say how many tool calls it has
_SHOWN = 200  # characters of broken arguments that the model is shown again
_GIVEN = frozenset({"session", "task", "tools", "observation", "trial"})  # what no option of a callable may set

_log = logging.getLogger(__name__)


class Steps(Protocol):
    """What an agent needs of a session."""

    def step(self, tool: str, arguments: dict[str, Any], *, timeout_s: float | None = None) -> Step:
        """Call a tool of the environment."""


class Played(TypedDict):
    """What an agent tells of an episode, for its record: messages in chat form, tokens used, sampling parameters."""

    messages: list[dict[str, Any]]
    usage: dict[str, int]
    params: dict[str, Any]


class Player(Protocol):
    """Who played, as records say it."""

    @property
    def name(self) -> str: ...
    @property
    def model(self) -> str | None: ...
    @property
    def params(self) -> Mapping[str, Any]: ...


class Agent(Player, Protocol):
    """What plays episodes, from any number of threads."""

    @property
    def base_seed(self) -> int: ...

    def play(
        self, session: Any, task: Task, tools: Sequence[Tool], *, observation: Mapping[str, Any], trial: int, seed: int
    ) -> Played | None:
        """Play an episode that was reset, to its end or not; it is finished and graded afterwards."""


# What a model is told first, of the task, its tools and the first observation.
Opening = Callable[[Task, Sequence[Tool], Mapping[str, Any]], str]


def episode_seed(base_seed: int, task_id: str, trial: int) -> int:
    """The seed of a task's i-th rollout: 32 bits of SHA-256, the same in every process and on every machine."""
    digest = hashlib.sha256(json.dumps([base_seed, task_id, trial]).encode()).digest()
    return int.from_bytes(digest[:4])


class ChatAgent:
    """A chat model that plays by tool calls; several threads may play with one at the same time.

    `system` is said before all else; `opening` writes what the model is told first of the episode. `verbatim` gives
    the model its own messages back as it wrote them, as a trainer needs that tells turns by what came before them.
    """

    base_seed = 0

    def __init__(
        self,
        client: ChatClient,
        *,
        name: str = "chat",
        max_turns: int | None = None,
        system: str | None = None,
        opening: Opening = opening,
        verbatim: bool = False,
    ) -> None:
        self.client = client
        self.name = name
        self._max_turns = max_turns
        self._system = system
        self._opening = opening
        self._verbatim = verbatim

    def __repr__(self) -> str:
        return f"ChatAgent({self.client!r})"

    @property
    def model(self) -> str:
        """The model's name, as it is asked for."""
        return self.client.model

    @property
    def params(self) -> Mapping[str, Any]:
        """The model's parameters, as they were given."""
        return self.client.params

    def play(
        self,
        session: Steps,
        task: Task,
        tools: Sequence[Tool],
        *,
        observation: Mapping[str, Any],
        trial: int,  # noqa: ARG002 - the world's draw is the environment's, and the model's is its own
        seed: int,  # noqa: ARG002
    ) -> Played:
        """Play to the end; ModelError when the endpoint fails for good.

        A message without a tool call is answered by a nudge; a second one in a row ends the agent's part, as do a full
        context and `max_turns` completions (twice the task's tool calls, unless set).
        """
        if not tools:
            raise InvalidArgument(
                "the environment lists no tools, and a chat model plays by tool calls; use a callable"
            )
        told = [{"role": "system", "content": self._system}] if self._system else []
        told.append({"role": "user", "content": self._opening(task, tools, observation)})
        conversation = _Conversation(self.client, tools, told, verbatim=self._verbatim)
        for _ in range(self._max_turns or 2 * (task.get("max_steps") or 0) or TURNS):
            try:
                calls = conversation.ask()
            except ContextFull as error:
                _log.warning("task %s is submitted as it stands: %s", task["id"], error.message)
                break
            if conversation.act(session, calls) if calls else not conversation.nudge(submit=submits(tools)):
                break
        return conversation.played()


class _Conversation:
    """One episode's messages, in the record's form, and the tokens that they cost."""

    def __init__(
        self, client: ChatClient, tools: Sequence[Tool], told: list[dict[str, Any]], *, verbatim: bool
    ) -> None:
        self._client = client
        self._tools = chat_tools(tools)
        self._offered = {tool["name"] for tool in tools}
        self._messages = told
        self._said = list(told) if verbatim else None  # the same as the endpoint has it
        self._usage = Counter[str]()
        self._nudged = False
        self._cut = False  # whether the last message ran into its length limit

    def ask(self) -> list[dict[str, Any]]:
        """Let the model speak; the calls that it makes."""
        history = sent(self._messages, self._offered) if self._said is None else self._said
        completion = self._client.complete(history, self._tools)
        self._usage.update(completion.usage or {})
        self._cut = completion.finish_reason == "length"
        self._add(completion.message)
        calls: list[dict[str, Any]] = self._messages[-1].get("tool_calls", [])
        return calls

    def _add(self, message: dict[str, Any]) -> None:
        self._messages.append(recorded(message))
        if self._said is not None:
            self._said.append(message)

    def act(self, session: Steps, calls: Sequence[Mapping[str, Any]]) -> bool:
        """Make the calls in their order and answer each to the model; whether the episode is over."""
        self._nudged = False
        messages, done = answers(session, calls)
        for message in messages:
            self._add(message)
        return done

    def nudge(self, *, submit: bool) -> bool:
        """Ask for a tool call; False when that was done and the model again made none."""
        if self._nudged:
            return False
        self._nudged = True
        self._add(nudge(cut=self._cut, submit=submit))
        return True

    def played(self) -> Played:
        """What the record holds of the conversation."""
        return {"messages": self._messages, "usage": dict(self._usage), "params": dict(self._client.params)}


def nudge(*, cut: bool, submit: bool) -> dict[str, Any]:
    """The message that asks a model for a tool call; `cut`, if its own ran into its length limit."""
    said = "Your message was cut at its length limit. " if cut else ""
    ending = ", or call submit if you are done" if submit else ""
    text = f"{said}Go on by calling a tool{ending}. A second message without a tool call ends the episode."
    return {"role": "user", "content": text}


def answers(session: Steps, calls: Iterable[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], bool]:
    """The answers to a message's calls, in the record's form and made in their order; whether the episode is over."""
    messages = []
    done = False
    for call in calls:
        text, done = ("not called: the episode was over", True) if done else _answered(session, call)
        name = call["function"]["name"]
        messages.append({"role": "tool", "tool_call_id": call["id"], "name": name, "content": text})
    return messages, done


def _answered(session: Steps, call: Mapping[str, Any]) -> tuple[str, bool]:
    """What a call in the record's form gave, as the model reads it, and whether the episode is over."""
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    if call.get("arguments_error"):
        return _broken(arguments), False
    return called(session, name, arguments)


def called(session: Steps, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
    """What a model's call of a tool gave, as the model reads it, and whether the episode is over."""
    if not name:
        return "tool_not_found: the call names no tool", False
    try:
        reply = session.step(name, arguments)
    except (EnvError, InvalidArgument) as error:
        if error.code in {EPISODE_OVER, EXECUTION_ERROR}:
            return str(error), True
        if isinstance(error, EnvError) and error.code != VALIDATION_ERROR:
            raise
        # The model wrote all of the call; arguments may be nested too deeply, say.
        return f"invalid_args: nothing was called: {error.message}", False
    return result_text(reply["observation"]), reply["done"]


def _broken(arguments: str) -> str:
    """What a model is told of arguments that are no JSON object; its history shows {} in their place."""
    try:
        arguments_of(arguments)
    except ValueError as error:
        why = str(error)
    return f"invalid_args: nothing was called, since the arguments are not a JSON object ({why}): {arguments[:_SHOWN]}"


@dataclass(frozen=True)
class CallableAgent:
    """A function that plays; `name` is its reference and `params` are its options, as they were written."""

    name: str
    function: Callable[..., Played | None]
    params: Mapping[str, Any] = field(default_factory=dict)
    base_seed: int = 0
    model: str | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The keyword arguments of the function, beside the episode's."""
        return {name: value for name, value in self.params.items() if name != "seed"}

    def play(
        self,
        session: Steps,
        task: Task,
        tools: Sequence[Tool],
        *,
        observation: Mapping[str, Any],
        trial: int,
        seed: int,
    ) -> Played | None:
        """Call the function with the episode and the options."""
        return self.function(session, task, tools, observation=observation, trial=trial, seed=seed, **self.options)


def load_agent(spec: str) -> CallableAgent:
    """The agent of `module:function` or `module:function?rate=0.3&seed=7`; InvalidArgument when it cannot play.

    `seed` is the base seed, 0 by default; the other options become keyword arguments.
    """
    reference, _, query = spec.partition("?")
    options = parse_options(unquote(pair) for pair in query.split("&") if pair)
    base_seed = options.get("seed", 0)
    if type(base_seed) is not int:
        raise InvalidArgument(f"the agent {spec!r}: seed is {base_seed!r}; pass a whole number")
    taken = sorted(_GIVEN & options.keys())
    if taken:
        raise InvalidArgument(f"the agent {spec!r}: {', '.join(taken)} is the episode's own; leave it out")
    function = locate(reference, "agent")
    if not callable(function):
        raise InvalidArgument(f"the agent {spec!r}: {reference} cannot be called; name a function that plays")
    agent = CallableAgent(reference, function, options, base_seed)
    try:
        inspect.signature(function).bind(None, None, None, observation={}, trial=0, seed=0, **agent.options)
    except (TypeError, ValueError) as error:
        takes = "session, task, tools, *, observation, trial, seed"
        raise InvalidArgument(f"the agent {spec!r}: {error}; it is called with ({takes}) and the options") from error
    return agent


def parse_options(pairs: Iterable[str]) -> dict[str, Any]:
    """The options written as NAME=VALUE, each value JSON where it can be and text elsewhere."""
    options: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not (name and equals):
            raise InvalidArgument(f"the option {pair!r} is not NAME=VALUE; write it so")
        if name in options:
            raise InvalidArgument(f"the option {name} is given twice; give it once")
        try:
            options[name] = finite_json(text)
        except ValueError:
            options[name] = text
    return options
