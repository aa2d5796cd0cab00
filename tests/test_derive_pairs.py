"""Pairs of a better and a worse episode with one prompt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from derive_records import SUBMIT, derived, left_out, record

from miroir.errors import InvalidArgument, RecordError


def look(query: str) -> tuple[str, dict[str, Any]]:
    """A call that looks for this."""
    return "look", {"query": query}


GOOD = record(calls=(look("a"), look("b"), SUBMIT))
NEAR = record(calls=(look("a"), look("c"), SUBMIT), success=False)
FAR = record(calls=(look("x"), SUBMIT), success=False)


def ids(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The episodes of each pair."""
    return [(row["chosen_id"], row["rejected_id"]) for row in rows]


def of(*pairs: tuple[dict[str, Any], dict[str, Any]]) -> list[tuple[str, str]]:
    """The episodes of records."""
    return [(chosen["episode_id"], rejected["episode_id"]) for chosen, rejected in pairs]


def test_every_success_is_paired_with_every_lower_reward(tmp_path: Path) -> None:
    """By default any difference in reward makes a pair, split after the prompt."""
    _, rows = derived(tmp_path, [GOOD, NEAR, FAR], "dpo")

    assert ids(rows) == of((GOOD, NEAR), (GOOD, FAR))
    assert list(rows[0]) == ["prompt", "chosen", "rejected", "tools", "task_id", "chosen_id", "rejected_id"]
    assert rows[0]["prompt"] == [GOOD["messages"][0]]
    assert [row["rejected"][0]["tool_calls"][0]["function"]["arguments"]["query"] for row in rows] == ["a", "x"]


def test_a_near_miss_shares_all_that_went_alike(tmp_path: Path) -> None:
    """Each success is paired with the episode that parted from it last; the prompt ends where they part."""
    _, (row,) = derived(tmp_path, [GOOD, NEAR, FAR], "dpo", pairs="near-miss")

    assert ids([row]) == of((GOOD, NEAR))
    assert [message["role"] for message in row["prompt"]] == ["user", "assistant", "tool"]
    parted = [row[side][0]["tool_calls"][0]["function"]["arguments"] for side in ("chosen", "rejected")]
    assert parted == [{"query": "b"}, {"query": "c"}]


def test_a_near_miss_parts_before_an_answer(tmp_path: Path) -> None:
    """Where the same call was answered differently, both sides begin with that call."""
    other = record(calls=(look("a"), look("c"), SUBMIT), success=False)
    other["messages"][2]["content"] = "something else"

    _, (row,) = derived(tmp_path, [GOOD, other], "dpo", pairs="near-miss")

    assert [row[side][0]["role"] for side in ("chosen", "rejected")] == ["assistant", "assistant"]
    assert len(row["prompt"]) == 1


def test_an_episode_that_is_the_beginning_of_another_can_be_paired(tmp_path: Path) -> None:
    """Neither side is ever empty."""
    short = record(calls=(look("a"),), success=False)

    _, (row,) = derived(tmp_path, [GOOD, short], "dpo", pairs="near-miss")

    assert len(row["chosen"]) > 0
    assert len(row["rejected"]) > 0


def test_best_against_worst_is_one_pair_a_task(tmp_path: Path) -> None:
    """The highest success and the lowest reward of each task."""
    best = record(calls=(look("b"), SUBMIT), reward=1.0)
    good = record(calls=(look("g"), SUBMIT), reward=0.8)
    poor = record(calls=(look("p"), SUBMIT), reward=0.4, success=False)
    worst = record(calls=(look("w"), SUBMIT), reward=0.0, success=False)

    _, rows = derived(tmp_path, [good, poor, best, worst], "dpo", pairs="best-worst")

    assert ids(rows) == of((best, worst))


def test_harm_is_the_worse_side(tmp_path: Path) -> None:
    """Harmless successes against harmful ones; in no other mode is a harmful episode used."""
    harmful = record(calls=(look("h"), SUBMIT), harm=True)

    _, rows = derived(tmp_path, [GOOD, harmful, NEAR], "dpo", pairs="harm")
    _, without = derived(tmp_path, [GOOD, harmful, NEAR], "dpo")

    assert ids(rows) == of((GOOD, harmful))
    assert ids(without) == of((GOOD, NEAR))


