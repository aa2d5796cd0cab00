"""What all tasks say together, with intervals that know that a task's rollouts go together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from statistics import fmean
from typing import Any

from ..stats import bootstrap, clustered, clustered_rate, mixed, pass_at, pass_hat
from .entries import is_sure, reward_counts, rollouts_to_settle
from .tallies import Tally

Estimate = dict[str, Any]  # mean, low and high, and how many tasks it is over
Score = Callable[[int, int, int], float | None]


def suite(tallies: Mapping[str, Tally], classes: Mapping[str, str | None], k: int, group: int) -> dict[str, Any]:
    """The suite's numbers: means clustered by task, pass@k and pass^k over tasks with k rollouts, rates, useful groups.

    `pass@` and `pass^` hold the means at 1 to k, over the same tasks; an interval is None where it cannot be told.
    """
    every = list(tallies.values())
    graded = [tally for tally in every if tally.rewards]
    unsure = {
        task_id: rollouts_to_settle(tally, classes[task_id])
        for task_id, tally in tallies.items()
        if not is_sure(classes[task_id], len(tally.rewards), tally.successes)
    }
    groups = _known(mixed(reward_counts(tally.rewards), group) for tally in graded)
    return {
        **_counts(every),
        "reward": _reward([tally.rewards for tally in graded]),
        "pass@1": _rate([_outcomes(tally) for tally in graded]),
        "pass@k": _rate([[value] for value in _scores(graded, pass_at, k)]),
        "pass^k": _resampled(_scores(graded, pass_hat, k)),
        "pass@": _curve(graded, pass_at, k),
        "pass^": _curve(graded, pass_hat, k),
        "mixed@G": fmean(groups) if groups else None,
        "useful_groups_per_100": 100 * fmean(groups) if groups else None,
        "unsure": len(unsure),
        "rollouts_to_settle": sum(unsure.values()),
    }


def _counts(every: list[Tally]) -> dict[str, Any]:
    """Rollouts, void and harmful ones.

    `pass@1_void_bounds` is pass@1 had all void rollouts failed, and had all succeeded: Manski 1990, American Economic
    Review 80(2), 319-323, for outcomes that may be missing for any reason.
    """
    n, void = sum(len(tally.rewards) for tally in every), sum(tally.void for tally in every)
    succeeded = sum(tally.successes for tally in every)
    harmed = sum(tally.harmed for tally in every)
    harmed_all = harmed + sum(tally.harmed_void for tally in every)
    return {
        "tasks": len(every),
        "rollouts": n,
        "void": void,
        "void_rate": void / (n + void),
        "pass@1_void_bounds": [succeeded / (n + void), (succeeded + void) / (n + void)],
        "harm_rate": harmed / n,
        "harm_rate_all": harmed_all / (n + void),
    }


def _outcomes(tally: Tally) -> list[float]:
    return [1.0] * tally.successes + [0.0] * (len(tally.rewards) - tally.successes)


def _reward(groups: list[list[float]]) -> Estimate:
    """The mean reward; a rate where rewards are 0 and 1."""
    if all(reward in (0, 1) for group in groups for reward in group):
        return _rate(groups)
    return {**clustered(groups)._asdict(), "tasks": len(groups)}


def _rate(groups: list[list[float]]) -> Estimate:
    return {**clustered_rate(groups)._asdict(), "tasks": len(groups)}


def _resampled(values: list[float]) -> Estimate:
    """The mean with the bootstrap's interval, where the values differ so that it has one."""
    mean, error, low, high = clustered_rate([value] for value in values)
    if error:
        low, high = bootstrap(values)
    return {"mean": mean, "low": low, "high": high, "tasks": len(values)}


def _curve(graded: list[Tally], score: Score, k: int) -> dict[str, float]:
    """The mean score at 1 to k, over the tasks that have k rollouts; those of the same counts are scored once."""
    counts = Counter((len(tally.rewards), tally.successes) for tally in graded if len(tally.rewards) >= k)
    return {
        str(size): sum((score(n, c, size) or 0.0) * tasks for (n, c), tasks in counts.items()) / counts.total()
        for size in range(1, k + 1)
    }


def _scores(graded: list[Tally], score: Score, k: int) -> list[float]:
    """The score of each task that has k rollouts."""
    return _known(score(len(tally.rewards), tally.successes, k) for tally in graded)


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
