"""`miroir review`: read graded episodes in a browser or a terminal, and judge their grades."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import MiroirError

if TYPE_CHECKING:
    from ..review import Collection, Facts, Settings

HELP = "read graded episodes in a browser or a terminal, and judge their grades"
NOTES = "notes.jsonl"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("traces", nargs="+", metavar="TRACES", help="trace files, folders, patterns, or - for stdin")
    how = parser.add_argument_group("how they are read").add_mutually_exclusive_group()
    how.add_argument("--html", metavar="FILE", help="write a page that needs no server and no network")
    how.add_argument("--serve", action="store_true", help="serve that page to this machine; notes go to a file at once")
    how.add_argument("--terminal", action="store_true", help="the tasks here (default); on a terminal commands follow")
    how.add_argument("--failures", action="store_true", help="the failures here, those that failed alike together")
    how.add_argument("--show", metavar="ID", help="an episode here")
    how.add_argument("--compare", nargs=2, metavar="ID", help="two rollouts here, side by side")
    how.add_argument("--agreement", action="store_true", help="the grader against the people who wrote --notes")
    what = parser.add_argument_group("what is shown")
    what.add_argument(
        "--notes", nargs="+", default=[], metavar="FILE", help="reviewers' notes; new ones go to the first"
    )
    what.add_argument("--calibration", metavar="FILE", help="show each task's class, from miroir calibrate")
    what.add_argument("--title", metavar="TEXT", help="the report's title (default: the names of TRACES)")
    what.add_argument("--labels", nargs="+", metavar="LABEL", help="the labels that reviewers choose from")
    what.add_argument("--redact", nargs="+", default=[], metavar="REGEX", help="take out every text that matches")
    what.add_argument("--max-mb", type=float, metavar="N", help="list what would not fit into N MB without its steps")
    what.add_argument("--skip-bad", action="store_true", help="count bad lines instead of refusing them")
    what.add_argument("--json", action="store_true", help="the tasks' rollouts, or the agreement, as JSON")
    queue = parser.add_argument_group("a queue to judge")
    queue.add_argument("--sample", type=int, metavar="N", help="only N episodes, drawn at random")
    queue.add_argument("--seed", type=int, default=0, metavar="S", help="of the draw (default 0): the same one again")
    queue.add_argument("--stratify", metavar="NAMES", help="draw from each class,outcome,harm,task,agent,ended_by")
    queue.add_argument("--blind", action="store_true", help="hide a grade until you have judged the episode")
    queue.add_argument("--reviewer", metavar="NAME", help="who writes notes in the terminal (default: $USER)")
    parser.add_argument("--port", type=int, default=0, help="port of --serve (default: one that is free)")


def command(args: argparse.Namespace) -> int:
    """Review; 0 when done."""
    from ..review import Collection, agreement, agreement_lines, prepared

    with Collection(args.traces, redact=args.redact, skip_bad=args.skip_bad) as collection:
        facts = prepared(collection, _settings(args))
        print(facts.loaded, file=sys.stderr)
        if args.agreement:
            found = agreement(collection.entries, facts.notes)
            print(json.dumps(found.json(), indent=2) if args.json else "\n".join(agreement_lines(found)))
        elif args.html is not None:
            _write(args, collection, facts, Path(args.html))
        elif args.serve:
            _serve(args, collection, facts)
        elif args.json:
            print(json.dumps([entry.json() for entry in collection.entries], indent=2))
        else:
            _read(args, collection, facts)
    return 0


def _settings(args: argparse.Namespace) -> Settings:
    from ..review import Settings

    writes = args.html is None and not args.agreement  # into a notes file that need not be there yet
    names = [Path(name).resolve().name or "/" for name in args.traces[:3]]
    title = args.title or f"{', '.join(names)}{' and more' if len(args.traces) > 3 else ''}"
    default = Settings()
    return Settings(
        title=title,
        notes=[name for name in args.notes or [NOTES][: args.serve] if not writes or Path(name).exists()],
        calibration=args.calibration,
        labels=args.labels or default.labels,
        size=args.sample,
        seed=args.seed,
        strata=args.stratify.split(",") if args.stratify else (),
        blind=args.blind,
    )


def _write(args: argparse.Namespace, collection: Collection, facts: Facts, out: Path, url: str | None = None) -> None:
    from ..review import MAX_MB, write

    written = write(collection, out, facts, max_mb=MAX_MB if args.max_mb is None else args.max_mb, notes_url=url)
    if written.left_out:
        print(written.left_out, file=sys.stderr)
    if url is None:
        print(written.path)
        if written.pages:
            print(f"with {len(written.pages)} pages in {written.pages[0].parent}; keep them together", file=sys.stderr)


def _serve(args: argparse.Namespace, collection: Collection, facts: Facts) -> None:
    from ..review import ReviewServer
    from .signals import interruptible

    notes = Path(args.notes[0] if args.notes else NOTES)
    records = {entry.episode_id: entry.sha256 for entry in collection.entries}
    folder = Path(tempfile.mkdtemp(prefix="miroir-review-"))
    try:
        with interruptible(), ReviewServer(folder, "report.html", notes, records, port=args.port) as server:
            _write(args, collection, facts, folder / server.cover, url=server.NOTES_URL)
            print(server.url, flush=True)
            print(f"notes go to {notes}; Ctrl-C ends it", file=sys.stderr)
            server.serve_forever()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _read(args: argparse.Namespace, collection: Collection, facts: Facts) -> None:
    from ..review import Console, Screen

    live = sys.stdin.isatty() and sys.stdout.isatty()
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    screen = Screen(width=shutil.get_terminal_size((100, 24)).columns, colour=colour)
    reviewer = args.reviewer or os.environ.get("USER") or "reviewer"
    notes = Path(args.notes[0]) if args.notes else None
    console = Console(collection, facts, screen, reviewer=reviewer, notes=notes)
    _show(console.answer(_first(args)), live=live)
    if live and not (args.failures or args.show or args.compare):
        _converse(console.answer)


def _first(args: argparse.Namespace) -> str:
    if args.show:
        return f"show {args.show}"
    if args.compare:
        return f"compare {' '.join(args.compare)}"
    if args.blind:
        return "next"
    return "failures" if args.failures else "tasks"


def _converse(answer: Callable[[str], list[str]]) -> None:
    """Answer commands until there are no more."""
    while True:
        try:
            words = input("review> ").strip()
        except EOFError:
            return
        if words in ("quit", "q", "exit"):
            return
        try:
            _show(answer(words), live=True)
        except MiroirError as error:
            print(f"error: {error.message}", file=sys.stderr)


def _show(lines: Sequence[str], *, live: bool) -> None:
    """Print the lines, through a pager where they are more than the screen holds."""
    text = "\n".join(lines)
    pager = shlex.split(os.environ.get("PAGER", "less"))
    if live and pager and shutil.which(pager[0]) and len(lines) >= shutil.get_terminal_size().lines:
        subprocess.run(pager, input=text, text=True, check=False, env={"LESS": "-R", **os.environ})
    else:
        print(text)
