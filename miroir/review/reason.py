"""Why an episode failed, told without a model: what episodes that failed alike have in common."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..records.shape import mapping, rows, text

_LONGEST = 120  # characters of an error that tell it from others
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
_ADDRESSES = re.compile(r"\S+@\S+|\w+://\S+|(?<!\w)/\S+")
_REPEATED = re.compile(r"…(?:,? …)+")
_NUMBERS = re.compile(r"\b(?:0x)?[0-9a-fA-F]*\d[0-9a-fA-F]*\b")


class Reason(NamedTuple):
    """What was first at fault (void, harm, an unmet check, or none), the last error's signature, how it ended."""

    fault: str
    error: str
    ended_by: str


def reason_of(record: Mapping[str, Any], outcome: str) -> Reason | None:
    """The reason of a record that failed, is void or did harm; None of a clean success."""
    metadata = mapping(record.get("metadata"))
    harms = [text(harm.get("name")) for harm in rows(metadata.get("harms"))]
    ended_by = text(metadata.get("ended_by"))
    if outcome == "void":
        return Reason(f"void: {signature(text(metadata.get('void_reason'))) or 'no reason given'}", "", ended_by)
    if outcome == "success" and not (harms or metadata.get("harm")):
        return None
    unmet = [text(check.get("name")) for check in rows(metadata.get("checks")) if not check.get("passed")]
    if outcome == "success":
        return Reason(f"harm: {harms[0] if harms else 'unnamed'}", "", ended_by)
    return Reason(f"unmet: {unmet[0]}" if unmet else "", _last_error(record), ended_by)


def signature(message: str) -> str:
    """The first line of an error, with quoted words, addresses, paths and numbers taken out."""
    first = message.strip().partition("\n")[0][: 8 * _LONGEST]
    for details, mark in ((_QUOTED, "'…'"), (_ADDRESSES, "…"), (_NUMBERS, "#"), (_REPEATED, "…")):
        first = details.sub(mark, first)
    return first[:_LONGEST]


def error_text(error: Any) -> str:
    """A step's error as one text: its type and its message."""
    if isinstance(error, Mapping):
        parts = (text(error.get("error_type")), text(error.get("message")))
        return ": ".join(part for part in parts if part) or "an error without a message"
    return "" if error is None else str(error)


def _last_error(record: Mapping[str, Any]) -> str:
    errors = [step["error"] for step in rows(record.get("steps")) if step.get("error")]
    return signature(error_text(errors[-1])) if errors else ""
