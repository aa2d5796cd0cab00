"""What fits into a report, and on which of its pages."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miroir.review import budget
from miroir.review.budget import chosen, embedded_bytes, pages
from miroir.review.entry import Entry, entry_of

KINDS = st.sampled_from(["success", "failure", "void", "harm"])


def entry(number: int, kind: str, *, task: int = 0, length: int = 75) -> Entry:
    """An episode of this kind whose record has so many compressed bytes."""
    record = {
        "episode_id": f"{number:04}",
        "task_id": f"task-{task:04}",
        "reward": None if kind == "void" else 1.0,
        "metadata": {"success": kind == "success", "harm": kind == "harm"},
    }
    return replace(entry_of(record, "0" * 64), length=length, steps=10 - number % 5)


def test_all_that_fits_is_kept() -> None:
    """At the limit exactly nothing is left out."""
    made = [entry(at, "success") for at in range(10)]

    assert len(chosen(made, 10 * embedded_bytes(made[0]))) == 10


def test_harm_is_kept_first_then_a_success_of_each_task_then_failures() -> None:
    """By the rule that the report states."""
    made = [
        *(entry(at, "success", task=at // 4) for at in range(8)),
        *(entry(10 + at, "failure") for at in range(3)),
        *(entry(20 + at, "void") for at in range(3)),
        entry(30, "harm"),
    ]
    made.sort(key=lambda one: one.task_id)
    size = embedded_bytes(made[0])
    kinds = {one.episode_id: "harm" if one.harm else one.outcome for one in made}

    def kept(count: int) -> list[str]:
        return sorted(kinds[episode_id] for episode_id in chosen(made, count * size))

    assert kept(1) == ["harm"]
    assert kept(3) == ["harm", "success", "success"]
    assert kept(6) == ["failure", "failure", "failure", "harm", "success", "success"]
    assert kept(9) == ["failure"] * 3 + ["harm"] + ["success"] * 2 + ["void"] * 3
    assert kept(10) == ["failure"] * 3 + ["harm"] + ["success"] * 3 + ["void"] * 3


@given(st.lists(st.tuples(KINDS, st.integers(0, 5), st.integers(1, 400)), max_size=30), st.integers(0, 3000))
def test_the_limit_holds(shapes: list[tuple[str, int, int]], limit: int) -> None:
    """What is kept never exceeds the limit."""
    made = [entry(at, kind, task=task, length=length) for at, (kind, task, length) in enumerate(shapes)]
    made.sort(key=lambda one: one.task_id)
    kept = chosen(made, limit)

    assert sum(embedded_bytes(one) for one in made if one.episode_id in kept) <= limit


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(1, 700)), min_size=1, max_size=60))
def test_pages_hold_everything_in_order_within_their_size(shapes: list[tuple[int, int]]) -> None:
    """Every episode is on one page; a page is not larger than it may be unless one record is; a task stays together."""
    made = [entry(at, "success", task=task, length=length) for at, (task, length) in enumerate(sorted(shapes))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(budget, "PAGE_BYTES", 1000)
        found = pages(made, {one.episode_id for one in made})

    assert [one for page in found for one in page] == made
    assert all(sum(map(embedded_bytes, page)) <= 1000 or len(page) == 1 for page in found)
    for task in {one.task_id for one in made}:
        holding = [page for page in found if any(one.task_id == task for one in page)]
        size = sum(embedded_bytes(one) for one in made if one.task_id == task)
        assert len(holding) == 1 or size > 1000
