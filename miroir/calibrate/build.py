"""Calibrating: from trace files to the document of a calibration file."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from ..errors import InvalidArgument, RecordError
from ..records import Report, convert, load
from ..records.importers import suffixes
from ..records.schema import GRADE_KEYS
from ..records.sources import SUFFIXES, Source, Traces, sources
from .disputes import Disputes
from .entries import classify, entry
from .file import SCHEMA, write_calibration
from .inputs import hashed
from .suite import suite
from .tables import overview
from .tallies import Tally, tally


def run_calibrate(
    traces: Traces, model: str, out: str | os.PathLike[str], k: int | None = None, **options: Any
) -> None:
    """Calibrate the tasks of the traces, write the file `out`, and print its table and summary.

    The options are those of `calibrate`. ValueError kinds where it cannot be done; the old file is then untouched.
    """
    document = calibrate(traces, model, k=k, **options)
    write_calibration(document, out)
    print(overview(document, out))


def calibrate(
    traces: Traces,
    model: str,
    *,
    k: int | None = None,
    group: int | None = None,
    agent_filter: str | None = None,
    model_filter: str | None = None,
    versions: Collection[str] = (),
    kind: str | None = None,
    skip_bad: bool = False,
    notes: str | os.PathLike[str] | None = None,
    report: Report | None = None,
) -> dict[str, Any]:
    """The document of a calibration file: each task's entry, the suite's numbers, the inputs and what was left out.

    `model` is a label. `k` None is the fewest graded rollouts of a task that has a class; `group` None is k, at least
    2. `kind` reads another tool's files (`records.convert`). Filters and versions are `tally`'s. Records that reviewers
    in the file `notes` hold to be wrongly graded are left out.
    """
    report = report or Report()
    disputes = Disputes(notes)
    files = sources(traces, suffixes(kind) if kind else SUFFIXES)
    with hashed(files) as hashes:
        records = _records(files, kind, report, skip_bad=skip_bad, exact=bool(disputes))
        trusted = disputes.others(records)
        tallies = tally(trusted, agent=agent_filter, model=model_filter, versions=versions, checked=True)
        classes = {task_id: classify(one) for task_id, one in sorted(tallies.items())}
        k = _check_k(k, tallies, classes, report)
        group = _check_group(group, k)
        return {
            "schema": SCHEMA,
            "miroir": version("miroir"),
            "model": model,
            "k": k,
            "group": group,
            "agent": _agent(tallies),
            "inputs": _inputs(files, report, hashes()),
            "counts": _counts(report, tallies, disputes.count),
            "suite": suite(tallies, classes, k, group),
            "tasks": {task_id: entry(tallies[task_id], one, k, group) for task_id, one in classes.items()},
        }


def _records(
    files: Sequence[Source], kind: str | None, report: Report, *, skip_bad: bool, exact: bool
) -> Iterator[Mapping[str, Any]]:
    """Records that have GRADE_KEYS. No number read here is an integer beyond 64 bits; hashes need `exact` ones."""
    if kind is not None:
        return _converted(files, kind, report)
    return load(files, require=GRADE_KEYS, skip_bad=skip_bad, exact=exact, report=report)


def _converted(files: Sequence[Source], kind: str, report: Report) -> Iterator[Mapping[str, Any]]:
    for source in files:
        report.files[source.name] = 0
        for record in convert(kind, source.name):
            report.records += 1
            report.files[source.name] += 1
            yield record


def _check_k(k: int | None, tallies: Mapping[str, Tally], classes: Mapping[str, str | None], report: Report) -> int:
    if not report.records:
        raise RecordError(f"there is no record to calibrate by ({report}); name trace files that hold records")
    if not tallies:
        raise RecordError(f"the notes leave out all of {report.records:,} records; leave out --notes to count them")
    sizes = [len(tallies[task_id].rewards) for task_id, kind in classes.items() if kind is not None]
    if not sizes:
        raise RecordError(f"no task has two graded rollouts ({report}); run more rollouts of each task, such as -k 4")
    if k is None:
        return min(sizes)
    if not 1 <= k <= max(sizes):
        raise InvalidArgument(f"k is {k}, and tasks have up to {max(sizes)} graded rollouts; give a k from 1 to that")
    return k


def _check_group(group: int | None, k: int) -> int:
    if group is None:
        return max(2, k)
    if group < 2:
        raise InvalidArgument(f"a group has at least 2 rollouts, got {group}")
    return group


def _agent(tallies: Mapping[str, Tally]) -> dict[str, str | None]:
    name, model = next(one.agent for one in tallies.values() if one.rewards)
    return {"name": name, "model": model}


def _inputs(files: Sequence[Source], report: Report, hashes: Mapping[str, str | None]) -> list[dict[str, Any]]:
    return [
        {"path": one.name, "bytes": one.size, "sha256": hashes[one.name], "records": report.files[one.name]}
        for one in files
    ]


def _counts(report: Report, tallies: Mapping[str, Tally], disputed: int) -> dict[str, int]:
    counted = sum(len(one.rewards) + one.void for one in tallies.values())
    return {
        "records": report.records,
        "counted": counted,
        "left_out": report.records - counted - disputed,  # of other agents or versions
        "disputed": disputed,  # by reviewers' notes
        "duplicates": report.duplicates,
        "torn": len(report.torn),
        "bad": report.bad,
        "rewards_voided": report.voided,
    }
