"""Two rollouts side by side."""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miroir.review import alignment
from miroir.review.alignment import align, best_pair, parting
from miroir.review.entry import Entry, entry_of

STEPS = st.lists(
    st.builds(lambda tool, value: call(tool, a=value), st.sampled_from("xyz"), st.integers(0, 2)), max_size=12
)


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    """A step."""
    return {"tool": tool, "arguments": arguments}


def rows(left: list[dict[str, Any]], right: list[dict[str, Any]]) -> list[tuple[str, int | None, int | None]]:
    """The alignment as plain tuples."""
    return [tuple(row) for row in align(left, right)]  # type: ignore[misc]


def test_equal_calls_stand_side_by_side() -> None:
    """An inserted call stands alone, and the calls after it find each other again."""
    left = [call("a"), call("b"), call("c"), call("submit")]
    right = [call("a"), call("extra"), call("b"), call("c"), call("submit")]

    assert rows(left, right) == [
        ("same", 0, 0),
        ("right", None, 1),
        ("same", 1, 2),
        ("same", 2, 3),
        ("same", 3, 4),
    ]


def test_calls_of_one_tool_that_share_an_argument_find_each_other() -> None:
    """A reply with another text stands beside the reply, not beside the edit that came before it."""
    left = [call("edit", path="/f"), call("reply", mail="m1", body="yes")]
    right = [call("reply", mail="m1", body="no")]

    assert rows(left, right) == [("left", 0, None), ("changed", 1, 0)]


def test_what_has_nothing_in_common_stands_side_by_side_as_it_comes() -> None:
    """Different calls between equal ones are paired in order; what is left over stands alone."""
    left = [call("a"), call("b", x=1), call("c", x=2), call("submit")]
    right = [call("a"), call("d", x=3), call("submit")]

    assert rows(left, right) == [("same", 0, 0), ("other", 1, 1), ("left", 2, None), ("same", 3, 2)]


@given(STEPS, STEPS)
def test_every_step_stands_in_one_row_in_order(left: list[dict[str, Any]], right: list[dict[str, Any]]) -> None:
    """No step is lost, doubled or moved; what is called the same is the same; the prefix is as long as it can be."""
    found = rows(left, right)

    assert [i for _, i, _ in found if i is not None] == list(range(len(left)))
    assert [j for _, _, j in found if j is not None] == list(range(len(right)))
    for kind, i, j in found:
        assert (kind == "same") == (i is not None and j is not None and left[i] == right[j])
        assert (kind == "left") == (j is None)
        assert (kind == "right") == (i is None)
    first = next((at for at, row in enumerate(found) if row[0] != "same"), len(found))
    assert first == parting(left, right)


def test_very_long_rollouts_are_aligned_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the table's limit the middle is not searched, but ends and order stay."""
    monkeypatch.setattr(alignment, "MOST_CELLS", 10)
    left = [call("a"), *(call("b", x=at) for at in range(6)), call("submit")]
    right = [call("a"), *(call("b", x=at + 1) for at in range(6)), call("submit")]

    assert [kind for kind, _, _ in rows(left, right)] == ["same", *["changed"] * 6, "same"]


def entry(outcome: str, calls: list[int], *, harm: bool = False, version: str = "h") -> Entry:
    """An entry with this outcome and these calls."""
    reward = {"success": 1.0, "failure": 0.0, "void": None}[outcome]
    metadata = {"task_hash": version, "success": outcome == "success", "harm": harm}
    made = entry_of({"task_id": "t", "reward": reward, "metadata": metadata, "steps": []}, "0" * 64)
    return replace(made, calls=array("q", calls), steps=len(calls))


def test_the_best_pair_keeps_together_for_longest() -> None:
    """A clean success and the failure that leaves its path last; of equals the shorter."""
    short, long = entry("success", [1, 2, 3, 4]), entry("success", [1, 2, 3, 4, 5])
    early, late = entry("failure", [1, 9]), entry("failure", [1, 2, 3, 9])
    pair = best_pair([early, long, late, short, entry("void", [1, 2, 3, 4])])

    assert pair is not None
    assert (pair.good, pair.bad, pair.common) == (short, late, 3)


def test_a_harmful_success_is_compared_with_a_clean_one() -> None:
    """Harm is worth explaining even where the task was done."""
    clean, harmful = entry("success", [1, 2]), entry("success", [1, 3], harm=True)
    pair = best_pair([harmful, clean])

    assert pair is not None
    assert (pair.good, pair.bad) == (clean, harmful)


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [entry("success", [1]), entry("success", [2])],
        [entry("failure", [1]), entry("failure", [2])],
        [entry("success", [1]), entry("void", [1])],
        [entry("success", [1], version="a"), entry("failure", [1], version="b")],
    ],
)
def test_no_pair_is_made_up(entries: list[Entry]) -> None:
    """Not of equals, not with a void, never across versions of a task."""
    assert best_pair(entries) is None
