"""`miroir check`: does a server keep the protocol?"""

from __future__ import annotations

import argparse
import json

HELP = "test whether a server keeps the protocol, in a minute"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("url", metavar="URL", help="the base URL of a server that nobody else uses")
    parser.add_argument("--task", metavar="ID", help="the task that is played (default: the first one listed)")
    parser.add_argument("--only", action="append", default=[], metavar="RULE", help="only this rule; may be repeated")
    parser.add_argument("--token-env", metavar="NAME", help="the environment variable that holds the server's token")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def command(args: argparse.Namespace) -> int:
    """Test every rule; 0 when none is broken, 1 when one is."""
    from ..check import check
    from ..rest import secret_from

    report = check(args.url, secret_from(args.token_env), task_id=args.task, only=args.only)
    print(json.dumps(report.as_dict(), indent=2, ensure_ascii=False) if args.json else report.text())
    return 1 if report.broken else 0
