"""Statistics of repeated rollouts: pass@k, pass^k, intervals, paired tests and sample sizes. Standard library only.

Throughout, a task has `n` graded rollouts of which `c` succeeded, and `level` is the coverage of a two-sided interval.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from functools import lru_cache
from statistics import NormalDist, fmean
from typing import NamedTuple

from .errors import InvalidArgument

LEVEL = 0.95
FLAT = 1e-7  # a standard error that is no larger is none, but for rounding
LEAST_DRAWS = 200  # resamples of a bootstrap over many tasks; over few, where an end is less smooth, there are more

Interval = tuple[float, float]


class Estimate(NamedTuple):
    """A mean, its standard error, and the ends of its interval; all but the mean None where the values tell none."""

    mean: float
    error: float | None
    low: float | None
    high: float | None


def pass_at(n: int, c: int, k: int) -> float | None:
    """The chance that at least one of k rollouts succeeds, 1 - C(n-c, k) / C(n, k); None where n < k.

    Source: Chen et al. 2021, "Evaluating Large Language Models Trained on Code" (arXiv 2107.03374), equation 1.
    """
    _check_counts(n, c, k)
    if n < k:
        return None
    ways = math.comb(n, k)
    return (ways - math.comb(n - c, k)) / ways


def pass_hat(n: int, c: int, k: int) -> float | None:
    """The chance that all of k rollouts succeed, pass^k = C(c, k) / C(n, k); None where n < k.

    Source: Yao et al. 2024, "tau-bench" (arXiv 2406.12045).
    """
    _check_counts(n, c, k)
    return math.comb(c, k) / math.comb(n, k) if n >= k else None


def mixed(counts: Sequence[int], k: int) -> float | None:
    """The chance that k rollouts do not all have the same reward, 1 - sum C(m, k) / C(n, k); None where n < k.

    `counts` holds how many rollouts had each distinct reward, and n is their sum. With two rewards it is
    pass@k - pass^k. A group of equal rewards has no advantage: Shao et al. 2024, GRPO (arXiv 2402.03300), section 4.1;
    Yu et al. 2025, DAPO (arXiv 2503.14476), section 3.2.
    """
    n = sum(counts)
    _check_counts(n, min(counts, default=0), k)
    if n < k:
        return None
    ways = math.comb(n, k)
    return (ways - sum(math.comb(count, k) for count in counts)) / ways


@lru_cache(maxsize=4096)
def wilson(n: int, c: int, level: float = LEVEL) -> Interval:
    """The score interval of a success rate. Source: Wilson 1927, JASA 22(158), 209-212."""
    _check_counts(n, c, 1)
    if n == 0:
        return 0.0, 1.0
    z = _normal(level)
    rate, spread = c / n, z * z / n
    middle = (rate + spread / 2) / (1 + spread)
    half = z * math.sqrt(rate * (1 - rate) / n + spread / (4 * n)) / (1 + spread)
    return (0.0 if c == 0 else middle - half), (1.0 if c == n else middle + half)


@lru_cache(maxsize=4096)
def clopper_pearson(n: int, c: float, level: float = LEVEL) -> Interval:
    """The exact interval of a success rate. Source: Clopper and Pearson 1934, Biometrika 26(4), 404-413.

    `c` may be a fraction, where n is a number of observations that others are worth.
    """
    _check_counts(n, c, 1)
    tail = _tail(level)
    low = 0.0 if c == 0 else beta_quantile(tail, c, n - c + 1)
    high = 1.0 if c == n else beta_quantile(1 - tail, c + 1, n - c)
    return low, high


def credible(n: int, c: int, level: float = LEVEL) -> Interval:
    """The equal-tailed posterior interval of a success rate under a uniform prior.

    Source: Bayes 1763; Bowyer et al. 2025 (arXiv 2503.01747) recommend it for evaluations of few questions.
    """
    _check_counts(n, c, 1)
    tail = _tail(level)
    return beta_quantile(tail, c + 1, n - c + 1), beta_quantile(1 - tail, c + 1, n - c + 1)


def clustered(clusters: Iterable[Sequence[float]], level: float = LEVEL) -> Estimate:
    """The mean over all values, with the standard error of values that go together in clusters (a task's rollouts).

    error = sqrt(C / (C-1) * sum over clusters of (sum of deviations)^2) / N, and a t interval of C - 1 degrees of
    freedom. Source: Miller 2024, "Adding Error Bars to Evals" (arXiv 2411.00640), section 2.2, with the small-sample
    factor C / (C-1) of Cameron and Miller 2015, J. Human Resources 50(2), 317-372.
    """
    groups = [group for group in clusters if group]
    count = sum(map(len, groups))
    if not count:
        raise InvalidArgument("a mean needs at least one value; give graded rollouts")
    mean = math.fsum(value for group in groups for value in group) / count
    if len(groups) < 2:
        return Estimate(mean, None, None, None)
    squares = math.fsum(math.fsum(value - mean for value in group) ** 2 for group in groups)
    error = math.sqrt(len(groups) / (len(groups) - 1) * squares) / count
    half = t_quantile(1 - _tail(level), len(groups) - 1) * error
    return Estimate(mean, error, mean - half, mean + half)


def clustered_rate(clusters: Iterable[Sequence[float]], level: float = LEVEL) -> Estimate:
    """`clustered` of values from 0 to 1, whose mean is a rate: its interval ends there, and is never a point.

    Clusters of one mean show no spread, and few of them no certainty: the interval is then Clopper and Pearson's of as
    many observations as there are clusters. Source: Korn and Graubard 1998, Survey Methodology 24(2), 193-201, who put
    the effective number of observations into it; a cluster is worth at least one.
    """
    groups = [group for group in clusters if group]
    mean, error, low, high = clustered(groups, level)
    if error is None or low is None or high is None:
        return Estimate(mean, None, None, None)
    if error <= FLAT:
        return Estimate(mean, 0.0, *clopper_pearson(len(groups), len(groups) * mean, level))
    return Estimate(mean, error, max(0.0, low), min(1.0, high))


def paired(first: Sequence[float], second: Sequence[float], level: float = LEVEL) -> Estimate:
    """The mean of second - first over tasks that both played, each given by its mean, with a paired t interval.

    Source: Miller 2024 (arXiv 2411.00640), section 4.2: the standard error of question-level differences.
    """
    if len(first) != len(second):
        raise InvalidArgument(f"{len(first)} values cannot be paired with {len(second)}; give one of each for a task")
    return clustered(([b - a] for a, b in zip(first, second, strict=True)), level)


def bootstrap(values: Sequence[float], *, seed: int = 0, level: float = LEVEL) -> Interval:
    """The percentile interval of the mean of `values`, one a task, when tasks are drawn again with replacement.

    Source: Efron 1979, Annals of Statistics 7(1), 1-26; the percentile method of Efron 1981.
    """
    if not values:
        raise InvalidArgument("a bootstrap needs at least one value; give graded tasks")
    generator = random.Random(seed)
    draws = max(LEAST_DRAWS, 200_000 // len(values))
    means = sorted(fmean(generator.choices(values, k=len(values))) for _ in range(draws))
    cut = round(_tail(level) * draws)
    return means[cut], means[draws - 1 - cut]


def mcnemar(b: int, c: int) -> float:
    """The exact two-sided p of b tasks won by one side alone and c by the other, if each were a fair coin.

    Source: McNemar 1947, Psychometrika 12, 153-157, with the exact binomial tail.
    """
    if b < 0 or c < 0:
        raise InvalidArgument(f"discordant counts cannot be {b} and {c}; count from 0")
    tail = sum(math.comb(b + c, wins) for wins in range(min(b, c) + 1))
    return min(1.0, 2 * tail / (1 << (b + c)))


def kappa(table: Sequence[Sequence[int]], level: float = LEVEL) -> Estimate | None:
    """Agreement of two judges beyond chance, from a square table of counts; None where chance alone agrees always.

    Source: Cohen 1960, Educational and Psychological Measurement 20(1), 37-46; the standard error for large samples of
    Fleiss, Cohen and Everitt 1969, Psychological Bulletin 72(5), 323-327, equation 13. Where that vanishes, as at full
    agreement of any number, it says nothing of how sure the value is: there is no interval.
    """
    n = sum(map(sum, table))
    if not n:
        return None
    rows = [sum(row) / n for row in table]
    columns = [sum(column) / n for column in zip(*table, strict=True)]
    chance = sum(row * column for row, column in zip(rows, columns, strict=True))
    if chance == 1:
        return None
    value = (sum(table[i][i] for i in range(len(table))) / n - chance) / (1 - chance)
    agreeing = sum(table[i][i] / n * (1 - (rows[i] + columns[i]) * (1 - value)) ** 2 for i in range(len(table)))
    other = [(i, j) for i in range(len(table)) for j in range(len(table)) if i != j]
    differing = (1 - value) ** 2 * sum(table[i][j] / n * (columns[i] + rows[j]) ** 2 for i, j in other)
    variance = agreeing + differing - (value - chance * (1 - value)) ** 2
    error = math.sqrt(max(0.0, variance) / n) / (1 - chance)
    if error <= FLAT:
        return Estimate(value, None, None, None)
    half = _normal(level) * error
    return Estimate(value, error, max(-1.0, value - half), min(1.0, value + half))


def sample_size(
    difference: float, *, between: float, within: tuple[float, float] = (0.0, 0.0), k: int = 1, power: float = 0.8
) -> int:
    """How many tasks show a paired `difference` of means at `LEVEL` with the given power.

    `between` is the variance over tasks of the difference of means, `within` the two sides' mean variances of the
    rollouts of a task, `k` the rollouts of each side. Source: Miller 2024 (arXiv 2411.00640), section 5.
    """
    if not difference:
        raise InvalidArgument("no number of tasks shows a difference of 0; give another")
    return math.ceil(_power_factor(between, within, k, power) / difference**2)


def detectable(
    tasks: int, *, between: float, within: tuple[float, float] = (0.0, 0.0), k: int = 1, power: float = 0.8
) -> float:
    """The smallest paired difference of means that so many tasks show; `sample_size` solved for the difference."""
    if tasks < 1:
        raise InvalidArgument(f"{tasks} tasks show nothing; give at least 1")
    return math.sqrt(_power_factor(between, within, k, power) / tasks)


def runs_to_see(rate: float, level: float = LEVEL) -> int:
    """How many rollouts show an event of the given rate at least once with probability `level`: geometric tail."""
    if not 0 < rate <= 1:
        raise InvalidArgument(f"an event of rate {rate} cannot be seen; give a rate above 0, up to 1")
    missed = 2 * _tail(level)
    return 1 if rate == 1 else math.ceil(math.log(missed) / math.log(1 - rate))


@lru_cache(maxsize=4096)
def t_quantile(p: float, freedom: int) -> float:
    """The p-quantile of Student's t. Source: Student 1908; by the beta quantile, DLMF 8.17."""
    if p < 0.5:
        return -t_quantile(1 - p, freedom)
    x = beta_quantile(2 * (1 - p), freedom / 2, 0.5)
    return math.sqrt(freedom * (1 / x - 1))


def beta_quantile(p: float, a: float, b: float) -> float:
    """The p-quantile of the beta distribution, by bisection to the last bit."""
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:
        if beta_cdf(middle, a, b) < p:
            low = middle
        else:
            high = middle
    return high


def beta_cdf(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b) for 0 < x < 1. Source: DLMF 8.17.8 and 8.17.22."""
    if x > (a + 1) / (a + b + 2):  # where the fraction converges slowly, the symmetric one converges fast
        return 1 - beta_cdf(1 - x, b, a)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(log_front) / (a * _beta_fraction(x, a, b))


def _beta_fraction(x: float, a: float, b: float) -> float:
    """The continued fraction DLMF 8.17.22, by Lentz 1976 as modified by Thompson and Barnett 1986."""
    tiny = 1e-300
    value, upper, lower = 1.0, 1.0, 0.0
    for m in range(1, 10_000):
        half, odd = divmod(m, 2)
        term = (
            -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
            if odd
            else half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))
        )
        lower = 1 / ((1 + term * lower) or tiny)
        upper = (1 + term / upper) or tiny
        value *= upper * lower
        if abs(upper * lower - 1) < 1e-15:
            break
    return value


def _power_factor(between: float, within: tuple[float, float], k: int, power: float) -> float:
    return (_normal(LEVEL) + NormalDist().inv_cdf(power)) ** 2 * (between + sum(within) / k)


def _normal(level: float) -> float:
    return NormalDist().inv_cdf(1 - _tail(level))


def _tail(level: float) -> float:
    """What an interval leaves out on each side."""
    if not 0 < level < 1:
        raise InvalidArgument(f"a level is a share between 0 and 1, such as {LEVEL}, got {level}")
    return (1 - level) / 2


def _check_counts(n: int, c: float, k: int) -> None:
    if not 0 <= c <= n:
        raise InvalidArgument(f"{c} successes of {n} rollouts cannot be; give 0 <= c <= n")
    if k < 1:
        raise InvalidArgument(f"k must be at least 1, got {k}")
