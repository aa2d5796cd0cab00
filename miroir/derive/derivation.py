"""Training data from records: read once, choose, write."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

from ..calibrate.inputs import hashed
from ..errors import RecordError
from ..records import Report as LoadReport
from ..records import load
from ..records.schema import GRADE_KEYS
from ..records.sources import Traces, sources, spare
from .card import card
from .encoding import encoded
from .formats import Format, Kind, format_named
from .funnel import PAIR_STAGES, Funnel
from .manifest import Report, lost, notes, task_counts
from .measure import histogram
from .options import Options
from .output import Files, check_place, siblings
from .pairs import Pair, Pairing
from .selection import Candidate, Source, balanced, current, most_of_a_task, picked, unique, validation_tasks
from .spill import Spill
from .workshop import Workshop


def derive(
    traces: Traces,
    format_name: str,
    out: str | os.PathLike[str],
    options: Options | None = None,
    *,
    force: bool = False,
    dry_run: bool = False,
) -> Report:
    """Write the training rows that the records give to `out`, and beside it validation rows, a manifest and a card.

    Nothing is written unless all is, and nothing in a dry run. `force` replaces what is there. ValueError for options
    that do not fit, records that must not be trained on, and where no row is left.
    """
    format_, options, place = format_named(format_name), options or Options(), Path(out)
    options.refuse_for(format_)
    check_place(place, format_)
    beside = siblings(place)
    files = Files(force=force)
    if not dry_run:
        files.reserve([place, *beside.values()])
    found, loaded = sources(traces), LoadReport()
    for target in (place, *beside.values()):
        spare((source.name for source in found), target)
    spilling = nullcontext() if dry_run else Spill(_existing(place.parent))
    with hashed(found) as digests, files.published(), spilling as spill:
        workshop = Workshop(format_, options, spill)
        for record in load(found, require=GRADE_KEYS, skip_bad=options.skip_bad, report=loaded):
            workshop.take(record)
        chosen = _chosen(workshop, format_, options)
        if not chosen.units:
            raise RecordError(_nothing(loaded, chosen))
        held_out = validation_tasks((unit.task_id for unit in chosen.units), options.validation, options.seed)
        if spill is None:
            return _report(workshop, chosen, held_out, digests(), {}, loaded)
        written = _write(files, format_, chosen.units, held_out, [place, beside["validation"]], spill)
        report = _report(workshop, chosen, held_out, digests(), written, loaded)
        _describe(files, beside, report.named(), place.name)
    return report


def _nothing(loaded: LoadReport, chosen: Chosen) -> str:
    """Why no row is left."""
    if not loaded.records:
        return f"there is no record to derive from ({loaded}); name trace files that hold records"
    return f"nothing is left: {'; '.join(funnel.sentence() for funnel in chosen.funnels)}"


def _describe(files: Files, beside: Mapping[str, Path], report: Report, name: str) -> None:
    """Write the manifest and the card."""
    files.text(beside["manifest"], json.dumps(report.manifest(), indent=2, ensure_ascii=False) + "\n")
    files.text(beside["card"], card(report, name))


class Unit(NamedTuple):
    """What is written together: the rows of one episode, or the row of one pair."""

    task_id: str
    source: Source
    name: str
    lengths: tuple[int, ...]
    rows: Callable[[Spill], list[bytes]]

    @property
    def row_count(self) -> int:
        """How many rows it has; one whose length is not known is one."""
        return max(1, len(self.lengths))


class Chosen(NamedTuple):
    """What is to be written, and how it was chosen."""

    units: list[Unit]
    funnels: list[Funnel]


def _chosen(workshop: Workshop, format_: Format, options: Options) -> Chosen:
    funnel = workshop.funnel
    candidates = current(workshop.candidates, workshop.versions.current(), funnel)
    if format_.kind is Kind.TASKS:
        candidates = picked(candidates, "first", lambda _: 1, options.seed, funnel)
    elif format_.kind is not Kind.TABLE:
        candidates = unique(candidates, funnel)
    if format_.kind is Kind.PAIRS:
        pair_funnel = Funnel("possible pairs", PAIR_STAGES)
        pairing = Pairing(
            options.pairs, options.margin, options.length_ratio, options.max_pairs, options.max_uses, options.seed
        )
        units = [_pair_unit(pair, format_) for pair in pairing.pairs(candidates, pair_funnel)]
        return Chosen(units, [funnel, pair_funnel])
    most = _most(workshop, candidates, options)
    if most is not None:
        candidates = picked(candidates, options.pick or "first", most, options.seed, funnel)
    return Chosen([_episode_unit(candidate) for candidate in candidates], [funnel])


def _most(workshop: Workshop, candidates: Sequence[Candidate], options: Options) -> Callable[[str], int] | None:
    """How many records a task may give; None for all."""
    cap = options.k or (1 if options.pick else None)
    if options.balance:
        return balanced(cap or most_of_a_task(candidates), workshop.graded, workshop.successes)
    return None if cap is None else lambda _: cap


def _episode_unit(candidate: Candidate) -> Unit:
    span = candidate.span
    return Unit(
        candidate.task_id,
        candidate.source,
        candidate.episode_id,
        candidate.shape.lengths,
        lambda spill: [] if span is None else spill.rows(span),
    )


def _pair_unit(pair: Pair, format_: Format) -> Unit:
    chosen, rejected, shared = pair
    join = format_.pair

    def rows(spill: Spill) -> list[bytes]:
        assert join
        assert chosen.span
        assert rejected.span
        better, worse = (json.loads(spill.rows(span)[0]) for span in (chosen.span, rejected.span))
        return [encoded(join(better, worse, shared))]

    longer = max(chosen.shape.tokens, rejected.shape.tokens)
    return Unit(chosen.task_id, chosen.source, f"{chosen.episode_id}-{rejected.episode_id}", (longer,), rows)


def _write(
    files: Files, format_: Format, units: Iterable[Unit], held_out: set[str], places: Sequence[Path], spill: Spill
) -> dict[str, int]:
    """Write the units' rows to the training and the validation file; how many went to each."""
    sinks = [files.sink(place, format_) for place in (places if held_out else places[:1])]
    counts: Counter[str] = Counter()
    try:
        for unit in units:
            side = int(unit.task_id in held_out)
            rows = unit.rows(spill)
            sinks[side].write(unit.name, rows)
            counts[str(places[side])] += 1 if format_.file_each else len(rows)
    finally:
        for sink in sinks:
            sink.close()
    return {str(place): counts[str(place)] for place in places[: len(sinks)]}


def _report(
    workshop: Workshop,
    chosen: Chosen,
    held_out: set[str],
    inputs: dict[str, str | None],
    written: dict[str, int],
    loaded: LoadReport,
) -> Report:
    lengths = histogram([length for unit in chosen.units for length in unit.lengths])
    format_, options = workshop.format, workshop.options
    near = sorted(workshop.near.values(), key=lambda each: (-each.share, each.task_id))
    rows: Counter[str] = Counter()
    for unit in chosen.units:
        rows[unit.task_id] += unit.row_count
    return Report(
        format=format_,
        options=options,
        inputs=inputs,
        funnels=chosen.funnels,
        files=written,
        rows=rows.total(),
        tasks=task_counts(workshop.graded, workshop.successes, rows, held_out),
        lengths=lengths,
        unit=workshop.yardstick.unit,
        near=near,
        redacted=workshop.redaction.count,
        notes=[*lost(loaded), *notes(format_, chosen.funnels, lengths, near, workshop.toolsets.seen)],
        sources=Counter(unit.source for unit in chosen.units),
    )


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    return next(parent for parent in (folder, *folder.absolute().parents) if parent.is_dir())
