"""Statistics: published values, exact identities, and brute force over subsets."""

from __future__ import annotations

import json
import math
import random
from collections import Counter, defaultdict
from itertools import combinations
from pathlib import Path
from statistics import fmean, stdev, variance

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miroir.errors import InvalidArgument
from miroir.stats import (
    Estimate,
    beta_cdf,
    bootstrap,
    clopper_pearson,
    clustered,
    clustered_rate,
    credible,
    detectable,
    kappa,
    mcnemar,
    mixed,
    paired,
    pass_at,
    pass_hat,
    runs_to_see,
    sample_size,
    t_quantile,
    wilson,
)

AIRLINE = json.loads((Path(__file__).parent / "data" / "tau_bench_airline_gpt4o.json").read_text())


def airline() -> dict[int, list[float]]:
    """The rewards of each task, in the order of trials: 50 tasks of 4."""
    tasks: dict[int, list[float]] = defaultdict(list)
    for task_id, _trial, reward in AIRLINE["rows"]:
        tasks[task_id].append(reward)
    return dict(tasks)


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"),
    [
        (6, 3, 1, 0.5),
        (2, 1, 2, 1.0),
        (5, 2, 3, 0.9),
        (10, 3, 5, 11 / 12),
        (4, 2, 2, 5 / 6),
        (200, 1, 100, 0.5),
        (1000, 1, 500, 0.5),
        (200, 40, 10, 0.8987105941444434),
        (4, 2, 5, None),
        (0, 0, 1, None),
    ],
)
def test_pass_at_k_has_its_published_values(n: int, c: int, k: int, expected: float | None) -> None:
    """Exact, also for thousands of rollouts; None where there are fewer than k."""
    assert pass_at(n, c, k) == expected


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"),
    [(4, 3, 2, 0.5), (4, 2, 2, 1 / 6), (8, 6, 4, 15 / 70), (200, 199, 100, 0.5), (4, 4, 4, 1.0), (3, 3, 4, None)],
)
def test_pass_hat_k_has_its_published_values(n: int, c: int, k: int, expected: float | None) -> None:
    """Exact; None where there are fewer than k rollouts."""
    assert pass_hat(n, c, k) == expected


counts = st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n)))


@given(counts)
def test_pass_at_and_pass_hat_are_means_over_all_subsets(case: tuple[int, int, int]) -> None:
    """Both equal the share of the k-subsets of rollouts that hold any, or only, successes."""
    n, c, k = case
    subsets = list(combinations([True] * c + [False] * (n - c), k))
    assert pass_at(n, c, k) == pytest.approx(fmean(map(any, subsets)))
    assert pass_hat(n, c, k) == pytest.approx(fmean(map(all, subsets)))


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=9), st.data())
def test_mixed_is_the_share_of_subsets_with_different_rewards(rewards: list[float], data: st.DataObject) -> None:
    """For any rewards it is the share of groups that have an advantage."""
    k = data.draw(st.integers(1, len(rewards)))
    expected = fmean(len(set(group)) > 1 for group in combinations(rewards, k))
    assert mixed(list(Counter(rewards).values()), k) == pytest.approx(expected)
    assert mixed(list(Counter(rewards).values()), len(rewards) + 1) is None


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_identities_of_pass_at_and_pass_hat(case: tuple[int, int]) -> None:
    """k = 1 is the rate; pass@k grows and pass^k falls with k; one is the other of the failures; mixed is between."""
    n, c = case
    assert pass_at(n, c, 1) == pass_hat(n, c, 1) == c / n
    at = [pass_at(n, c, k) or 0.0 for k in range(1, n + 1)]
    hat = [pass_hat(n, c, k) or 0.0 for k in range(1, n + 1)]
    assert at == sorted(at)
    assert hat == sorted(hat, reverse=True)
    k = min(n, 5)
    assert at[k - 1] == pytest.approx(1 - (pass_hat(n, n - c, k) or 0.0))
    assert mixed([c, n - c], k) == pytest.approx(at[k - 1] - hat[k - 1])


