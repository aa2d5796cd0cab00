"""The reward function of GRPOTrainer: ends and grades a batch's episodes, all at once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..errors import InvalidArgument, MiroirError
from ..records import metrics as numbers
from ..wire import Record
from .environment import Environment
from .leases import leases_of
from .messages import conversation
from .plan import Plan, rank
from .preflight import Demand, containers
from .rollout import Rollout

AT_ONCE = 128  # episodes that are graded at a time
LOGGED = {"success": "success", "harm": "harm", "tool_calls": "steps", "episode_s": "episode_s"}  # numbers of records


class Reward:
    """What the episodes of a batch were worth, None for void ones; MiroirError (ALL_VOID) after too many of these.

    It pickles.
    """

    def __init__(self, plan: Plan) -> None:
        self.__name__ = "miroir"  # what the trainer's logs call it
        self._plan = plan
        self._checked = False

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        environments: Sequence[Any] | None = None,
        trainer_state: Any = None,
        log_metric: Callable[[str, float], None] | None = None,
        **_columns: Any,
    ) -> list[float | None]:
        """The rewards of the episodes that these environments play, in their order."""
        if environments is None:
            raise InvalidArgument(
                "this trainer shows reward functions no environments; pass the Spec's async_environment_factory instead"
            )
        if not len(prompts) == len(completions) == len(environments):
            counts = f"{len(prompts)} prompts, {len(completions)} completions and {len(environments)} environments"
            raise InvalidArgument(f"there are {counts}; pass one of each a row")
        rollouts = [self._rollout(one) for one in environments]
        if not self._checked:
            self._checked = True
            with contextlib.suppress(MiroirError):  # what fails just now is no reason to end a training
                self._demand(prompts, rollouts).tell()
        step = getattr(trainer_state, "global_step", None)
        told = [
            {"messages": conversation(prompt, completion), "training": {"step": step, "rank": rank()[0]}}
            for prompt, completion in zip(prompts, completions, strict=True)
        ]
        records = _all_graded(rollouts, told)
        played = [record for record in records if record is not None]
        for name, value in metrics(played).items():
            if log_metric is not None:
                log_metric(name, value)
        if played:
            leases_of(self._plan).require(self._plan.void_batches * len(played))
        return [None if record is None else record["reward"] for record in records]

    def _rollout(self, environment: Any) -> Rollout | None:
        """What plays in the environment, None where that is not for this Spec to reward."""
        own = isinstance(environment, Environment) and environment._rollout.plays(self._plan)
        return environment._rollout if own else None

    def _demand(self, prompts: Sequence[Any], rollouts: Sequence[Rollout | None]) -> Demand:
        """What this first batch shows of how many containers the training wants."""
        group = next((at for at, prompt in enumerate(prompts) if prompt != prompts[0]), len(prompts))
        return Demand(sum(one is not None for one in rollouts) * rank()[1], group, containers(self._plan))


def metrics(records: Sequence[Record]) -> dict[str, float]:
    """What a batch's records come to: means over graded episodes, and the share that is void."""
    graded = [numbers(record) for record in records if record["reward"] is not None]
    found = {"void": 1 - len(graded) / len(records)} if records else {}
    for name, key in LOGGED.items():
        if values := [one[key] for one in graded if key in one]:
            found[name] = sum(values) / len(values)
    return found


def _all_graded(rollouts: Sequence[Rollout | None], told: Sequence[Mapping[str, Any]]) -> list[Record | None]:
    """The records of the rollouts, which are graded at the same time; an interrupt lets go of those that are not."""
    with ThreadPoolExecutor(min(AT_ONCE, max(1, len(rollouts))), "miroir-grade") as threads:
        try:
            return list(threads.map(_graded, rollouts, told))
        except (KeyboardInterrupt, SystemExit):
            with contextlib.ExitStack() as stack:  # it goes on where one raises
                for rollout in filter(None, rollouts):
                    stack.callback(rollout.free)  # which wakes the thread that waits for its grade
            raise


def _graded(rollout: Rollout | None, told: Mapping[str, Any]) -> Record | None:
    return None if rollout is None else rollout.grade(told)
