"""What a task's rollouts say: its class, how sure that is, and its numbers."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from statistics import fmean, median
from typing import Any

from ..stats import clopper_pearson, mixed, pass_at, pass_hat, wilson
from .tallies import Tally

SOLVED, LEARNABLE, OUT_OF_REACH = CLASSES = ("solved", "learnable", "out_of_reach")

SAME = 1e-9  # rewards that differ by no more are equal
SURE_SOLVED = 0.75  # the least lower bound of a success rate that is surely solved
SURE_OUT_OF_REACH = 0.25  # the largest upper bound of one that is surely out of reach
HARD, EASY = 0.25, 0.75  # mean rewards up to and above which a task is hard and easy, as in prime-rl's pools
MOST_ROLLOUTS = 10_000


def classify(tally: Tally) -> str | None:
    """The task's class: learnable when rewards differ, else solved when all succeeded; None under two rollouts."""
    if len(tally.rewards) < 2:
        return None
    if max(tally.rewards) - min(tally.rewards) > SAME:
        return LEARNABLE
    return SOLVED if tally.successes == len(tally.rewards) else OUT_OF_REACH


def entry(tally: Tally, kind: str | None, k: int, group: int | None = None) -> dict[str, Any]:
    """The task's entry in a calibration file: `kind` is its class, `group` the group size of `mixed@G` (default k).

    What cannot be known from its n rollouts is None: pass@k, pass^k and mixed@G where n is smaller, all where n is 0.
    """
    rewards, n = tally.rewards, len(tally.rewards)
    mean = fmean(rewards) if n else None
    return {
        "task_hash": tally.task_hash,
        "class": kind,
        "sure": is_sure(kind, n, tally.successes),
        "difficulty": None if mean is None else "hard" if mean <= HARD else "normal" if mean <= EASY else "easy",
        "rollouts": n,
        "void": tally.void,
        "void_by": dict(sorted(tally.void_by.items())),
        "successes": tally.successes,
        "pass@1": tally.successes / n if n else None,
        "pass@1_interval": list(wilson(n, tally.successes)) if n else None,
        "pass@k": pass_at(n, tally.successes, k),
        "pass^k": pass_hat(n, tally.successes, k),
        "mixed@G": mixed(reward_counts(rewards), group or k),
        "reward_mean": mean,
        "reward_variance": None if mean is None else fmean((reward - mean) ** 2 for reward in rewards),
        "reward_min": min(rewards, default=None),
        "reward_max": max(rewards, default=None),
        "harm_rate": tally.harmed / n if n else None,
        "harm_rate_all": (tally.harmed + tally.harmed_void) / (n + tally.void) if n + tally.void else None,
        "episode_s": median(tally.seconds) if tally.seconds else None,
        "steps": median(tally.steps) if tally.steps else None,
        "tokens": median(tally.tokens) if tally.tokens else None,
    }


def reward_counts(rewards: Sequence[float]) -> list[int]:
    """How many rollouts had each distinct reward; those within `SAME` of the least one of a kind are of that kind."""
    counts: list[int] = []
    least = -math.inf
    for reward in sorted(rewards):
        if reward - least > SAME:
            counts.append(0)
            least = reward
        counts[-1] += 1
    return counts


def is_sure(kind: str | None, n: int, c: int) -> bool:
    """Whether c successes of n settle the class at 95 % (Clopper-Pearson); two different rewards always do."""
    if kind == SOLVED:
        return clopper_pearson(n, c)[0] >= SURE_SOLVED
    if kind == OUT_OF_REACH:
        return clopper_pearson(n, c)[1] <= SURE_OUT_OF_REACH
    return kind == LEARNABLE


def rollouts_to_settle(tally: Tally, kind: str | None) -> int:
    """How many more rollouts would settle an unsure task if all of them agree; one that does not settles it at once."""
    n, c = len(tally.rewards), tally.successes
    kind = kind or (SOLVED if c == n else OUT_OF_REACH)
    wins = kind == SOLVED
    return bisect_left(range(MOST_ROLLOUTS), True, key=lambda more: is_sure(kind, n + more, c + more * wins))
