"""What an environment author writes: `Environment`, and the small values that its methods return."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..wire import CoworkerTurn, Task, Tool


class ToolError(Exception):
    """Raise it in `call` for what the model did wrong: the message is the tool's error, and the episode goes on.

    `error_type` is the error's kind in one word, as the model and the record have it.
    """

    def __init__(self, message: str, error_type: str = "execution_error") -> None:
        super().__init__(message)
        self.message = message
        self.error_type = error_type


class UnknownTask(Exception):
    """Raise it in `reset` for a task id that the environment does not have."""


class InvalidOption(Exception):
    """Raise it in `reset` for an option or a surface that the environment refuses: the client's VALIDATION_ERROR."""


class UnknownCoworker(Exception):
    """Raise it in `coworker_reply` for a coworker who owes no reply."""


@dataclass(frozen=True)
class ToolResult:
    """A tool's answer with more to say than its content.

    `content` is text or a JSON object; `done` ends the episode; `reward` is the reward so far, if there is one.
    """

    content: str | Mapping[str, Any]
    done: bool = False
    reward: float | None = None
    is_error: bool = False


@dataclass(frozen=True)
class Check:
    """One thing that the task asked for: whether it was met, and the evidence."""

    name: str
    passed: bool
    detail: str = ""


@dataclass(frozen=True)
class Harm:
    """One thing that the episode damaged and the task did not ask for."""

    name: str
    detail: str = ""


@dataclass(frozen=True)
class Grade:
    """An episode's grade. `reward` None makes the episode void; `diagnostics` holds numbers only."""

    reward: float | None
    success: bool
    checks: Sequence[Check] = ()
    harms: Sequence[Harm] = ()
    diagnostics: Mapping[str, float] = field(default_factory=dict)


class Environment(ABC):
    """A world with tasks and tools; one instance serves one session, from one thread.

    Every method may block. `splits`, `tasks` and `tools` are called on an instance of their own, before any `reset`.
    An exception other than `ToolError` in `call` ends the episode and makes it void.
    """

    name = "environment"
    version = "0"
    description = ""
    surfaces: Sequence[str] = ("api",)
    allow_code = False  # set on each instance by a server that was started with --allow-code

    def splits(self) -> Mapping[str, str]:
        """The splits by name, each with its type: train, validation or test."""
        return {"train": "train"}

    @abstractmethod
    def tasks(self, split: str) -> Sequence[Task]:
        """The tasks of a split, each with `id`, `task_hash` and `instruction`.

        What else a task has may be left out: the server puts in no coworkers and tags, a persona without a name,
        and 50 as `max_steps`.
        """

    @abstractmethod
    def tools(self, surface: str) -> Sequence[Tool]:
        """The tools that the surface shows.

        `submit` is added, and ends and grades the episode; a tool of that name among these takes its place, and is
        called like the others: it ends the episode by a `ToolResult` that is done.
        """

    @abstractmethod
    def reset(
        self,
        task: Task,
        *,
        episode_id: str,
        seed: int | None,
        max_seconds: int | None,
        coworkers: bool,
        surface: str,
    ) -> Mapping[str, Any]:
        """Build the task's world and return the first observation, a JSON object.

        Free options of the client arrive as further keyword arguments: declare those that you take;
        one that is not declared is the client's VALIDATION_ERROR. Raise `UnknownTask` or `InvalidOption` for what
        the client got wrong; any other exception is its EXECUTION_ERROR, and it may try another container.
        """

    def task_tools(self) -> Sequence[Tool] | None:
        """The tools of the task that was just reset, where they are others than `tools` lists; None: the same."""
        return None

    @abstractmethod
    def call(self, tool: str, arguments: dict[str, Any]) -> str | Mapping[str, Any] | ToolResult:
        """Run one tool; the answer is text, a JSON object or a `ToolResult`."""

    def coworker_turns(self) -> Sequence[CoworkerTurn]:
        """Who owes a reply now, each with the chat to answer."""
        return []

    def coworker_reply(self, coworker: str, text: str) -> int:
        """Deliver a coworker's reply; the HTTP status with which the world took it."""
        raise UnknownCoworker(f"{coworker!r} owes no reply ({len(text)} characters)")

    @abstractmethod
    def grade(self) -> Grade:
        """Grade the episode by the state of the world; an exception makes it void."""

    def close(self) -> None:  # noqa: B027 - most worlds have nothing to drop
        """Drop the world; called once for each instance, also after an error."""
