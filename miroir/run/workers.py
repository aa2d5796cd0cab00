"""Episodes played by the workers of an executor: Dask's, Ray's, MPI's, or Python's own processes."""

from __future__ import annotations

import os
import pickle
import threading
import traceback
import uuid
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, wait
from dataclasses import dataclass, replace
from pathlib import Path

from ..agents import Agent
from ..deadlines import Deadlines
from ..episode import Ended, Episode, Setting, play
from ..errors import ConnectionLost, InvalidArgument, MiroirError, NoFreeContainer
from ..fleet import Fleet
from ..rest import secret_from
from ..session import Session
from ..urls import Urls
from .jobs import Job

LEASE_S = 600.0
_TICK_S = 0.2


@dataclass(frozen=True)
class Errand:
    """What every worker is sent; `token_env` is the name of the variable that holds the fleet's token there."""

    urls: Urls
    token_env: str | None
    agent: Agent
    setting: Setting
    deadlines: Deadlines


class Workers:
    """Has an executor's workers play, each leasing for itself; they can import miroir, and see the containers."""

    def __init__(self, executor: Executor, errand: Errand) -> None:
        if isinstance(errand.urls, os.PathLike):  # workers stand in other directories
            errand = replace(errand, urls=Path(errand.urls).resolve())
        try:
            pickle.dumps(errand)
        except Exception as error:
            raise InvalidArgument(
                f"the run cannot be sent to workers ({error}); pass an agent that pickles,"
                " such as load_agent('module:function')"
            ) from error
        self._executor = executor
        self._errand = errand

    def play(self, job: Job, abandoned: Callable[[], bool]) -> Ended:
        """Have a worker play the job; void where the worker was lost. MiroirError when no worker can play any more."""
        try:
            # The random id is all that differs between two runs: Dask would give the earlier one's result again.
            future = self._executor.submit(_play, self._errand, job, uuid.uuid4().hex)
            while not wait([future], timeout=_TICK_S).done:
                if abandoned():
                    future.cancel()
                    raise MiroirError("RUN", "the run was stopped before the episode ended")
            ended, answered = future.result()
        except MiroirError:
            raise
        except BrokenExecutor as error:
            raise MiroirError("RUN", f"the executor is broken ({error}); make another, and run again") from error
        except Exception as error:
            return self._lost(job, error)
        client = getattr(self._errand.agent, "client", None)
        if client is not None and answered:
            client.answered = True
        return ended

    def _lost(self, job: Job, error: Exception) -> Ended:
        episode = Episode(job.task, self._errand.setting, trial=job.trial, attempt=job.attempt)
        episode.fault = ConnectionLost(f"the worker was lost that played it: {type(error).__name__}: {error}")
        return episode.conclude(self._errand.agent)


def patient(lease: Callable[..., Session], given_up: Callable[[], bool]) -> Session:
    """A session as soon as a container is free, without a limit while any is alive; else NoFreeContainer."""
    while True:
        try:
            return lease(timeout_s=LEASE_S)
        except NoFreeContainer as error:
            dead = error.unhealthy + error.refused > 0 and not error.leased
            if dead or given_up():
                raise


def _play(errand: Errand, job: Job, _nonce: str) -> tuple[Ended, bool]:
    """What a worker does: the episode's end, and whether the agent's endpoint has ever answered here."""
    fleet = _fleet(errand)
    ended = play(
        lambda: patient(fleet.lease, lambda: False),
        errand.agent,
        job.task,
        errand.setting,
        trial=job.trial,
        attempt=job.attempt,
    )
    client = getattr(errand.agent, "client", None)
    return ended._replace(fault=_portable(ended.fault)), bool(client is not None and client.answered)


def _portable(fault: BaseException | None) -> BaseException | None:
    """The fault as another process can read it: one that is not miroir's own need not be known there."""
    if fault is None or isinstance(fault, MiroirError):
        return fault
    return RuntimeError("".join(traceback.format_exception(fault)))


_fleets: dict[tuple[str, ...], Fleet] = {}
_fleets_lock = threading.Lock()  # guards the table


def _fleet(errand: Errand) -> Fleet:
    """The fleet of this process for such errands; it lives as long as the process."""
    urls = errand.urls
    listed = (str(urls),) if isinstance(urls, str | os.PathLike) else tuple(urls)
    key = (str(os.getpid()), str(errand.token_env), repr(errand.deadlines), *listed)
    with _fleets_lock:
        if key not in _fleets:
            _fleets[key] = Fleet(urls, secret_from(errand.token_env), deadlines=errand.deadlines)
        return _fleets[key]
