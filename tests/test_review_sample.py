"""A queue of episodes to judge."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miroir.errors import InvalidArgument
from miroir.review.entry import Entry, entry_of
from miroir.review.sample import sample


def entries(*counts: int) -> list[Entry]:
    """So many successes, failures and voids."""
    made = []
    for outcome, count in zip(("success", "failure", "void"), counts, strict=True):
        for at in range(count):
            record = {
                "episode_id": f"{outcome}-{at}",
                "task_id": f"t{at % 5}",
                "reward": None if outcome == "void" else 1.0,
                "metadata": {"success": outcome == "success"},
            }
            made.append(entry_of(record, "0" * 64))
    return made


def ids(found: list[Entry]) -> list[str]:
    """Their ids."""
    return [entry.episode_id for entry in found]


def test_the_same_seed_draws_the_same_queue() -> None:
    """In the same order, from traces in any order; another seed draws another."""
    made = entries(60, 40, 10)
    first = sample(made, 20, seed=7, strata=("class", "outcome"), classes={})

    assert ids(sample(made[::-1], 20, seed=7, strata=("class", "outcome"), classes={})) == ids(first)
    assert ids(sample(made, 20, seed=8, strata=("class", "outcome"), classes={})) != ids(first)


def test_strata_get_their_shares() -> None:
    """Three quarters successes stay so in the sample; void has no grade to judge."""
    found = sample(entries(75, 25, 50), 20, strata=("outcome",), classes={})

    assert Counter(entry.outcome for entry in found) == {"success": 15, "failure": 5}


def test_a_rare_stratum_is_seen() -> None:
    """One failure among a thousand is in a sample of ten."""
    found = sample(entries(999, 1, 0), 10, strata=("outcome",), classes={})

    assert Counter(entry.outcome for entry in found) == {"success": 9, "failure": 1}


def test_classes_are_strata() -> None:
    """A task's class from a calibration divides its episodes too."""
    found = sample(entries(50, 0, 0), 5, strata=("class",), classes={"t0": "learnable", "t1": "solved"})

    assert {entry.task_id for entry in found} >= {"t0", "t1"}


@given(st.integers(1, 40), st.integers(0, 30), st.integers(0, 30), st.integers(0, 5))
def test_a_sample_has_its_size(size: int, successes: int, failures: int, voids: int) -> None:
    """As many as asked for or all there are, no episode twice, none void."""
    found = sample(entries(successes, failures, voids), size, strata=("outcome", "task"), classes={})

    assert len(found) == min(size, successes + failures)
    assert len(set(ids(found))) == len(found)
    assert "void" not in {entry.outcome for entry in found}


def test_what_cannot_be_drawn_is_refused() -> None:
    """A size below one and a stratum that is none."""
    with pytest.raises(InvalidArgument, match="a sample of 0 holds nothing; give --sample at least 1"):
        sample(entries(1, 1, 0), 0, classes={})
    with pytest.raises(InvalidArgument, match="'colour' is no stratum; --stratify takes class, outcome"):
        sample(entries(1, 1, 0), 1, strata=("colour",), classes={})
