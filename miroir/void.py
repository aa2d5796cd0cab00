"""What makes an episode void, whether it is worth playing again, and the record that it leaves. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime

from .errors import ConnectionLost, ContextFull, CoworkerFailed, EnvError, MiroirError, ModelError, StepTimeout
from .session.journal import StepEntry, client_record
from .wire import EPISODE_OVER, EXECUTION_ERROR, SUBMIT, Record, Task

LOST, ENV_ERROR, AGENT_ERROR = "lost", "env_error", "agent_error"


def gradable(error: BaseException | None) -> bool:
    """Whether an episode is graded as it stands although its agent let this error through."""
    over = isinstance(error, EnvError) and error.code in (EXECUTION_ERROR, EPISODE_OVER)
    return error is None or over or isinstance(error, ContextFull)


def ending(fault: BaseException, *, agents: bool) -> str:
    """How a record says that the episode ended; `agents` for a fault that the agent raised, not the session."""
    if isinstance(fault, ConnectionLost | StepTimeout):
        return LOST
    return AGENT_ERROR if agents and not isinstance(fault, CoworkerFailed) else ENV_ERROR


def worth_again(record: Record, fault: BaseException | None) -> bool:
    """Whether a void episode is worth playing again.

    It is not after a fault of an endpoint that no retry mends, such as a refused key, nor after another fault of the
    agent, nor where the agent ended a plain server's episode before there was a reward.
    """
    endpoint = fault.__cause__ if isinstance(fault, CoworkerFailed) else fault
    if isinstance(endpoint, ModelError):
        return endpoint.retryable
    ended_by = record["metadata"]["ended_by"]
    left = record.get("made_by") == "client" and fault is None and ended_by == SUBMIT
    return ended_by != AGENT_ERROR and not left


def blame(record: Record, fault: BaseException | None) -> str:
    """Why the episode's container should be left alone for a while; "" when it is not its fault.

    Otherwise a container whose episodes fail at once would always be the first to be free, and soon get them all.
    """
    metadata = record["metadata"]
    if record["reward"] is not None or isinstance(fault, CoworkerFailed):
        return ""
    if metadata["ended_by"] not in (LOST, ENV_ERROR):
        return ""
    return f"an episode on it became void: {metadata['void_reason']}"


def void_record(
    task: Task,
    fault: BaseException,
    ended_by: str,
    *,
    episode_id: str | None,
    env: Mapping[str, str],
    steps: Sequence[StepEntry],
    started_at: datetime,
    episode_s: float,
) -> Record:
    """The record of an episode that no server could grade, with the steps that its client saw."""
    return client_record(
        task,
        episode_id=episode_id or uuid.uuid4().hex,
        env=env,
        reward=None,
        success=False,
        ended_by=ended_by,
        void_reason=_words(fault),
        steps=steps,
        started_at=started_at,
        episode_s=episode_s,
    )


def _words(fault: BaseException) -> str:
    return str(fault) if isinstance(fault, MiroirError) else f"{type(fault).__name__}: {fault}".removesuffix(": ")
