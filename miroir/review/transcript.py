"""One episode, or two side by side, as a terminal shows them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..notes import Note
from ..records.shape import mapping, number, rows, text
from .alignment import Row, align, parting
from .entry import Entry, call_key
from .plain import fit, line
from .reason import error_text
from .terminal import MARKS, Screen, look

LONGEST_RESULT = 12  # lines of a result


def episode_lines(
    entry: Entry, record: Mapping[str, Any], notes: Iterable[Note], screen: Screen, *, graded: bool = True
) -> list[str]:
    """The whole episode: what was asked, how it was graded (unless that is kept hidden), every step, the notes."""
    task = mapping(record.get("task"))
    lines = [
        screen.paint(line(f"{entry.task_id}  trial {entry.trial}"), "bold"),
        screen.paint(line(f"{entry.episode_id}  {entry.agent}"), "dim"),
        "",
        *screen.wrapped(text(task.get("instruction")) or text(record.get("prompt"))),
        "",
        *(_grade(entry, record, screen) if graded else ["The grade is hidden until you have judged the episode."]),
        "",
    ]
    for at, step in enumerate(rows(record.get("steps")), 1):
        lines += _step(at, step, screen)
    for note in notes:
        lines += _note(note, entry, screen)
    return lines


def comparison_lines(pair: Sequence[tuple[Entry, Mapping[str, Any]]], screen: Screen) -> list[str]:
    """Two rollouts side by side, aligned on their calls, with the place where they part."""
    steps = [rows(record.get("steps")) for _, record in pair]
    names = [f"{line(entry.episode_id)[:12]} {entry.outcome}{', harm' if entry.harm else ''}" for entry, _ in pair]
    common = parting([call_key(step) for step in steps[0]], [call_key(step) for step in steps[1]])
    half = (screen.width - 3) // 2
    lines = [screen.paint(f"{fit(f'A {names[0]}', half)} | B {names[1]}", "bold")]
    parted = False
    for row in align(steps[0], steps[1]):
        if row.kind != "same" and not parted:
            parted = True
            lines.append(screen.paint(f"-- they part at step {common + 1} --", "failure"))
        lines.append(_side_by_side(row, steps, half, screen))
    if not parted:
        lines.append("Every call is the same.")
    return lines


def _grade(entry: Entry, record: Mapping[str, Any], screen: Screen) -> list[str]:
    metadata = mapping(record.get("metadata"))
    reward = "no reward" if entry.reward is None else f"reward {entry.reward:.2f}"
    lines = [screen.paint(f"{entry.outcome}{', harm' if entry.harm else ''}, {reward}", look(entry))]
    if entry.outcome == "void":
        lines += screen.wrapped(text(metadata.get("void_reason")), "    ")
    lines += [out for harm in rows(metadata.get("harms")) for out in _finding("harm", harm, screen)]
    for check in rows(metadata.get("checks")):
        lines += _finding("success" if check.get("passed") is True else "failure", check, screen)
    return lines


def _finding(kind: str, found: Mapping[str, Any], screen: Screen) -> list[str]:
    lines = [screen.paint(f"{MARKS[kind]} {line(text(found.get('name')))}", kind)]
    return lines + (screen.wrapped(text(found.get("detail")), "    ") if text(found.get("detail")) else [])


def _step(at: int, step: Mapping[str, Any], screen: Screen) -> list[str]:
    seconds = number(step.get("seconds"))
    time = "" if seconds is None else f"  {seconds:.3f} s"
    lines = [screen.paint(f"{at:>4}  {line(_call(step))}", "bold") + time]
    if step.get("error"):
        return lines + [screen.paint(out, "harm") for out in screen.wrapped(error_text(step["error"]), "      ")]
    return lines + screen.wrapped(_written(step.get("result")), "      ", LONGEST_RESULT)


def _note(note: Note, entry: Entry, screen: Screen) -> list[str]:
    right, step, labels = note.get("grade_right"), note.get("step"), note.get("labels")
    verdict = "" if right is None else f"grade {'right' if right else 'wrong'}"
    said = [f"note of {note['reviewer']}", "" if step is None else f"step {step + 1}", verdict]
    said += [label for label in labels if isinstance(label, str)] if isinstance(labels, list) else []
    stale = " (on another version of this record)" if note["record_sha256"] != entry.sha256 else ""
    lines = ["", screen.paint(line(f"{', '.join(part for part in said if part)}{stale}"), "bold")]
    return lines + (screen.wrapped(text(note.get("text")), "    ") if text(note.get("text")) else [])


def _side_by_side(row: Row, steps: Sequence[Sequence[Mapping[str, Any]]], half: int, screen: Screen) -> str:
    sides = [
        "" if at is None else f"{at + 1:>3} {line(_call(steps[side][at]))}"
        for side, at in enumerate((row.left, row.right))
    ]
    mark = {"same": "=", "changed": "~", "other": "≠", "left": "<", "right": ">"}[row.kind]
    shown = f"{fit(sides[0], half)} {mark} {fit(sides[1], half - 2).rstrip()}"
    return screen.paint(shown, "dim") if row.kind == "same" else shown


def _call(step: Mapping[str, Any]) -> str:
    if "action" in step:
        return f"action {_written(step['action'])}"
    arguments = step.get("arguments")
    inner = (
        ", ".join(f"{name}: {_written(value)}" for name, value in arguments.items())
        if isinstance(arguments, Mapping)
        else _written(arguments)
    )
    return f"{text(step.get('tool')) or 'no tool'}({inner})"


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
