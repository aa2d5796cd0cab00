"""What a template of tasks is: a situation set in a company, what it asks for, and how it is solved."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ..coworkers import Coworker
from ..grading import Claim, Goal
from ..stage import Stage

# Calls a tool of surface `api` and returns its answer; a refusal raises ToolError.
Act = Callable[..., dict[str, Any]]


@dataclass(frozen=True)
class Swap:
    """A wrong target: the first call of `tool` whose `argument` is, or lists, `right` gets `wrong` in its place."""

    tool: str
    argument: str
    right: Any
    wrong: Any

    def applied(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
        """The arguments with the wrong target; None when this call is not the one."""
        value = arguments.get(self.argument)
        if tool != self.tool or (self.right not in value if isinstance(value, list) else self.right != value):
            return None
        wrong = (
            [self.wrong if item == self.right else item for item in value] if isinstance(value, list) else self.wrong
        )
        return {**arguments, self.argument: wrong}


@dataclass(frozen=True)
class Situation:
    """A task in its world.

    `brief` holds what the instruction says, for the solution; `allowed` are changes beyond the goals' own that do
    no harm; messages to `coworkers` never do.
    """

    instruction: str
    goals: Sequence[Goal]
    wrong: Swap
    brief: Mapping[str, Any] = field(default_factory=dict)
    allowed: Sequence[Claim] = ()
    coworkers: Sequence[Coworker] = ()


class Template(ABC):
    """A kind of task. One instance stages every seed of it, so it keeps no state.

    `team`: where the person works whom the agent acts as; `calls`: the longest reference solution's tool calls.
    """

    name: ClassVar[str]
    level: ClassVar[int]  # 1 to 3
    team: ClassVar[str]
    calls: ClassVar[int]

    @abstractmethod
    def stage(self, stage: Stage) -> Situation:
        """Set the situation in a company that is otherwise complete."""

    @abstractmethod
    def solve(self, act: Act, brief: Mapping[str, Any]) -> None:
        """Solve the task by tool calls, knowing only the brief and what tools answer; `submit` is not part of it."""
