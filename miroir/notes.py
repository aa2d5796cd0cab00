"""Reviewers' notes on episodes: one JSON line each, appended beside the traces and never in them.

A note names its episode and the SHA-256 of the record that was read, so that a verdict on a record that has changed
since counts for nothing. The shape is in `miroir/serve/PROTOCOL.md`.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypedDict, cast

from .disk import append
from .errors import RecordError
from .records.canonical import canonical
from .wire import encode

_log = logging.getLogger("miroir.notes")

NOTE_SCHEMA = 1

_BLANK = "\ufeff \t\r"  # at the ends of a line; the first is a byte order mark

Reviewed = tuple[str, str]  # episode_id and record_sha256


class Note(TypedDict):
    """What one reviewer said of an episode, at one step or (`step` null) as a whole."""

    schema: int
    episode_id: str
    record_sha256: str
    at: str
    reviewer: str
    labels: list[str]
    grade_right: bool | None
    step: int | None
    text: str


_TYPES: Mapping[str, tuple[type, ...]] = {
    "episode_id": (str,),
    "record_sha256": (str,),
    "reviewer": (str,),
    "grade_right": (bool, type(None)),
    "step": (int, type(None)),
}


def record_sha256(record: Mapping[str, Any]) -> str:
    """SHA-256 in hex of the record's canonical JSON."""
    return hashlib.sha256(canonical(record)).hexdigest()


def read_notes(path: str | os.PathLike[str]) -> list[Note]:
    """The notes of a file, in their order; RecordError where it is unreadable or a line is no note.

    A half-written last line, of a page that still writes it, is left out with a warning. What editors leave behind is
    no fault: byte order marks, other ends of lines, a last line without one.
    """
    name = os.fspath(path)
    try:
        lines = Path(path).read_bytes().decode().split("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise RecordError(f"the notes {name} cannot be read: {reason}; name a notes file") from error
    if _is_cut(lines[-1]):
        _log.warning("%s:%d: the last line is half written and left out; end it, or remove it", name, len(lines))
        del lines[-1]
    return [_note(line, f"{name}:{number}") for number, line in enumerate(lines, 1) if line.strip(_BLANK)]


def _is_cut(last: str) -> bool:
    """Whether what follows the last newline is half a note."""
    try:
        json.loads(last.strip(_BLANK) or "{}")
    except (ValueError, RecursionError):
        return True
    return False


def verdicts(notes: Iterable[Note]) -> dict[Reviewed, bool]:
    """Whether the grade was right, by episode and record hash; false where any reviewer holds it to be wrong.

    Of a reviewer's notes on an episode the last at each step holds.
    """
    holding: dict[tuple[Reviewed, str, int | None], bool | None] = {}
    for note in notes:
        place = ((note["episode_id"], note["record_sha256"]), note["reviewer"], note.get("step"))
        holding[place] = note.get("grade_right")
    said: dict[Reviewed, bool] = {}
    for (reviewed, _, _), right in holding.items():
        if right is not None:
            said[reviewed] = said.get(reviewed, True) and right
    return said


def append_note(path: str | os.PathLike[str], note: Note) -> None:
    """Append the note as a line of its own; RecordError, with nothing written, where it is none or not saved."""
    line = encode(_checked(dict(note), "a note")).encode() + b"\n"
    try:
        append(path, line)
    except OSError as error:
        raise RecordError(
            f"the note was not saved to {os.fspath(path)}: {error.strerror}; name another file"
        ) from error


def _note(line: str, place: str) -> Note:
    try:
        value = json.loads(line.strip(_BLANK))
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{place}: not JSON; repair or remove the line") from error
    return _checked(value, place)


def _checked(value: Any, place: str) -> Note:
    if not isinstance(value, dict):
        raise RecordError(f"{place}: not a note, which is a JSON object; repair or remove it")
    schema = value.get("schema", NOTE_SCHEMA)
    if isinstance(schema, int) and schema > NOTE_SCHEMA:
        raise RecordError(f"{place}: a note of schema {schema}, where this miroir reads {NOTE_SCHEMA}; upgrade miroir")
    for name, types in _TYPES.items():
        if type(value.get(name)) not in types:
            raise RecordError(f"{place}: not a note: its {name} is {value.get(name)!r:.60}; repair or remove it")
    return cast("Note", value)
