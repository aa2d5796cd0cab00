"""`miroir calibrate`: class tasks by the records of their rollouts."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

HELP = "class tasks by the records of their rollouts, with intervals"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("traces", nargs="+", metavar="TRACES", help="trace files, folders, patterns, or - for stdin")
    parser.add_argument("--model", required=True, metavar="NAME", help="the label of who played; chooses nothing")
    parser.add_argument("--out", required=True, metavar="FILE", help="the calibration file, replaced when all is well")
    parser.add_argument(
        "-k", type=int, metavar="K", help="of pass@K and pass^K (default: the fewest rollouts of a task)"
    )
    parser.add_argument("--group", type=int, metavar="G", help="the trainer's group size, of mixed@G (default: K)")
    read = parser.add_argument_group("what is read")
    read.add_argument(
        "--from", dest="kind", metavar="KIND", help="results of verifiers, tau-bench, tau2, inspect or inspect:SCORE"
    )
    read.add_argument("--agent-filter", metavar="NAME", help="only records of this agent")
    read.add_argument("--model-filter", metavar="NAME", help="only records of this agent's model")
    read.add_argument(
        "--version", action="append", default=[], metavar="V", help="where a task has several: latest, or a task_hash"
    )
    read.add_argument(
        "--notes", metavar="FILE", help="leave out records that reviewers' notes hold to be wrongly graded"
    )
    read.add_argument("--skip-bad", action="store_true", help="count bad lines instead of refusing them")
    shown = parser.add_argument_group("what is shown")
    how = shown.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="the calibration file's document instead of the table")
    how.add_argument("--csv", action="store_true", help="every number of every task")
    how.add_argument("--markdown", action="store_true", help="the table in Markdown")
    shown.add_argument("--wide", action="store_true", help="more columns")
    shown.add_argument("--against", metavar="FILE", help="compare with this calibration file, task by task")
    shown.add_argument(
        "--fail-under",
        action="append",
        default=[],
        metavar="NUMBER=BOUND",
        help="exit with 1 unless the number's lower bound is at least this, as in pass@1=0.4; may be repeated",
    )


def command(args: argparse.Namespace) -> int:
    """Calibrate; 0 when done, 1 when a gate failed."""
    from ..calibrate import calibrate, compare, failures, parse_gate, write_calibration
    from ..records import Report

    gates = [parse_gate(text) for text in args.fail_under]
    report = Report()
    document = calibrate(
        args.traces,
        args.model,
        k=args.k,
        group=args.group,
        agent_filter=args.agent_filter,
        model_filter=args.model_filter,
        versions=args.version,
        kind=args.kind,
        skip_bad=args.skip_bad,
        notes=args.notes,
        report=report,
    )
    if args.against:
        document["against"] = compare(document["tasks"], args.against)
    failed = failures(document, gates)
    write_calibration(document, args.out)
    print(report, *report.bad_lines, sep="\n", file=sys.stderr)
    print(_shown(document, args))
    for reason in failed:
        print(f"failed: {reason}", file=sys.stderr)
    return 1 if failed else 0


def _shown(document: dict[str, Any], args: argparse.Namespace) -> str:
    from ..calibrate import comma_separated, comparison_lines, overview

    if args.json:
        return json.dumps(document, indent=2)
    if args.csv:
        return comma_separated(document["tasks"]).rstrip("\n")
    text = overview(document, args.out, wide=args.wide, in_markdown=args.markdown)
    return f"{text}\n{comparison_lines(document['against'])}" if args.against else text
