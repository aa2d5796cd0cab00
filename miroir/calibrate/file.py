"""Calibration files: written whole or not at all, read with suspicion, and tasks chosen by them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ..disk import replace_file
from ..errors import InvalidArgument, RecordError
from .entries import CLASSES, LEARNABLE
from .names import named

SCHEMA = 1

Number = int | float
T = TypeVar("T", bound=Mapping[str, Any])


def write_calibration(document: Mapping[str, Any], out: str | os.PathLike[str]) -> None:
    """Write the document to `out` in one step that leaves the old file whole until then; RecordError where it cannot.

    The folders of `out` are created. JSON, indented by 2, with a final newline. InvalidArgument where `out` is a file
    that is no calibration, such as a trace file.
    """
    _refuse_others(out)
    try:
        Path(out).parent.mkdir(parents=True, exist_ok=True)
        replace_file(out, [json.dumps(document, indent=2, allow_nan=False).encode(), b"\n"])
    except OSError as error:
        raise RecordError(f"{out} cannot be written: {error.strerror}; name a file in a writable folder") from error


def _refuse_others(out: str | os.PathLike[str]) -> None:
    """InvalidArgument unless what `out` would replace is a calibration, empty, or nothing that could be lost."""
    path = Path(out)
    try:
        if not path.is_file() or not path.stat().st_size:
            return
        document = json.loads(path.read_bytes())
    except OSError:
        return  # writing it says more
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or not isinstance(document.get("tasks"), dict):
        raise InvalidArgument(f"{out} is there and no calibration file, so it is not replaced; name another output")


def read_calibration(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The document of a calibration file, also of miroir 0.0.1; RecordError where it is another file or incomplete."""
    try:
        document = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}; write it with `miroir calibrate`") from error
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path} is no calibration file: not JSON; write it with `miroir calibrate`") from error
    if not isinstance(document, dict) or not isinstance(document.get("tasks"), dict):
        raise RecordError(f"{path} is no calibration file: it has no tasks; write it with `miroir calibrate`")
    schema = document.get("schema", SCHEMA)
    if schema != SCHEMA:
        raise RecordError(f"{path} has schema {schema!r}, where this miroir reads {SCHEMA}; upgrade miroir")
    incomplete = [task_id for task_id, one in document["tasks"].items() if not _complete(one)]
    _refuse(path, "lacks a task_hash or a known class for", incomplete)
    return document


def calibrated(
    tasks: Sequence[T],
    path: str | os.PathLike[str],
    keep: Sequence[str] = (LEARNABLE,),
    *,
    min_rollouts: int | None = None,
    max_pass: float | None = None,
    min_mixed: float | None = None,
) -> list[T]:
    """The tasks whose class is in `keep`, in their own order; a class of null is never kept.

    Further, those of at least `min_rollouts` graded rollouts, with a pass@1 of at most `max_pass`, and with a mixed@G
    of at least `min_mixed`. ValueError where the file does not fit the tasks, and where no task is left.
    """
    _check_keep(keep)
    entries = read_calibration(path)["tasks"]
    _refuse(path, "has no entry for", [task["id"] for task in tasks if task["id"] not in entries])
    stale = [task["id"] for task in tasks if entries[task["id"]]["task_hash"] != task["task_hash"]]
    _refuse(path, "is of another version (task_hash) of", stale)
    kept = [task for task in tasks if entries[task["id"]]["class"] in keep]
    for key, least, most in (
        ("rollouts", min_rollouts, None),
        ("pass@1", None, max_pass),
        ("mixed@G", min_mixed, None),
    ):
        if least is not None or most is not None:
            unknown = [task["id"] for task in kept if not isinstance(entries[task["id"]].get(key, ""), Number | None)]
            _refuse(path, f"has no {key} for", unknown)
            kept = [task for task in kept if _within(entries[task["id"]][key], least, most)]
    if not kept:
        wanted = " or ".join(keep)
        raise RecordError(f"{path} leaves none of {len(tasks)} tasks as {wanted} within the bounds; keep more classes")
    return kept


def _check_keep(keep: Sequence[str]) -> None:
    unknown = [name for name in keep if name not in CLASSES]
    if isinstance(keep, str) or unknown or not keep:
        raise InvalidArgument(f"keep must name some of {', '.join(CLASSES)}, got {keep!r}")


def _complete(one: Any) -> bool:
    return (
        isinstance(one, dict)
        and isinstance(one.get("task_hash"), str)
        and "class" in one
        and one["class"] in (*CLASSES, None)
    )


def _refuse(path: str | os.PathLike[str], what: str, task_ids: Sequence[str]) -> None:
    if task_ids:
        raise RecordError(f"{path} {what} {named(task_ids)}; run `miroir calibrate` on rollouts of them")


def _within(value: float | None, least: float | None, most: float | None) -> bool:
    return value is not None and (least is None or value >= least) and (most is None or value <= most)