@pytest.mark.parametrize("arguments", [(4, 5, 1), (4, -1, 1), (-1, 0, 1), (4, 2, 0)])
def test_impossible_counts_are_refused(arguments: tuple[int, int, int]) -> None:
    """More successes than rollouts, negative counts and k = 0 are ValueErrors."""
    with pytest.raises(InvalidArgument, match=r"cannot be; give 0 <= c <= n|k must be at least 1"):
        pass_at(*arguments)
    with pytest.raises(ValueError):
        pass_hat(*arguments)


@pytest.mark.parametrize(
    ("c", "n", "exact", "score", "posterior"),
    [
        (0, 4, (0, 0.602365), (0, 0.489891), (0.005051, 0.521824)),
        (1, 4, (0.006309, 0.805880), (0.045587, 0.699358), (0.052745, 0.716418)),
        (2, 4, (0.067586, 0.932414), (0.150039, 0.849961), (0.146633, 0.853367)),
        (4, 4, (0.397635, 1), (0.510109, 1), (0.478176, 0.994949)),
        (0, 8, (0, 0.369417), (0, 0.324408), None),
        (4, 8, (0.157013, 0.842987), (0.215216, 0.784784), None),
        (8, 8, (0.630583, 1), (0.675592, 1), None),
        (0, 16, (0, 0.205907), (0, 0.193608), None),
        (4, 16, (0.072662, 0.523771), (0.101821, 0.494983), None),
        (12, 32, (0.211000, 0.563078), (0.229339, 0.547456), None),
        (84, 200, (0.350744, 0.491664), (0.353736, 0.489279), None),
    ],
)
def test_intervals_of_a_rate_have_their_published_values(
    c: int, n: int, exact: tuple[float, float], score: tuple[float, float], posterior: tuple[float, float] | None
) -> None:
    """Clopper-Pearson, Wilson and the uniform prior's posterior, at 95 %."""
    assert clopper_pearson(n, c) == pytest.approx(exact, abs=1e-6)
    assert wilson(n, c) == pytest.approx(score, abs=1e-6)
    if posterior:
        assert credible(n, c) == pytest.approx(posterior, abs=1e-6)


def _tail(n: int, c: int, p: float) -> float:
    """P(X >= c) for X binomial(n, p)."""
    return math.fsum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(c, n + 1))


