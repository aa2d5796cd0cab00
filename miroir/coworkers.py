"""Coworkers, the people of a world, played by a chat model."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from .chat import ChatClient
from .chat.completion import Completion
from .deadlines import Deadlines
from .errors import CoworkerFailed, MiroirError
from .urls import base_url as checked
from .wire import CoworkerTurn, Task

ANSWER_TIMEOUT_S = Deadlines.coworker_s


@dataclass(frozen=True)
class CoworkerModel:
    """The model that plays coworkers, at an OpenAI-compatible endpoint; `temperature` is sent only when it is set."""

    base_url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    temperature: float | None = None

    def __post_init__(self) -> None:
        checked(self.base_url)


class _Chats(Protocol):
    """What answering needs of a session."""

    def coworker_turns(self) -> list[CoworkerTurn]: ...

    def coworker_reply(self, coworker: str, text: str) -> int | None: ...


def answer_coworkers(
    session: _Chats,
    model: CoworkerModel,
    *,
    timeout_s: float = ANSWER_TIMEOUT_S,
    usages: list[dict[str, int]] | None = None,
) -> int:
    """Answer every coworker who owes a reply; how many did. CoworkerFailed when the model or the world fails one.

    Each answer may take `timeout_s` seconds, the client's own retries included. `usages` gets the tokens of each answer
    whose server counts them, as a `Completion` has them.
    """
    turns = session.coworker_turns()
    if not turns:
        return 0
    for turn in turns:
        completion = _completion(turn, model, timeout_s)
        if usages is not None and completion.usage is not None:
            usages.append(completion.usage)
        status = session.coworker_reply(turn["coworker"], completion.message["content"])
        if status is not None and status >= 400:
            raise CoworkerFailed(
                f"the environment refused {turn['coworker']}'s answer with status {status} "
                f"(written by {model.model} at {model.base_url}); see the environment's log"
            )
    return len(turns)


def _completion(turn: CoworkerTurn, model: CoworkerModel, timeout_s: float) -> Completion:
    """The model's answer in the coworker's place, which has text."""
    params = {} if model.temperature is None else {"temperature": model.temperature}
    try:
        with ChatClient(
            model.base_url, model.model, model.api_key, params=params, timeout_s=timeout_s, total_s=timeout_s
        ) as client:
            completion = client.complete(turn["messages"])
    except MiroirError as error:
        raise CoworkerFailed(
            f"{turn['coworker']} got no answer from {model.model} at {model.base_url}: {error.message}"
        ) from error
    if not completion.message["content"].strip():
        raise CoworkerFailed(
            f"{model.model} at {model.base_url} answered for {turn['coworker']} without a word; "
            "choose a model that writes text"
        )
    return completion


def answerable(tasks: Sequence[Task], coworkers: bool) -> list[Task]:
    """The tasks that can be played: all with a coworker model, else those whose coworkers, if any, are scripted.

    One UserWarning counts the tasks that are left out.
    """
    if coworkers:
        return tasks if isinstance(tasks, list) else list(tasks)
    kept = [task for task in tasks if not task.get("coworkers") or task.get("coworkers_scripted")]
    left_out = len(tasks) - len(kept)
    if left_out:
        warnings.warn(
            f"{left_out} of {len(tasks)} tasks are left out: their coworkers need a model; pass one to play them",
            UserWarning,
            stacklevel=2,
        )
    return kept
