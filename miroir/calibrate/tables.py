"""A calibration for people: the table, and its summary. The same cells as CSV and as Markdown."""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..columns import aligned
from .entries import CLASSES
from .names import named, shown

Entries = Mapping[str, Mapping[str, Any]]
Column = tuple[str, str]  # heading, and key of an entry


def overview(
    document: Mapping[str, Any], out: str | os.PathLike[str], *, wide: bool = False, in_markdown: bool = False
) -> str:
    """What a calibration that was written to `out` says: the table, the summary and the suite's numbers."""
    tasks, k, group = document["tasks"], document["k"], document["group"]
    parts = (
        (markdown if in_markdown else table)(tasks, k, group=group, wide=wide),
        summary(tasks, document["model"], k, out),
        suite_lines(document["suite"], k, group),
    )
    return ("\n\n" if in_markdown else "\n").join(parts)


def table(entries: Entries, k: int, *, group: int | None = None, wide: bool = False) -> str:
    """The tasks as aligned text, two decimals, `-` for what cannot be known; `wide` adds the columns at the right."""
    return aligned(_rows(entries, _columns(k, group, wide=wide)), numbers=True)


def markdown(entries: Entries, k: int, *, group: int | None = None, wide: bool = False) -> str:
    """The same cells as a Markdown table."""
    head, *rows = ([cell.replace("|", "\\|") for cell in row] for row in _rows(entries, _columns(k, group, wide=wide)))
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def comma_separated(entries: Entries) -> str:
    """Every number of every entry, unrounded, as CSV with a heading; empty for what cannot be known."""
    plain = [{"task_id": task_id, **_flat(one)} for task_id, one in entries.items()]
    out = io.StringIO()
    writer = csv.DictWriter(out, list(plain[0]) if plain else ["task_id"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(plain)
    return out.getvalue()


def summary(entries: Entries, model: str, k: int, out: str | os.PathLike[str]) -> str:
    """Tasks and classes, unclassed and short tasks by name, void rollouts, and what the file is about."""
    kinds = Counter(one["class"] for one in entries.values())
    counts = ", ".join(f"{kinds[kind]} {kind.replace('_', ' ')}" for kind in CLASSES)
    lines = [f"{len(entries)} tasks: {counts}"]
    unclassed = [task_id for task_id, one in entries.items() if one["class"] is None]
    if unclassed:
        lines.append(f"{len(unclassed)} without a class, having fewer than two graded rollouts: {named(unclassed)}")
    short = [task_id for task_id, one in entries.items() if one["rollouts"] < k]
    if short:
        lines.append(f"pass@{k} and pass^{k} are null for {len(short)} with fewer than {k} of them: {named(short)}")
    void = sum(one["void"] for one in entries.values())
    total = void + sum(one["rollouts"] for one in entries.values())
    lines.append(f"{void} of {total} rollouts void ({100 * void / total if total else 0:.1f} %)")
    lines.append(f"model {model}, k {k}: {os.fspath(out)}")
    return "\n".join(lines)


def suite_lines(suite: Mapping[str, Any], k: int, group: int) -> str:
    """The suite's numbers in two sentences."""
    useful = suite["useful_groups_per_100"]
    yields = "no task has so many" if useful is None else f"{useful:.0f} in 100 are mixed"
    settled = (
        f"at most {suite['rollouts_to_settle']} more rollouts settle {suite['unsure']} unsure tasks"
        if suite["unsure"]
        else "every class is sure"
    )
    void = f"void {100 * suite['void_rate']:.1f} %"
    if suite["void"]:
        low, high = suite["pass@1_void_bounds"]
        void += f" (pass@1 {low:.2f}..{high:.2f} had they all failed or succeeded)"
    return (
        f"reward {_estimate(suite['reward'])}; pass@{k} {_estimate(suite['pass@k'])}; "
        f"pass^{k} {_estimate(suite['pass^k'])}; "
        f"{void}, harm {100 * suite['harm_rate_all']:.1f} %\n"
        f"of groups of {group} rollouts {yields}; {settled}"
    )


def _columns(k: int, group: int | None, *, wide: bool) -> Sequence[Column]:
    fixed = (
        ("n", "rollouts"),
        ("void", "void"),
        ("pass@1", "pass@1"),
        (f"pass@{k}", "pass@k"),
        (f"pass^{k}", "pass^k"),
        ("reward", "reward_mean"),
        ("var", "reward_variance"),
        ("harm", "harm_rate"),
        ("class", "class"),
    )
    more = (
        ("sure", "sure"),
        (f"mixed@{group or k}", "mixed@G"),
        ("95 %", "pass@1_interval"),
        ("min", "reward_min"),
        ("max", "reward_max"),
        ("difficulty", "difficulty"),
        ("seconds", "episode_s"),
        ("steps", "steps"),
        ("tokens", "tokens"),
    )
    return (*fixed, *more) if wide else fixed


def _rows(entries: Entries, columns: Sequence[Column]) -> list[list[str]]:
    head = ["task", *(heading for heading, _ in columns)]
    return [head, *([shown(task_id), *(_cell(one.get(key)) for _, key in columns)] for task_id, one in entries.items())]


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}"
    if isinstance(value, list):
        return "..".join(map(_cell, value))
    return "-" if value is None else str(value)


def _flat(one: Mapping[str, Any]) -> dict[str, Any]:
    low, high = one["pass@1_interval"] or (None, None)
    flat = {key: value for key, value in one.items() if key not in ("pass@1_interval", "void_by")}
    return {**flat, "pass@1_low": low, "pass@1_high": high}


def _estimate(one: Mapping[str, Any]) -> str:
    ends = "" if one["low"] is None else f" ({one['low']:.2f}..{one['high']:.2f})"
    return f"{one['mean']:.2f}{ends}"
