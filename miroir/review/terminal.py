"""Lists of episodes as a terminal shows them: lines of plain text, coloured where that is wanted."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .collection import Collection
from .entry import Entry
from .plain import cells, fit, line, plain
from .reason import Reason

MARKS = {"success": "✓", "failure": "✗", "void": "∅", "harm": "!"}
_COLOURS = {"success": "32", "failure": "33", "void": "90", "harm": "31", "bold": "1", "dim": "2"}


@dataclass(frozen=True)
class Screen:
    """How wide the terminal is, in columns, and whether it shows colours."""

    width: int = 100
    colour: bool = False

    def paint(self, text: str, look: str) -> str:
        """The text in a look of its own."""
        return f"\x1b[{_COLOURS[look]}m{text}\x1b[0m" if self.colour else text

    def wrapped(self, text: str, indent: str = "", most: int = 400) -> list[str]:
        """The text's lines, broken to fit; of more than `most` the first, and how long the text is in all."""
        width = max(20, self.width - len(indent))
        begun = plain(text[: most * width]).split("\n")[:most]
        lines = [part for whole in begun for part in textwrap.wrap(whole, width, break_on_hyphens=False) or [""]]
        if len(lines) > most or len(text) > most * width or text.count("\n") >= most:
            lines = [*lines[:most], f"… {len(text):,} characters in all"]
        return [indent + part for part in lines]


def task_lines(collection: Collection, classes: Mapping[str, str | None], screen: Screen) -> list[str]:
    """Every task in a line: number, class, a mark for each rollout, successes of graded ones, why it failed most."""
    found = list(collection.by_task())
    name = min(max((cells(line(task.task_id)) for task, _ in found), default=4), 40)
    marks = min(max((len(entries) for _, entries in found), default=1), 24)
    lines = [screen.paint(f"{'#':>4}  {fit('task', name)}  {fit('class', 12)}  {fit('', marks)}  score  why", "dim")]
    for at, (task, entries) in enumerate(found, 1):
        graded = [entry for entry in entries if entry.outcome != "void"]
        score = f"{sum(entry.outcome == 'success' for entry in graded)}/{len(graded)}"
        shown = "".join(screen.paint(MARKS[look(entry)], look(entry)) for entry in entries[:marks])
        gap = " " * (marks - min(marks, len(entries)))
        why = fit(_worst(entries), max(10, screen.width - name - marks - 32)).rstrip()
        kind = fit(line(classes.get(task.task_id) or ""), 12)
        lines.append(f"{at:>4}  {fit(line(task.task_id), name)}  {kind}  {shown}{gap}  {score:>5}  {why}".rstrip())
    return lines


def rollout_lines(entries: Sequence[Entry], screen: Screen, ids: int) -> list[str]:
    """Every rollout in a line: `ids` characters of its id, trial, outcome, reward, steps, time, why it failed."""
    lines = [screen.paint(f"{'episode':{ids}}  trial  outcome         reward  steps   time  why", "dim")]
    for entry in entries:
        outcome = f"{MARKS[look(entry)]} {entry.outcome}{', harm' if entry.harm else ''}"
        reward = "-" if entry.reward is None else f"{entry.reward:.2f}"
        seconds = "-" if entry.seconds is None else f"{entry.seconds:.1f} s"
        why = fit(_reason_text(entry.reason), max(10, screen.width - 52 - ids)).rstrip()
        lines.append(
            f"{fit(line(entry.episode_id[:ids]), ids)}  {entry.trial:>5}  {screen.paint(fit(outcome, 14), look(entry))}"
            f"  {reward:>6}  {entry.steps:>5}  {seconds:>5}  {why}".rstrip()
        )
    return lines


def failure_lines(entries: Sequence[Entry], screen: Screen, ids: int) -> list[str]:
    """Episodes that failed alike: how many, why, and the first few."""
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.reason is not None:
            groups.setdefault(_reason_text(entry.reason), []).append(entry)
    if not groups:
        return ["No episode failed."]
    lines = []
    for name, group in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        lines.append(screen.paint(f"{len(group):>5}  {fit(name, screen.width - 8).rstrip()}", "bold"))
        kinds = Counter((entry.reason.error, entry.reason.ended_by) for entry in group if entry.reason)
        for (error, ended), count in kinds.most_common(4):
            told = f"{f'last error {error}, ' if error else ''}ended by {ended or 'nothing given'}"
            lines.append(f"       {count} x {fit(line(told), screen.width - 16).rstrip()}")
        names = " ".join(line(entry.episode_id[:ids]) for entry in group[:8])
        lines.append(screen.paint(f"       {names}{' …' if len(group) > 8 else ''}", "dim"))
    return lines


def look(entry: Entry) -> str:
    """Harm, or the outcome."""
    return "harm" if entry.harm else entry.outcome


def _reason_text(reason: Reason | None) -> str:
    """A reason in one line; the strongest part."""
    if reason is None:
        return ""
    ended = f"ended by {reason.ended_by}" if reason.ended_by else "no reason given"
    return line(reason.fault or reason.error or ended)


def _worst(entries: Sequence[Entry]) -> str:
    found = Counter(_reason_text(entry.reason) for entry in entries if entry.reason)
    return min(found, key=lambda name: (-found[name], name)) if found else ""
