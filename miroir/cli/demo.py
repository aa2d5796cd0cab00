"""`miroir demo`: the whole loop on the bundled world."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..demo import Demo

HELP = "play the whole loop on the bundled world: no Docker, no model"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--dir", metavar="DIR", help="the folder of its files (default: a new temporary one)")


def command(args: argparse.Namespace) -> int:
    """Play it; 0 when every episode is graded."""
    from ..calibrate import summary, table
    from ..demo import LABEL, demo
    from .progress import shown
    from .signals import interruptible

    with interruptible(), shown() as progress:
        played = demo(args.dir, on_event=lambda event: print(event, file=sys.stderr), progress=progress)
    tasks, k = played.document["tasks"], played.document["k"]
    print(played.report.table())
    print(f"\n{table(tasks, k)}\n{summary(tasks, LABEL, k, played.calibration)}")
    print("", *played.funnel.lines(), sep="\n")
    print(f"\nrecords: {played.traces}\nreview: {played.page}\n\ngo on with:")
    print(*(f"  {shlex.join(words)}" for words in _next(played)), sep="\n")
    return 1 if played.report.unfinished else 0


def _next(played: Demo) -> list[list[str]]:
    """Commands that go on from the demo's files."""
    from ..demo import LABEL

    folder, traces, urls = played.folder, str(played.traces), str(played.folder / "urls.txt")
    return [
        ["miroir", "review", traces, "--serve"],
        ["miroir", "derive", traces, "--format", "dpo", "--out", str(folder / "dpo.jsonl")],
        ["miroir", "calibrate", traces, "--model", LABEL, "--out", str(played.calibration), "--wide"],
        ["miroir", "pool", "--env", "office", "-n", "4", "--urls", urls],
        ["miroir", "tasks", urls],
        ["miroir", "run", urls, "--out", str(folder / "reference"), "--agent", "miroir.envs.office:reference"],
    ]
