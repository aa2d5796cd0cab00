"""Many episodes over a fleet: every task k times, and what has a graded record already left alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from .. import catalog
from ..agents import Agent
from ..coworkers import CoworkerModel, answerable
from ..deadlines import Deadlines
from ..errors import InvalidArgument
from ..fleet import Fleet
from ..records import load, writable
from ..rest import secret_from
from ..urls import Source, Urls
from ..wire import Task
from .crew import Crew
from .jobs import Done, chosen, done_key, record_key, remaining, rollouts, with_options
from .offer import Offer
from .report import Progress, Report
from .workers import Errand, Workers

# What of earlier records matters: their keys' parts, and what is counted.
_KEPT = ("task_id", "split", "metadata", "task", "trial", "surface", "max_seconds", "agent", "reward")


def run(
    urls: Urls,
    out: str | os.PathLike[str],
    agent: Agent,
    *,
    token: str | None = None,
    token_env: str | None = None,
    splits: Sequence[str] = ("train",),
    tasks: Sequence[Task] | None = None,
    task_ids: Sequence[str] = (),
    reset_fields: Mapping[str, str] | None = None,
    narrow: Callable[[list[Task]], list[Task]] | None = None,
    k: int = 1,
    concurrency: int = 32,
    retries: int = 2,
    surface: str | None = None,
    max_seconds: int | None = None,
    coworker_model: CoworkerModel | None = None,
    shard: tuple[int, int] | None = None,
    wait_s: float = 10.0,
    deadlines: Deadlines | None = None,
    progress: Callable[[Progress], object] | None = None,
    executor: Executor | None = None,
) -> Report:
    """Play every task `k` times and save each episode's record in the folder `out`.

    `tasks` takes the place of the splits' own; `task_ids` and `narrow` (such as `calibrated`) choose among them.
    `reset_fields` names fields of a task that are options of its reset, each with the option's name.
    What has a graded record in `out` already (same task, hash, trial and agent) is not played again; a void episode
    is, up to `retries` times. `progress` is called in this thread, as episodes end. KeyboardInterrupt lets running
    episodes finish, or abandons them within 10 s, and is raised again; a second one ends at once.

    With an `executor` its workers play, `concurrency` episodes at most at a time, and records are saved here. The agent
    is pickled for them; the fleet's token is not, and is read there from the variable that `token_env` names.
    """
    token = _token(token, token_env, executor)
    _check_agent(agent)
    _check(k, concurrency, retries, max_seconds, shard)
    folder = writable(out)
    limits = deadlines or Deadlines()
    with Fleet(urls, token, deadlines=limits) as fleet:
        url = catalog.first_alive(Source.of(urls).read(), token, wait_s=wait_s)
        offer = Offer.of(url, token, surface)
        setting = offer.setting(surface, max_seconds, coworker_model, limits)
        listed = with_options(list(tasks) if tasks is not None else offer.tasks(splits), reset_fields or {})
        wanted = rollouts(_playable(listed, task_ids, narrow, coworker_model is not None), k, shard)
        keys = [done_key(task, trial, surface, max_seconds, agent) for task, trial in wanted]
        earlier = _earlier(folder, set(keys))
        jobs = remaining(wanted, keys, earlier)
        report = Report(earlier=len(wanted) - len(jobs))
        for record in earlier:
            report.add(record)
        workers = None if executor is None else Workers(executor, Errand(urls, token_env, agent, setting, limits))
        Crew(fleet, agent, setting, folder, jobs, retries, report, workers).play(concurrency, progress)
        report.stats = fleet.stats()
        return report


def _token(token: str | None, token_env: str | None, executor: Executor | None) -> str | None:
    """The fleet's token; InvalidArgument where it would have to travel by value, or is given twice."""
    if token is not None and (executor is not None or token_env is not None):
        raise InvalidArgument("the token travels to no worker; put it into a variable, and name that as token_env")
    return token if token_env is None else secret_from(token_env)


def _check_agent(agent: object) -> None:
    if not hasattr(agent, "play"):
        raise InvalidArgument(
            f"the agent is a {type(agent).__name__}; pass load_agent('module:function') or ChatAgent of miroir.agents"
        )


def _check(k: int, concurrency: int, retries: int, max_seconds: int | None, shard: tuple[int, int] | None) -> None:
    if k < 1 or concurrency < 1 or retries < 0:
        raise InvalidArgument("k and concurrency must be at least 1, retries at least 0; correct the numbers")
    if max_seconds is not None and max_seconds < 1:
        raise InvalidArgument(f"an episode of {max_seconds} s is none; give it at least one second")
    if shard is not None and not 0 <= shard[0] < shard[1]:
        raise InvalidArgument(f"the shard {shard[0]}/{shard[1]} is none; write i/n with i from 0 to n-1")


def _playable(
    listed: list[Task], task_ids: Sequence[str], narrow: Callable[[list[Task]], list[Task]] | None, coworkers: bool
) -> list[Task]:
    """The tasks that are chosen among the listed ones, and can be played; InvalidArgument when there is none."""
    listed = chosen(listed, task_ids) if task_ids else listed
    listed = narrow(listed) if narrow is not None else listed
    playable = answerable(listed, coworkers)
    if not playable:
        raise InvalidArgument("there is no task to play; name another split, or a coworker model")
    return playable


def _earlier(folder: Path, keys: Collection[Done]) -> list[dict[str, Any]]:
    """What matters of the folder's records of these rollouts: every void one, and the first graded one of each."""
    kept = []
    graded = set()
    for record in load([folder]):
        key = record_key(record)
        if key not in keys or key in graded:
            continue
        if record.get("reward") is not None:
            graded.add(key)
        kept.append({name: record[name] for name in _KEPT if name in record})
    return kept
