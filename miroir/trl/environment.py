"""Environments as GRPOTrainer takes them: a class whose public methods are `reset` and the tools, and its factory."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..wire import Task, Tool
from .plan import Plan
from .rollout import Rollout
from .toolbox import Toolbox, toolbox_of

BATCH = 32  # episodes that count as a batch where a trainer has no batches
_NO_TOOLS = frozenset({"reset", "get_reward"})


class Environment:
    """Plays a task of the fleet at each `reset`; holds a container from there to the end of the episode.

    The tools are methods of subclasses. A trainer lists them; by hand each is called by its name:
    `environment.mail_list(folder="inbox")`.
    """

    def __init__(self, rollout: Rollout) -> None:
        self._rollout = rollout

    def reset(self, task_id: str | None = None, **_row: Any) -> str | None:
        """Begin an episode of the task; the text that goes below the prompt of the dataset's row."""
        return self._rollout.begin(task_id)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name not in _NO_TOOLS:
            for member, function in inspect.getmembers(type(self), inspect.isfunction):
                if function.__name__ == name and member not in _NO_TOOLS:
                    return getattr(self, member)
        raise AttributeError(f"the environment has no tool {name!r}")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._rollout!r}>"


class _Graded(Environment):
    """An environment that grades itself, for AsyncGRPOTrainer."""

    def get_reward(self) -> float | None:
        """The reward of the episode, which ends it; None when it is void, MiroirError (ALL_VOID) when so many were."""
        record = self._rollout.grade()
        self._rollout.require(BATCH)
        return None if record is None else record["reward"]


@dataclass(frozen=True)
class Factory:
    """Makes environments that play some of the tasks with one set of tools; it pickles, and leases nothing."""

    plan: Plan = field(repr=False)
    tools: Sequence[Tool] = field(repr=False)
    tasks: Mapping[str, Task] = field(repr=False)
    name: str = "Miroir"
    graded: bool = False

    def __call__(self) -> Environment:
        """An environment that has no container yet."""
        toolbox = toolbox_of(tuple(json.dumps(tool) for tool in self.tools))
        return environment_class(self.name, toolbox, self.graded)(Rollout(self.plan, self.tasks, toolbox))


@functools.cache
def environment_class(name: str, toolbox: Toolbox, graded: bool) -> type[Environment]:
    """The class of environments with these tools: a trainer tells environments apart by their class."""
    return type(name, (_Graded if graded else Environment,), dict(toolbox.methods))
