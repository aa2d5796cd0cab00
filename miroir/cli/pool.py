"""`miroir pool`: start environment servers and keep their URL file true, or show a fleet's health."""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from ..errors import InvalidArgument
from .serve import ENV_OPTIONS

if TYPE_CHECKING:
    from ..pool import Event

HELP = "start environment servers and keep their URL file true"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `miroir pool`."""
    parser.set_defaults(env_options=[])
    parser.epilog = ENV_OPTIONS
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--env", metavar="ENV", help="serve this one: office, ors, or package.module:Class")
    what.add_argument("--status", nargs="+", metavar="URLS", help="show the health of a URL file, base URLs, or dns://")
    parser.add_argument("--engine", choices=("process",), default="process", help="what runs the servers")
    parser.add_argument("-n", type=int, metavar="N", help="how many servers")
    parser.add_argument("--urls", metavar="FILE", help="the URL file to write (without it, the URLs go to stdout)")
    parser.add_argument("--token-env", metavar="NAME", help="the environment variable that holds the servers' token")
    parser.add_argument("--allow-code", action="store_true", help="let the environments run code that a model wrote")
    parser.add_argument("--max-sessions", type=int, metavar="M", help="sessions of one server (default: its own)")
    parser.add_argument("--log-dir", metavar="DIR", help="keep the servers' output here")
    parser.add_argument("--wait", type=float, default=60.0, metavar="S", help="seconds for a server to become ready")
    parser.add_argument("--json", action="store_true", help="with --status: JSON instead of a table")


def command(args: argparse.Namespace) -> int:
    """Run a pool until it is stopped, or show a status."""
    return _status(args) if args.status else _run(args)


def _run(args: argparse.Namespace) -> int:
    from ..pool import Pool, ProcessEngine, Timing
    from ..pool.signals import stopped_by_signals
    from ..serve import names, options

    if args.n is None:
        raise InvalidArgument("how many servers? add -n N")
    names.reference(args.env)  # a name that no server could know
    if args.env_options:
        options.configured(names.find(args.env), args.env_options, args.env)
    engine = ProcessEngine(
        args.env,
        options=args.env_options,
        token_env=args.token_env,
        allow_code=args.allow_code,
        max_sessions=args.max_sessions,
        log_dir=args.log_dir,
        timing=Timing(start_s=args.wait),
    )
    pool = Pool(engine, n=args.n, urls_file=args.urls, on_event=_tell)
    with stopped_by_signals(pool) as caught, pool:
        if caught.first is None:
            _announce(pool.urls, args.urls)
        pool.wait()
        _say("stopping")
    return 130 if caught.first == signal.SIGINT else 0


def _announce(urls: list[str], path: str | None) -> None:
    if path is None:
        print("\n".join(urls), flush=True)
    _say(f"{len(urls)} ready{f', listed in {path}' if path else ''}; Ctrl-C stops them")


def _tell(event: Event) -> None:
    _say("\n    ".join([str(event), *event.log]))


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # a pool outlives the terminal that it talks to
        print(text, file=sys.stderr, flush=True)


def _status(args: argparse.Namespace) -> int:
    from ..pool.status import read_statuses, table
    from ..rest import secret_from
    from ..urls import Source, from_words

    urls = Source.of(from_words(args.status)).read()
    statuses = read_statuses(urls, secret_from(args.token_env))
    print(json.dumps([asdict(status) for status in statuses], indent=2) if args.json else table(statuses))
    return 0 if all(status.healthy for status in statuses) else 1
