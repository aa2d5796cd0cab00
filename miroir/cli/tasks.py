"""`miroir tasks`: list an environment's tasks."""

from __future__ import annotations

import argparse
import json

HELP = "list the tasks of an environment"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("urls", nargs="+", metavar="URLS", help="a URL file, base URLs, or dns://name:port")
    parser.add_argument("--split", default="train", metavar="S", help="the split (default: train)")
    parser.add_argument("--token-env", metavar="NAME", help="the environment variable that holds the fleet's token")
    parser.add_argument(
        "--wait", type=float, default=10.0, metavar="S", help="seconds to wait for a first container that answers (10)"
    )
    parser.add_argument("--json", action="store_true", help="one task a line, whole, as `miroir run --tasks` reads it")


def command(args: argparse.Namespace) -> int:
    """Print the tasks."""
    from .. import catalog
    from ..rest import secret_from
    from ..run.jobs import completed
    from ..urls import Source, from_words

    token = secret_from(args.token_env)
    url = catalog.first_alive(Source.of(from_words(args.urls)).read(), token, wait_s=args.wait)
    tasks = completed(catalog.tasks(url, args.split, token), args.split)
    if args.json:
        for task in tasks:
            print(json.dumps(task, ensure_ascii=False))
        return 0
    width = max((len(task["id"]) for task in tasks), default=0)
    for task in tasks:
        first = task["instruction"].strip().split("\n", 1)[0]
        print(f"{task['id'].ljust(width)}  {first[:100]}")
    return 0
