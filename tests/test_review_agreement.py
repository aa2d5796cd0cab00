"""The grader against the people who checked it."""

from __future__ import annotations

import pytest

from miroir.errors import RecordError
from miroir.notes import Note
from miroir.review.agreement import agreement, agreement_lines
from miroir.review.entry import Entry, entry_of
from miroir.stats import kappa, wilson


def entry(name: str, *, success: bool, void: bool = False) -> Entry:
    """An episode; its hash is its name."""
    record = {"episode_id": name, "task_id": "t", "reward": None if void else 1.0, "metadata": {"success": success}}
    return entry_of(record, name)


def note(episode: str, right: bool | None, *, reviewer: str = "Ada", sha: str | None = None) -> Note:
    """A verdict on an episode."""
    return Note(
        schema=1, episode_id=episode, record_sha256=sha or episode, at="", reviewer=reviewer, labels=[],
        grade_right=right, step=None, text="",
    )  # fmt: skip


def made(both: int, grader: int, people: int, neither: int) -> tuple[list[Entry], list[Note]]:
    """Episodes and verdicts of this confusion."""
    entries, notes = [], []
    for kind, (count, success, right) in enumerate(
        ((both, True, True), (grader, True, False), (people, False, False), (neither, False, True))
    ):
        for at in range(count):
            entries.append(entry(f"{kind}-{at}", success=success))
            notes.append(note(f"{kind}-{at}", right))
    return entries, notes


def test_the_confusion_is_counted() -> None:
    """Rows are the grader's, columns the people's; kappa and intervals are those of `stats`."""
    found = agreement(*made(20, 5, 10, 15))

    assert found.table == ((20, 5), (10, 15))
    assert found.kappa == kappa([[20, 5], [10, 15]])
    assert found.agreement == wilson(50, 35)
    assert found.success_right == wilson(25, 20)
    assert found.failure_right == wilson(25, 15)
    assert agreement_lines(found) == [
        "                  people: success   failure",
        "grader: success                20         5",
        "        failure                10        15",
        "",
        "agreement: 35 of 50, 0.70 (95 %: 0.56 to 0.81)",
        "of successes, right: 20 of 25, 0.80 (95 %: 0.61 to 0.91)",
        "of failures, right: 15 of 25, 0.60 (95 %: 0.41 to 0.77)",
        "kappa 0.40 (95 %: 0.15 to 0.65), agreement beyond chance",
    ]


def test_full_agreement_of_a_few_is_not_sure() -> None:
    """The error of kappa vanishes there, whatever their number: no interval is told, but that of the agreement."""
    lines = agreement_lines(agreement(*made(2, 0, 0, 1)))

    assert lines[4] == "agreement: 3 of 3, 1.00 (95 %: 0.44 to 1.00)"
    assert lines[7] == "kappa 1.00 (no interval: the verdicts do not differ enough for one), agreement beyond chance"


def test_of_several_reviewers_the_most_decide() -> None:
    """Two of three outvote one; one against one is left out, and both are told."""
    entries = [entry("a", success=True), entry("b", success=True), entry("c", success=False)]
    notes = [
        *(note("a", right, reviewer=name) for name, right in (("Ada", True), ("Bo", True), ("Cy", False))),
        *(note("b", right, reviewer=name) for name, right in (("Ada", True), ("Bo", False))),
        *(note("c", True, reviewer=name) for name in ("Ada", "Bo")),
    ]
    found = agreement(entries, notes)

    assert found.table == ((1, 0), (0, 1))
    assert (found.divided, found.shared, found.unanimous) == (1, 3, 1)
    assert "left out, since reviewers are divided: 1" in agreement_lines(found)


def test_verdicts_on_changed_records_are_left_out_and_counted() -> None:
    """A verdict holds for the record that was read; a void has no grade."""
    entries = [entry("a", success=True), entry("b", success=True), entry("v", success=False, void=True)]
    notes = [
        note("a", True),
        note("b", True, sha="old"),
        note("v", True),
        note("elsewhere", True),
        note("a", None, reviewer="Bo"),
    ]
    found = agreement(entries, notes)

    assert found.table == ((1, 0), (0, 0))
    assert found.stale == 2
    assert "kappa says nothing: all grades or all verdicts are alike" in agreement_lines(found)
    assert "of failures, right: none judged" in agreement_lines(found)


def test_without_verdicts_there_is_no_agreement() -> None:
    """It says what is missing."""
    with pytest.raises(RecordError, match="no note says whether a grade of these episodes is right; review some"):
        agreement([entry("a", success=True)], [note("a", None)])


def test_it_is_an_object_too() -> None:
    """For programs: plain JSON values."""
    found = agreement(*made(20, 5, 10, 15)).json()

    assert found["table"] == ((20, 5), (10, 15))
    assert found["kappa"]["mean"] == pytest.approx(0.4)