def test_the_date_is_no_difference(tmp_path: Path) -> None:
    """Episodes of different days share their prompt; the chosen one's is written."""
    later = record(prompt="Who owns it?\n\nToday is 2026-02-01 (UTC).", calls=(SUBMIT,), success=False)

    _, (row,) = derived(tmp_path, [GOOD, later], "dpo")

    assert row["prompt"] == [GOOD["messages"][0]]


def test_different_prompts_make_no_pair(tmp_path: Path) -> None:
    """How many pairs were lost is told, and what to do instead."""
    other = record(prompt="Who has it?", calls=(SUBMIT,), success=False)
    tools = record(tools=GOOD["tools"][::-1], calls=(SUBMIT, SUBMIT), success=False)

    report, rows = derived(tmp_path, [GOOD, NEAR, other, tools], "dpo")

    assert ids(rows) == of((GOOD, NEAR))
    assert left_out(report) == {"with different prompts": 2}
    assert "2 pairs were lost because their prompts differ; --format kto needs no pairs" in "\n".join(report.notes)


def test_different_tasks_make_no_pair(tmp_path: Path) -> None:
    """Episodes of two tasks, or of two versions, are never paired, equal prompts or not."""
    other = record("task-2", calls=(SUBMIT,), success=False)

    with pytest.raises(RecordError, match="nothing is left: 2 records read; left out: none; 0 possible pairs"):
        derived(tmp_path, [GOOD, other], "dpo")


def test_margin_and_length_bound_pairs(tmp_path: Path) -> None:
    """Pairs closer than the margin, or of too different lengths, are left out and counted."""
    close = record(calls=(look("c"), SUBMIT), reward=0.9, success=False)
    long = record(calls=(*(look(str(n) * 2000) for n in range(4)), SUBMIT), success=False)

    report, rows = derived(tmp_path, [GOOD, NEAR, close, long], "dpo", margin=0.5, length_ratio=1.5)

    assert ids(rows) == of((GOOD, NEAR))
    assert left_out(report) == {"closer than the margin": 1, "of too different lengths": 1}


def test_caps_bound_pairs(tmp_path: Path) -> None:
    """At most so many pairs a task, and so many uses of a record; what is kept is the seed's."""
    goods = [record(calls=(look(f"g{n}"), SUBMIT), trial=n) for n in range(4)]
    bads = [record(calls=(look(f"b{n}"), SUBMIT), trial=n, success=False) for n in range(4)]

    report, few = derived(tmp_path, [*goods, *bads], "dpo", max_pairs=3)
    _, once = derived(tmp_path, [*goods, *bads], "dpo", max_uses=1)
    _, again = derived(tmp_path, [*bads, *goods], "dpo", max_uses=1)

    assert (len(few), left_out(report)) == (3, {"beyond what all takes of a task": 13})
    assert len({each for pair in ids(once) for each in pair}) == 2 * len(once) > 0
    assert ids(once) == ids(again)


def test_duplicates_are_dropped_before_pairing(tmp_path: Path) -> None:
    """Two episodes with the same calls are one."""
    _, rows = derived(tmp_path, [GOOD, {**GOOD, "episode_id": "again", "trial": 1}, NEAR], "dpo")

    assert len(rows) == 1


@pytest.mark.parametrize(
    ("format_name", "options", "message"),
    [
        ("dpo", {"pick": "best"}, "pairs are limited by --max-pairs and --max-uses"),
        ("dpo", {"too_long": "cut"}, "rows of dpo cannot be cut without changing what they say"),
        ("sft", {"pairs": "harm"}, "sft has no pairs; use --format dpo"),
        ("sft", {"mask_errors": True}, "sft cannot mask single messages; use openai or turns"),
    ],
)
def test_options_of_other_formats_are_refused(
    tmp_path: Path, format_name: str, options: dict[str, Any], message: str
) -> None:
    """An option that would do nothing is an error."""
    with pytest.raises(InvalidArgument, match=message):
        derived(tmp_path, [GOOD, NEAR], format_name, **options)
