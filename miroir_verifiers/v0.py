"""Verifiers before 0.4: a fleet as a MultiTurnEnv, whose loop calls the model; every failure is an InfraError."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar, cast

import verifiers as vf
from datasets import Dataset

from miroir.agents import TURNS, Played, answers, nudge
from miroir.errors import InvalidArgument, MiroirError, ModelError
from miroir.records import metrics
from miroir.wire import Task

from . import conversation, offers
from .cancelling import waited
from .preset import Measure, measured
from .rollout import Rollout, Seat
from .settings import CHOICE, OPTIONS, Settings, refuse_unknown, settings
from .threads import threads

_ROLLOUT = "miroir_rollout"
_NUDGED = "miroir_nudged"
_SCORES = "miroir_scores"
_OF_THE_ENVIRONMENT = ("max_turns", "timeout_seconds", "system_prompt")

T = TypeVar("T")


def environment(**options: Any) -> MiroirMultiTurnEnv:
    """The environment of a fleet; InvalidArgument for an option that is unknown or cannot work."""
    refuse_unknown(options, (*OPTIONS, *_OF_THE_ENVIRONMENT))
    chosen = {name: options.pop(name) for name in CHOICE if name in options}
    env = {name: options.pop(name) for name in _OF_THE_ENVIRONMENT if name in options}
    made = settings(**options)
    return MiroirMultiTurnEnv(made, offers.tasks(made, **chosen), **env)


class MiroirMultiTurnEnv(vf.MultiTurnEnv):
    """Plays one task of the fleet in each rollout, with the tools that its container lists."""

    def __init__(self, settings: Settings, tasks: list[Task], *, max_turns: int = TURNS, **env: Any) -> None:
        rewards: dict[str, Measure] = {"miroir": lambda record: record["reward"] or 0.0, **settings.rewards}
        measured = {name: _metric(name) for name in ("success", "harm", "episode_s")} | dict(settings.metrics)
        self._scores = measured | rewards
        weights = [float(name in rewards) for name in self._scores]
        rubric = vf.Rubric(funcs=[_scorer(name) for name in self._scores], weights=weights)
        rows = [{"question": offers.instructions(settings, task), "info": json.dumps({"row": task})} for task in tasks]
        super().__init__(dataset=Dataset.from_list(rows), rubric=rubric, max_turns=max_turns, **env)
        self.settings = settings

    async def setup_state(self, state: vf.State) -> None:
        """Lease a container and reset it; the prompt and the tools are the episode's own."""
        rollout = Rollout(cast("Task", state["info"]["row"]), self.settings)
        state[_ROLLOUT] = rollout
        await _made(state, rollout.begin)
        told = await _made(state, rollout.opening)
        system = [message for message in state["prompt"] if message["role"] == "system"]
        state["prompt"] = [*system, vf.UserMessage(content=told)]
        state["tool_defs"] = [
            vf.Tool(name=tool["name"], description=tool["description"], parameters=tool["inputSchema"])
            for tool in rollout.tools
        ]

    async def env_response(self, messages: vf.Messages, state: vf.State, **kwargs: Any) -> vf.Messages:
        """The answers to the model's calls; a message without any is answered by a nudge, a second one ends it."""
        rollout: Rollout = state[_ROLLOUT]
        (said,) = conversation.messages(messages[-1:])
        calls = said.get("tool_calls")
        if not calls:
            return self._nudge(state, rollout)
        state[_NUDGED] = False
        answered, done = await _made(state, lambda: answers(rollout, calls))
        replies = [
            vf.ToolMessage(tool_call_id=answer["tool_call_id"], content=answer["content"]) for answer in answered
        ]
        if done:
            state["final_env_response"] = replies
        return replies

    def _nudge(self, state: vf.State, rollout: Rollout) -> vf.Messages:
        if state.get(_NUDGED):
            state["final_env_response"] = []
            return []
        state[_NUDGED] = True
        cut = bool(state["trajectory"][-1]["is_truncated"])
        return [vf.UserMessage(content=nudge(cut=cut, submit=rollout.submits)["content"])]

    @vf.cleanup(priority=1000)
    async def release(self, state: vf.State) -> None:
        """Grade the episode, unless the rollout was cancelled, and free its container, whatever fails before."""
        rollout: Rollout | None = state.get(_ROLLOUT)
        if rollout is None:
            return
        try:
            if state["is_completed"]:
                await self._conclude(state, rollout)
        finally:
            await threads.outlast(rollout.close)

    async def _conclude(self, state: vf.State, rollout: Rollout) -> None:
        """Conclude; here an error must be told, not raised: it would end the whole evaluation."""
        seat = Seat("verifiers", state["model"], state["sampling_args"] or {})
        failure = state.get("error")
        if failure is not None:
            rollout.fail(ModelError(f"{type(failure).__name__}: {failure.__cause__ or failure}"))
        try:
            record = await _made(state, lambda: rollout.conclude(seat, self._played(state)))
            state[_SCORES] = await _made(state, lambda: measured(self._scores, record))
        except vf.InfraError as error:
            state["error"] = failure or error

    def _played(self, state: vf.State) -> Played:
        """What was said in the rollout, and the tokens that it cost."""
        said = [message for step in state["trajectory"][-1:] for message in (*step["prompt"], *step["completion"])]
        said += state.get("final_env_response") or []
        counted = self.get_state_usage(state) or {}
        names = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}
        usage = {name: int(counted[key]) for key, name in names.items() if key in counted}
        return {"messages": conversation.messages(said), "usage": usage, "params": {}}


async def _made(state: vf.State, call: Callable[[], T]) -> T:
    """The result of a blocking call of the rollout; InfraError where it fails. Tells the state of the episode."""
    rollout: Rollout = state[_ROLLOUT]
    try:
        return await waited(rollout, call)
    except Exception as error:  # any but verifiers' own would end the whole evaluation
        fault = error if isinstance(error, MiroirError) else InvalidArgument(f"{type(error).__name__}: {error}")
        rollout.fail(fault)
        raise vf.InfraError(str(fault)) from error
    finally:
        state["info"]["miroir"] = rollout.info


def _metric(name: str) -> Measure:
    return lambda record: metrics(record).get(name, 0.0)


def _scorer(name: str) -> Callable[[vf.State], float]:
    """What was measured under the name; 0 beside the error that says that the episode is void."""

    def score(state: vf.State) -> float:
        scores: dict[str, float] = state.get(_SCORES, {})
        return scores.get(name, 0.0)

    score.__name__ = name
    return score
