"""The grader against the people who checked it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..errors import RecordError
from ..notes import Note, verdicts
from ..stats import Estimate, Interval, kappa, wilson
from .entry import Entry


@dataclass(frozen=True)
class Agreement:
    """How often grader and people agree; each episode counts once, by what most of its reviewers said.

    Rows of `table` are the grader's success and failure, columns the people's. `divided` episodes, on which as many
    said one as the other, and `stale` verdicts, on a record that has changed since, are left out.
    """

    table: tuple[tuple[int, int], tuple[int, int]]
    divided: int
    stale: int
    shared: int
    unanimous: int
    agreement: Interval
    success_right: Interval
    failure_right: Interval
    kappa: Estimate | None

    def json(self) -> dict[str, Any]:
        """The same as an object."""
        return {**asdict(self), "kappa": self.kappa and self.kappa._asdict()}


def agreement(entries: Sequence[Entry], notes: Iterable[Note]) -> Agreement:
    """The agreement over the entries that a note judges; RecordError where none does."""
    graded = {(entry.episode_id, entry.sha256): entry for entry in entries if entry.outcome != "void"}
    by_reviewer: dict[str, list[Note]] = {}
    for note in notes:
        by_reviewer.setdefault(note["reviewer"], []).append(note)
    said: dict[tuple[str, str], list[bool]] = {}
    for written in by_reviewer.values():
        for reviewed, right in verdicts(written).items():
            said.setdefault(reviewed, []).append(right)
    judged = {reviewed: votes for reviewed, votes in said.items() if reviewed in graded}
    if not judged:
        raise RecordError("no note says whether a grade of these episodes is right; review some, and give --notes")
    cells: Counter[tuple[bool, bool]] = Counter()
    for reviewed, votes in judged.items():
        if 2 * sum(votes) != len(votes):
            success = graded[reviewed].outcome == "success"
            cells[success, success == (2 * sum(votes) > len(votes))] += 1
    shared = [votes for votes in judged.values() if len(votes) > 1]
    known = {entry.episode_id for entry in entries}
    table = ((cells[True, True], cells[True, False]), (cells[False, True], cells[False, False]))
    return Agreement(
        table=table,
        divided=len(judged) - cells.total(),
        stale=sum(reviewed[0] in known and reviewed not in graded for reviewed in said),
        shared=len(shared),
        unanimous=sum(len(set(votes)) == 1 for votes in shared),
        agreement=wilson(cells.total(), table[0][0] + table[1][1]),
        success_right=wilson(sum(table[0]), table[0][0]),
        failure_right=wilson(sum(table[1]), table[1][1]),
        kappa=kappa(table),
    )


def agreement_lines(found: Agreement) -> list[str]:
    """The agreement as a table and sentences."""
    (both, grader), (people, neither) = found.table
    judged = both + grader + people + neither
    beyond = "kappa says nothing: all grades or all verdicts are alike"
    if found.kappa is not None:
        value, _, low, high = found.kappa
        sure = "no interval: the verdicts do not differ enough for one"
        if low is not None and high is not None:
            sure = f"95 %: {low:.2f} to {high:.2f}"
        beyond = f"kappa {value:.2f} ({sure}), agreement beyond chance"
    lines = [
        "                  people: success   failure",
        f"grader: success   {both:15,}   {grader:7,}",
        f"        failure   {people:15,}   {neither:7,}",
        "",
        _rate("agreement", both + neither, judged, found.agreement),
        _rate("of successes, right", both, both + grader, found.success_right),
        _rate("of failures, right", neither, people + neither, found.failure_right),
        beyond,
    ]
    counts = (
        (found.shared, f"of several reviewers: {found.shared:,} episodes, judged alike by all: {found.unanimous:,}"),
        (found.divided, f"left out, since reviewers are divided: {found.divided:,}"),
        (found.stale, f"left out, since the record has changed since or is void: {found.stale:,}"),
    )
    lines += [told for count, told in counts if count]
    return lines


def _rate(what: str, part: int, whole: int, interval: Interval) -> str:
    if not whole:
        return f"{what}: none judged"
    return f"{what}: {part:,} of {whole:,}, {part / whole:.2f} (95 %: {interval[0]:.2f} to {interval[1]:.2f})"
