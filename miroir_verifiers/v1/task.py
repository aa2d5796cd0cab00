"""A task of a fleet: its setup begins an episode, its finalizer grades it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Self, cast

import verifiers.v1 as vf
from pydantic import PrivateAttr

from miroir.agents import Played
from miroir.errors import EnvError, MiroirError
from miroir.records import metrics
from miroir.wire import Record, Task

from .. import conversation
from ..cancelling import waited
from ..preset import measured
from ..rollout import Rollout, Seat, Voided
from ..threads import threads
from .config import MiroirTaskConfig


class MiroirTaskData(vf.TaskData):
    """A task as the fleet lists it. Nothing in it is of today, so that a run can be resumed tomorrow."""

    row: dict[str, Any] = {}


class MiroirState(vf.State):
    """The rollout, which no other process can have."""

    _rollout: Rollout | None = PrivateAttr(None)


class MiroirTask(vf.Task[MiroirTaskData, MiroirState, MiroirTaskConfig]):
    """One episode. Miroir's environment makes it its own (`owned`), and releases what it leased."""

    _rollouts: list[Rollout] | None = None  # of this task's owner, if it has one

    @property
    def key(self) -> str:
        """The environment's own id, which the task keeps when others are listed before it."""
        return self.data.id or self.hash

    @property
    def row(self) -> Task:
        """The task as the environment lists it."""
        return cast("Task", self.data.row)

    def owned(self) -> Self:
        """A copy of which no other rollout has the leases."""
        task = self.with_data()
        task._rollouts = []
        return task

    async def release(self) -> None:
        """Free what was leased, whatever waits for it, and however often this is cancelled."""
        await threads.outlast(partial(_close, list(self._rollouts or ())))

    async def setup(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        """Lease a container and reset it; SandboxError where none can be had, VOID where none can be reset."""
        await self.release()  # what an attempt before this one had
        settings = await threads.call(self.config.settings)
        rollout = Rollout(self.row, settings)
        trace.state._rollout = rollout
        if self._rollouts is not None:
            self._rollouts.append(rollout)
        await _told(trace, rollout, rollout.begin)

    async def finalize(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        """Grade the episode, save its record and free its container; SandboxError, VOID, where it has no grade."""
        rollout_of(trace).halt()  # a call that its harness left behind
        await conclude(trace)

    @vf.stop
    async def episode_over(self, trace: vf.Trace) -> bool:
        """Whether there is nothing more to play: the environment has ended the episode, or it is lost."""
        rollout = rollout_of(trace)
        return rollout.done or rollout.failure is not None

    @vf.reward
    async def miroir(self, trace: vf.Trace) -> Mapping[str, float]:
        """The environment's reward, and the preset's own."""
        record = _graded(trace)
        assert record["reward"] is not None
        return {"miroir": record["reward"], **measured(rollout_of(trace).settings.rewards, record)}

    @vf.metric
    async def numbers(self, trace: vf.Trace) -> Mapping[str, float]:
        """What the environment measured, and the preset."""
        record = _graded(trace)
        return {**metrics(record), **measured(rollout_of(trace).settings.metrics, record)}

    async def validate(self, runtime: vf.Runtime) -> bool:
        """Whether the task can be reset, submitted at once, and graded."""
        settings = await threads.call(self.config.settings)
        rollout = Rollout(self.row, replace(settings, traces=None))
        try:
            await waited(rollout, rollout.begin)
            await waited(rollout, rollout.conclude)
        except Voided:
            return False
        finally:
            await threads.outlast(rollout.close)
        return True


def rollout_of(trace: vf.Trace) -> Rollout:
    """The trace's rollout; SandboxError where its setup was stopped before there was one."""
    rollout: Rollout | None = trace.state._rollout
    if rollout is None:
        raise vf.SandboxError("VOID: the rollout was stopped before its episode began; give its setup more time")
    return rollout


async def conclude(trace: vf.Trace) -> None:
    """Have the trace's episode graded, or its void record made, and its container freed; SandboxError for no grade."""
    rollout = rollout_of(trace)
    try:
        await _told(trace, rollout, lambda: rollout.conclude(_seat(trace), _played(trace)))
    finally:
        trace.extra_usage += [_usage(counted) for counted in rollout.coworker_usages]


def _close(rollouts: Iterable[Rollout]) -> None:
    for rollout in rollouts:
        rollout.close()


async def _told(trace: vf.Trace, rollout: Rollout, call: Callable[[], object]) -> None:
    """Make a blocking call of the rollout and note its outcome in the trace; SandboxError unless the task is wrong."""
    try:
        await waited(rollout, call)
    except MiroirError as error:
        if isinstance(error, ValueError | EnvError):  # what was asked for cannot be; verifiers blames the task
            raise
        raise vf.SandboxError(str(error)) from error
    finally:
        trace.info["miroir"] = rollout.info


def _graded(trace: vf.Trace) -> Record:
    """The episode's record; SandboxError where none came in time, so that nobody takes that for a reward of 0."""
    record = rollout_of(trace).record
    if record is None or record["reward"] is None:
        raise vf.SandboxError("VOID: the episode's grade did not come in time; give its finalizing more time")
    return record


def _usage(counted: Mapping[str, int]) -> vf.Usage:
    return vf.Usage(**{"prompt_tokens": 0, "completion_tokens": 0, **counted})


def _seat(trace: vf.Trace) -> Seat:
    """Who played: the harness, if any did, the model and its sampling."""
    config = trace.agent.config
    sampling = config.sampling.model_dump(exclude_none=True) if config.sampling else {}
    return Seat(f"verifiers/{config.harness.name}" if config.harness else "verifiers", config.model, sampling)


def _played(trace: vf.Trace) -> Played:
    """What was said in the rollout's last branch, and the tokens that it cost."""
    branch = trace.branches[-1] if trace.branches else None
    if branch is None:
        return {"messages": [], "usage": {}, "params": {}}
    usage = branch.usage
    spent = {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.completion_tokens} if usage else {}
    return {"messages": conversation.messages(branch.messages), "usage": spent, "params": {}}