@settings(max_examples=40)
@given(st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_clopper_pearson_ends_where_the_binomial_tails_are_a_fortieth(case: tuple[int, int]) -> None:
    """Each end leaves exactly 2.5 % in the tail that it bounds."""
    n, c = case
    low, high = clopper_pearson(n, c)
    assert low == 0 if c == 0 else _tail(n, c, low) == pytest.approx(0.025)
    assert high == 1 if c == n else 1 - _tail(n, c + 1, high) == pytest.approx(0.025)


@pytest.mark.parametrize(("n", "bound"), [(4, 0.5271), (8, 0.3123), (16, 0.1707)])
def test_no_success_bounds_the_rate(n: int, bound: float) -> None:
    """The one-sided 95 % bound after n failures is 1 - 0.05^(1/n)."""
    assert clopper_pearson(n, 0, level=0.9)[1] == pytest.approx(bound, abs=5e-5)


@pytest.mark.parametrize(("rate", "runs"), [(0.5, 5), (0.25, 11), (0.1, 29), (0.05, 59)])
def test_runs_to_see_an_event_once(rate: float, runs: int) -> None:
    """The rarer the event, the more rollouts show it once at 95 %."""
    assert runs_to_see(rate) == runs


@pytest.mark.parametrize(("rate", "n", "expected"), [(0.1, 8, 0.4305), (0.25, 8, 0.1001), (0.5, 8, 0.0078)])
def test_few_rollouts_are_often_all_equal(rate: float, n: int, expected: float) -> None:
    """Eight equal rewards say little: averaged over binomial counts, 1 - mixed is p^n + (1-p)^n."""
    chance = math.fsum(
        math.comb(n, c) * rate**c * (1 - rate) ** (n - c) * (1 - (mixed([c, n - c], n) or 0.0)) for c in range(n + 1)
    )
    assert chance == pytest.approx(expected, abs=5e-5)


def test_airline_rewards_give_the_published_numbers() -> None:
    """tau-bench's gpt-4o airline rewards: pass^k as in its README, pass@k, mixed groups and intervals."""
    tasks = airline()
    successes = [sum(rewards) for rewards in tasks.values()]
    expected = AIRLINE["expected"]
    assert (len(tasks), sum(successes)) == (50, 84)
    for k in (1, 2, 3, 4):
        at = fmean(pass_at(4, int(c), k) or 0.0 for c in successes)
        hat = fmean(pass_hat(4, int(c), k) or 0.0 for c in successes)
        groups = fmean(mixed([int(c), 4 - int(c)], k) or 0.0 for c in successes)
        assert at == pytest.approx(expected[f"pass@{k}"])
        assert hat == pytest.approx(expected[f"pass^{k}"])
        assert groups == pytest.approx({1: 0.0, 2: 0.29333333333, 3: 0.44, 4: 0.52}[k])
    mean, error, low, high = clustered(tasks.values())
    assert (mean, error) == pytest.approx((0.42, 0.05221619109284876))
    assert (low, high) == pytest.approx(tuple(expected["statistics"]["ci95_clustered_t_df49"]))
    assert clustered([reward] for rewards in tasks.values() for reward in rewards).error == pytest.approx(0.0349874349)
    assert fmean(variance(rewards) for rewards in tasks.values()) == pytest.approx(0.146666667)
    assert variance([c / 4 for c in successes]) == pytest.approx(0.1363265306)


def test_airline_bootstrap_of_pass_hat_is_seeded_and_near_its_published_ends() -> None:
    """The task bootstrap of pass^4 is about (.10, .32), the same for the same seed."""
    values = [float(sum(rewards) == 4) for rewards in airline().values()]
    low, high = bootstrap(values)
    assert (low, high) == pytest.approx((0.10, 0.32))
    assert bootstrap(values) == (low, high)
    assert bootstrap([0.25] * 9, seed=3) == (0.25, 0.25)


@given(st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=2, max_size=12))
def test_clusters_of_equal_size_have_the_error_of_their_means(clusters: list[list[float]]) -> None:
    """With equal n, the clustered error is the standard error of the cluster means."""
    means = [fmean(cluster) for cluster in clusters]
    assert clustered(clusters).error == pytest.approx(stdev(means) / math.sqrt(len(means)), abs=1e-9)


def test_one_cluster_has_a_mean_and_no_error() -> None:
    """One task says nothing about others; no rollouts at all are refused."""
    assert clustered([[0.0, 1.0], []]) == Estimate(0.5, None, None, None)
    with pytest.raises(ValueError, match="a mean needs at least one value"):
        clustered([[]])
    with pytest.raises(ValueError, match="a bootstrap needs at least one value"):
        bootstrap([])


def test_clustered_intervals_cover() -> None:
    """Of 200 seeded suites of 20 tasks, about 95 % of the t intervals hold the true mean."""
    generator = random.Random(5)
    held = 0
    for _ in range(200):
        rates = [generator.random() for _ in range(20)]
        estimate = clustered([[float(generator.random() < rate) for _ in range(4)] for rate in rates])
        held += (estimate.low or 0.0) <= 0.5 <= (estimate.high or 1.0)
    assert 180 <= held <= 199


