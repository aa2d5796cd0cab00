"""Many episodes over a fleet: every task k times, and what has a graded record already left alone."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import catalog
from .agents import Agent
from .coworkers import CoworkerModel, answerable
from .crew import Crew, Progress, SplitTotals
from .deadlines import Deadlines
from .episode import Setting
from .errors import InvalidArgument, RecordError
from .fleet import Fleet
from .jobs import Done, chosen, done_key, remaining, rollouts
from .records import load
from .urls import Source, Urls
from .wire import Task


@dataclass(frozen=True)
class Report:
    """What a run did: its episodes by split, those that were done before, and those that are still void."""

    splits: Mapping[str, SplitTotals]
    earlier: int
    unfinished: int
    stats: Mapping[str, Any]

    def table(self) -> str:
        """The splits as a text table."""
        rows = [("split", "tasks", "graded", "success", "reward", "harm", "void")]
        for name, totals in sorted(self.splits.items()):
            n = totals.graded
            rows.append(
                (
                    name,
                    str(len(totals.tasks)),
                    str(n),
                    f"{totals.successes / n:.2f}" if n else "-",
                    f"{totals.rewards / n:.2f}" if n else "-",
                    f"{totals.harmful / n:.2f}" if n else "-",
                    str(totals.void),
                )
            )
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        return "\n".join(
            "  ".join(
                cell.rjust(width) if i else cell.ljust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in rows
        )


def run(
    urls: Urls,
    out: str | os.PathLike[str],
    agent: Agent,
    *,
    token: str | None = None,
    splits: Sequence[str] = ("train",),
    tasks: Sequence[Task] | None = None,
    task_ids: Sequence[str] = (),
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
) -> Report:
    """Play every task `k` times and save each episode's record in the folder `out`.

    `tasks` takes the place of the splits' own; `task_ids` and `narrow` (such as `calibrated`) choose among them.
    What has a graded record in `out` already (same task, hash, trial and agent) is not played again; a void episode
    is, up to `retries` times. `progress` is called after each episode. KeyboardInterrupt lets running episodes finish,
    or abandons them within 10 s, and is raised again.
    """
    _check(k, concurrency, retries, shard)
    folder = _writable(out)
    with Fleet(urls, token, deadlines=deadlines) as fleet:
        url = catalog.first_alive(Source.of(urls).read(), token, wait_s=wait_s)
        setting = Setting(
            tools=catalog.tools(url, token, surface),
            env=catalog.environment(url, token),
            surface=surface,
            max_seconds=max_seconds,
            coworker_model=coworker_model,
        )
        listed = list(tasks) if tasks is not None else _listed(url, token, splits)
        if task_ids:
            listed = chosen(listed, task_ids)
        if narrow is not None:
            listed = narrow(listed)
        playable = answerable(listed, coworker_model is not None)
        if not playable:
            raise InvalidArgument("there is no task to play; name another split, or a coworker model")
        wanted = rollouts(playable, k, shard)
        keys = [done_key(task, trial, surface, max_seconds, agent) for task, trial in wanted]
        jobs = remaining(wanted, keys, _records(folder, keys))
        crew = Crew(fleet, agent, setting, folder, jobs, retries, progress)
        crew.work(concurrency)
        return Report(crew.splits, len(wanted) - len(jobs), crew.unfinished, fleet.stats())


def _check(k: int, concurrency: int, retries: int, shard: tuple[int, int] | None) -> None:
    if k < 1 or concurrency < 1 or retries < 0:
        raise InvalidArgument("k and concurrency must be at least 1, retries at least 0; correct the numbers")
    if shard is not None and not 0 <= shard[0] < shard[1]:
        raise InvalidArgument(f"the shard {shard[0]}/{shard[1]} is none; write i/n with i from 0 to n-1")


def _writable(out: str | os.PathLike[str]) -> Path:
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".writable-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise RecordError(
            f"{folder} cannot hold records ({error.strerror}); name a folder that can be written"
        ) from error
    return folder


def _listed(url: str, token: str | None, splits: Sequence[str]) -> list[Task]:
    return [
        {**task, "split": task.get("split") or split} for split in splits for task in catalog.tasks(url, split, token)
    ]


def _records(folder: Path, keys: Sequence[Done]) -> list[dict[str, Any]]:
    """What of the folder's records matters for these rollouts: their keys' parts and the reward."""
    wanted = {key.task_id for key in keys}
    kept = ("task_id", "metadata", "trial", "surface", "max_seconds", "agent", "reward")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a torn tail is what a killed run leaves
        return [
            {name: record.get(name) for name in kept if name in record}
            for record in load([folder])
            if record.get("task_id") in wanted
        ]
