"""`miroir derive`: training data from records."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..derive import Options

HELP = "turn records into files that trainers load"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("traces", nargs="+", metavar="TRACES", help="trace files, folders of them, or - for stdin")
    parser.add_argument("--format", required=True, metavar="F", help="sft, dpo, … ; the README says what each is")
    parser.add_argument("--out", required=True, metavar="FILE", help="the rows: .jsonl, .parquet, .csv, or a folder")
    parser.add_argument("--force", action="store_true", help="replace what is there")
    parser.add_argument("--dry-run", action="store_true", help="write nothing, show what would come through")
    parser.add_argument("--json", action="store_true", help="print the manifest in place of the funnel")
    parser.add_argument("--skip-bad", action="store_true", help="count damaged lines in place of stopping at them")
    _which(parser.add_argument_group("which records"))
    _many(parser.add_argument_group("how many"))
    _pairs(parser.add_argument_group("pairs (dpo)"))
    _guards(parser.add_argument_group("guards"))
    _lengths(parser.add_argument_group("length and split"))


def _which(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--split", action="append", dest="splits", metavar="S", help="only this split; may be repeated")
    group.add_argument("--task", action="append", dest="tasks", metavar="ID", help="only this task; may be repeated")
    group.add_argument("--agent", action="append", dest="agents", metavar="NAME", help="only this agent's episodes")
    group.add_argument("--model", action="append", dest="models", metavar="NAME", help="only this model's episodes")
    group.add_argument("--outcome", metavar="O", help="success, failure or any (the default depends on the format)")
    group.add_argument("--min-reward", type=float, metavar="R", help="only rewards of at least R")
    group.add_argument("--max-reward", type=float, metavar="R", help="only rewards of at most R")
    group.add_argument("--since", metavar="TIME", help="only episodes begun at or after this time")
    group.add_argument("--until", metavar="TIME", help="only episodes begun before this time")
    group.add_argument("--calibration", metavar="FILE", help="only task versions of this calibration file")
    group.add_argument("--class", nargs="+", dest="classes", metavar="CLASS", help="only tasks that it classes so")
    group.add_argument("--tasks", dest="tasks_file", metavar="FILE", help="only task versions of this file of tasks")
    group.add_argument("--version", metavar="V", help="where tasks have several versions: latest, or a task_hash")
    group.add_argument("--notes", metavar="FILE", help="leave out records that reviewers judged wrongly graded")
    group.add_argument("--only-reviewed", action="store_true", help="take only records judged rightly graded")


def _many(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--pick", metavar="P", help="which records a task gives: first, best, shortest or random")
    group.add_argument("-k", type=int, metavar="K", help="how many (default: all, and 1 with --pick)")
    group.add_argument("--balance", action="store_true", help="the fewer, the more often the task is solved")
    group.add_argument("--seed", type=int, metavar="N", help="the seed of all that is drawn (default: 0)")


def _pairs(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--pairs", metavar="MODE", help="all, near-miss, best-worst or harm (default: all)")
    group.add_argument("--margin", type=float, metavar="M", help="the least difference in reward (default: any)")
    group.add_argument("--length-ratio", type=float, metavar="R", help="the longer is at most R times the shorter")
    group.add_argument("--max-pairs", type=int, metavar="N", help="at most N pairs a task")
    group.add_argument("--max-uses", type=int, metavar="N", help="each record in at most N pairs")


def _guards(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--exclude", action="append", metavar="FILE", help="a file of tasks that nothing may come from")
    group.add_argument("--allow-split", action="append", dest="allow_splits", metavar="S", help="train on this split")
    group.add_argument("--allow-harm", action="store_true", help="take harmful episodes too")
    group.add_argument("--allow-grader-text", action="store_true", help="take episodes that show the grader's text")
    group.add_argument("--allow-invalid-calls", action="store_true", help="take episodes with invalid tool calls")
    group.add_argument("--mask-errors", action="store_true", help="learn no message whose calls all failed")
    group.add_argument("--redact", action="append", metavar="REGEX", help="replace what matches; may be repeated")
    group.add_argument("--canary", action="append", dest="canaries", metavar="TEXT", help="stop where this text occurs")
    group.add_argument("--no-reasoning", action="store_false", dest="reasoning", help="leave out what models thought")
    group.add_argument("--tools", dest="tools_file", metavar="FILE", help="the tools, for records that keep none")


def _lengths(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--tokenizer", metavar="PATH", help="count tokens with this tokenizer.json")
    group.add_argument("--max-tokens", type=int, metavar="N", help="no row is longer")
    group.add_argument("--too-long", metavar="T", help="drop longer rows, or cut them at the end of a turn")
    group.add_argument("--validation", type=float, metavar="SHARE", help="the share of tasks held out for validation")


def command(args: argparse.Namespace) -> int:
    """Derive, and print the funnel."""
    from ..derive import derive
    from ..wire import encode

    report = derive(args.traces, args.format, args.out, _options(args), force=args.force, dry_run=args.dry_run)
    if args.json:
        print(encode(report.manifest()))
        return 0
    print("\n".join(report.lines()))
    print("\n".join(report.notes), file=sys.stderr, end="\n" if report.notes else "")
    return 0


def _options(args: argparse.Namespace) -> Options:
    """The options that were given; the others keep their defaults."""
    from dataclasses import fields

    from ..derive import Options, moment

    given: dict[str, Any] = {}
    for field in fields(Options):
        value = getattr(args, field.name)
        if value is not None:
            given[field.name] = tuple(value) if isinstance(value, list) else value
    for name in given.keys() & {"since", "until"}:
        given[name] = moment(given[name])
    return Options(**given)