@pytest.mark.parametrize(
    ("clusters", "ends"),
    [
        ([[1.0, 1.0], [1.0]], (0.025**0.5, 1)),
        ([[0.0]] * 20, (0, 1 - 0.025 ** (1 / 20))),
        ([[1.0, 0.0], [0.0, 1.0]], (0.0125791, 0.9874209)),
        ([[0.1]] * 7, (0.0006287, 0.5332387)),
    ],
)
def test_a_rate_of_tasks_that_are_all_alike_is_not_sure(clusters: list[list[float]], ends: tuple[float, float]) -> None:
    """No difference between few tasks is no proof: as many single rollouts as there are tasks could be alike too."""
    estimate = clustered_rate(clusters)
    assert estimate.error == 0
    assert (estimate.low, estimate.high) == pytest.approx(ends, abs=1e-7)


def test_a_rate_has_the_interval_of_its_mean_cut_to_what_a_rate_can_be() -> None:
    """Between 0 and 1 it is the t interval; one task has none."""
    clusters = [[0.0, 1.0], [1.0, 1.0], [1.0, 0.0], [1.0]]
    assert clustered_rate(clusters) == clustered(clusters)._replace(high=1.0)
    assert clustered_rate([[0.0], [0.0], [0.0], [1.0]]).low == 0.0
    assert clustered_rate(airline().values()) == clustered(airline().values())
    assert clustered_rate([[1.0, 1.0]]) == Estimate(1.0, None, None, None)


@pytest.mark.parametrize("tasks", [2, 5, 20])
def test_intervals_of_a_rate_near_one_cover(tasks: int) -> None:
    """Of 200 seeded suites that are often solved whole, at least 95 % of the intervals hold the true rate."""
    generator = random.Random(tasks)
    suites = [[[float(generator.random() < 0.95)] * 4 for _ in range(tasks)] for _ in range(200)]
    held = [(estimate.low or 0.0) <= 0.95 <= (estimate.high or 0.0) for estimate in map(clustered_rate, suites)]
    assert sum(held) >= 190


@pytest.mark.parametrize(
    ("b", "c", "p"), [(0, 0, 1.0), (1, 0, 1.0), (5, 0, 0.0625), (10, 2, 0.03857421875), (3, 3, 1.0), (0, 20, 2 / 2**20)]
)
def test_mcnemar_is_the_exact_sign_test(b: int, c: int, p: float) -> None:
    """Two-sided p of the discordant pairs, symmetric, at most 1."""
    assert mcnemar(b, c) == mcnemar(c, b) == pytest.approx(p)


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0, -0.5, math.nan])
def test_a_level_that_is_no_share_is_refused(level: float) -> None:
    """No interval of 95 times everything: each is a ValueError that says what a level is."""
    message = r"a level is a share between 0 and 1, such as 0\.95, got"
    for interval in (wilson, clopper_pearson, credible):
        with pytest.raises(InvalidArgument, match=message):
            interval(4, 2, level)
    for of in (clustered, clustered_rate):
        with pytest.raises(InvalidArgument, match=message):
            of([[0.0], [1.0]], level)
    with pytest.raises(InvalidArgument, match=message):
        bootstrap([0.0, 1.0], level=level)
    with pytest.raises(InvalidArgument, match=message):
        runs_to_see(0.5, level)


def test_what_no_number_of_rollouts_can_show_is_refused() -> None:
    """An event that never comes, no difference, no tasks: a ValueError, where the formulas divide by zero."""
    for rate in (0.0, -0.1, 1.5):
        with pytest.raises(InvalidArgument, match=f"an event of rate {rate} cannot be seen; give a rate above 0"):
            runs_to_see(rate)
    assert runs_to_see(1.0) == 1
    with pytest.raises(InvalidArgument, match="no number of tasks shows a difference of 0; give another"):
        sample_size(0, between=0.1)
    with pytest.raises(InvalidArgument, match="0 tasks show nothing; give at least 1"):
        detectable(0, between=0.1)


def test_mcnemar_refuses_negative_counts() -> None:
    """A negative count is a ValueError."""
    with pytest.raises(ValueError, match="discordant counts cannot be -1 and 2; count from 0"):
        mcnemar(-1, 2)


def test_kappa_is_agreement_beyond_chance() -> None:
    """A hand-computed table, full agreement and none, which have no interval, and tables of which it says nothing."""
    found = kappa([[20, 5], [10, 15]])

    assert found is not None
    assert found.mean == pytest.approx(0.4)
    assert kappa([[30, 0], [0, 19]]) == Estimate(1.0, None, None, None)
    assert kappa([[0, 5], [5, 0]]) == Estimate(-1.0, None, None, None)
    assert kappa([[7, 0], [0, 0]]) is None
    assert kappa([[0, 0], [0, 0]]) is None


@given(st.lists(st.integers(1, 60), min_size=9, max_size=9))
def test_kappas_error_is_that_of_the_delta_method(counts: list[int]) -> None:
    """The published formula agrees with numerical derivatives of kappa in the cells' shares."""
    table = [counts[:3], counts[3:6], counts[6:]]
    n = sum(counts)
    shares = [count / n for count in counts]

    def of(cells: list[float]) -> float:
        rows = [sum(cells[3 * i : 3 * i + 3]) for i in range(3)]
        chance = sum(rows[i] * sum(cells[i::3]) for i in range(3))
        return (cells[0] + cells[4] + cells[8] - chance) / (1 - chance)

    def slope(at: int, step: float = 1e-6) -> float:
        moved = [[share + way * step * (i == at) for i, share in enumerate(shares)] for way in (1, -1)]
        return (of(moved[0]) - of(moved[1])) / (2 * step)

    slopes = [slope(at) for at in range(9)]
    middle = sum(share * one for share, one in zip(shares, slopes, strict=True))
    squares = sum(share * one**2 for share, one in zip(shares, slopes, strict=True))
    found = kappa(table)

    assert found is not None
    assert found.error == pytest.approx(math.sqrt((squares - middle**2) / n), rel=1e-4, abs=1e-6)


def test_paired_differences_are_taken_task_by_task() -> None:
    """The same gain on every task has no error, however much the tasks differ."""
    assert paired([0.0, 0.5, 0.75], [0.25, 0.75, 1.0]) == Estimate(0.25, 0.0, 0.25, 0.25)
    with pytest.raises(ValueError, match="2 values cannot be paired with 1"):
        paired([0.0, 1.0], [1.0])


def test_sample_sizes_have_their_published_values() -> None:
    """A difference of 3 points at 80 % power: the published tasks, rounded up; and what 198 tasks can show."""
    within = (1 / 6, 1 / 6)
    assert sample_size(0.03, between=1 / 9) == 969
    assert [sample_size(0.03, between=1 / 9, within=within, k=k) for k in (1, 4, 8, 10)] == [3876, 1696, 1333, 1260]
    assert detectable(198, between=1 / 9, within=within) == pytest.approx(0.133, abs=5e-4)
    assert detectable(198, between=1 / 9, within=within, k=10) == pytest.approx(0.076, abs=5e-4)


@pytest.mark.parametrize(("p", "freedom", "t"), [(0.975, 1, 12.7062), (0.975, 49, 2.00958), (0.95, 10, 1.81246)])
def test_t_quantiles_have_their_tabled_values(p: float, freedom: int, t: float) -> None:
    """Student's table, and its symmetry."""
    assert t_quantile(p, freedom) == pytest.approx(t, abs=5e-5)
    assert t_quantile(1 - p, freedom) == pytest.approx(-t, abs=5e-5)


@given(st.floats(0.01, 0.99), st.integers(1, 30), st.integers(1, 30))
def test_the_incomplete_beta_is_a_binomial_tail(x: float, a: int, b: int) -> None:
    """I_x(a, b) = P(X >= a) for X binomial(a + b - 1, x)."""
    assert beta_cdf(x, a, b) == pytest.approx(_tail(a + b - 1, a, x), abs=1e-11)
