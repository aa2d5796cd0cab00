"""`miroir pool`: start environment servers and keep their URL file true, or show a fleet's health."""

from __future__ import annotations

import argparse
import json
import signal
from dataclasses import asdict
from typing import TYPE_CHECKING

from ..errors import InvalidArgument
from . import engines
from .serve import ENV_OPTIONS

if TYPE_CHECKING:
    from ..pool import Engine, Event

HELP = "start environment servers and keep their URL file true"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `miroir pool`."""
    parser.set_defaults(env_options=[])
    parser.epilog = ENV_OPTIONS
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--env", metavar="ENV", help="serve this one: office, appworld, ors, or package.module:Class")
    what.add_argument("--image", metavar="IMAGE", help="run containers of this image")
    what.add_argument("--status", nargs="+", metavar="URLS", help="show the health of a URL file, base URLs, or dns://")
    what.add_argument("--attach", metavar="ID", help="take over the pool of a process that is gone")
    what.add_argument("--stop", metavar="ID", help="stop a pool")
    what.add_argument("--scale", nargs=2, metavar=("ID", "N"), help="have a pool on Swarm run N containers")
    parser.add_argument("--engine", choices=engines.ENGINES, help="what runs them (--env: process, --image: docker)")
    parser.add_argument("-n", type=int, metavar="N", help="how many servers")
    parser.add_argument("--urls", metavar="FILE", help="the URL file to write (without it, the URLs go to stdout)")
    parser.add_argument("--token-env", metavar="NAME", help="the environment variable that holds the servers' token")
    parser.add_argument("--allow-code", action="store_true", help="let the environments run code that a model wrote")
    parser.add_argument("--max-sessions", type=int, metavar="M", help="sessions of one server (default: its own)")
    parser.add_argument("--log-dir", metavar="DIR", help="keep the servers' output here")
    parser.add_argument("--wait", type=float, default=60.0, metavar="S", help="seconds for a server to become ready")
    parser.add_argument("--min", type=int, metavar="K", help="start with K ready, and try again those that failed")
    parser.add_argument("--recycle-after", type=int, metavar="K", help="replace a server after K leases, between two")
    parser.add_argument("--force", action="store_true", help="with --attach and --stop: its process is gone elsewhere")
    engines.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="with --status: JSON instead of a table")


def command(args: argparse.Namespace) -> int:
    """Run a pool until it is stopped, or do one thing to one, or show a status."""
    if args.status:
        return _status(args)
    if args.stop or args.scale:
        return _control(args)
    if args.attach:
        return _attach(args)
    if args.n is None:
        raise InvalidArgument("how many servers? add -n N")
    if (args.engine == "kubernetes") != args.print:
        raise InvalidArgument("--engine kubernetes prints a manifest, and nothing else does; give it with --print")
    if args.image is None:
        return _run(args, _process_engine(args), args.n, args.min)
    if args.engine == "process":
        raise InvalidArgument("the engine process runs no image; name an environment with --env, or leave --engine out")
    return _print(args) if args.print else _run(args, engines.image_engine(args), args.n, args.min)


def _print(args: argparse.Namespace) -> int:
    from ..pool.kubernetes import manifest

    print(manifest(engines.container_spec(args), args.n), end="")
    return 0


def _control(args: argparse.Namespace) -> int:
    from ..pool import control

    docker = engines.docker_command(args)
    if args.stop:
        control.stop_pool(args.stop, docker=docker, force=args.force)
        return 0
    pool_id, n = args.scale
    if not n.isdigit():
        raise InvalidArgument(f"{n!r} is not a number of containers; write --scale ID N")
    control.scale_pool(pool_id, int(n), docker=docker)
    return 0


def _attach(args: argparse.Namespace) -> int:
    from ..pool import Timing, control

    engine, n = control.adopt(
        args.attach,
        docker=engines.docker_command(args),
        force=args.force,
        recycle_after=args.recycle_after,
        timing=Timing(start_s=args.wait),
        alone=True,
    )
    return _run(args, engine, n, least=0)


def _process_engine(args: argparse.Namespace) -> Engine:
    from ..pool import ProcessEngine, Timing

    return ProcessEngine(
        args.env,
        options=_env_options(args),
        token_env=args.token_env,
        allow_code=args.allow_code,
        max_sessions=args.max_sessions,
        recycle_after=args.recycle_after,
        log_dir=args.log_dir,
        timing=Timing(start_s=args.wait),
    )


def _env_options(args: argparse.Namespace) -> list[str]:
    """The environment's own options; the engine is one of them where servers of its own stand behind it."""
    from ..serve import names, options

    names.reference(args.env)  # a name that no server could know
    words = list(args.env_options)
    if not words and args.engine in (None, "process"):
        return words
    kind = names.find(args.env)
    if args.engine is not None and options.takes(kind, "engine"):
        words += ["--engine", args.engine]
    elif args.engine not in (None, "process"):
        raise InvalidArgument(f"the engine {args.engine} runs an image; name it with --image")
    options.configured(kind, words, args.env)
    return words


def _run(args: argparse.Namespace, engine: Engine, n: int, least: int | None) -> int:
    from ..pool import Pool
    from .signals import stopped_by_signals
    from .talk import talking

    with talking() as say:
        pool = Pool(engine, n=n, least=least, urls_file=args.urls, on_event=lambda event: say(_told(event)))
        with stopped_by_signals(pool) as caught, pool:
            if caught.first is None:
                if args.urls is None:
                    print("\n".join(pool.urls), flush=True)
                say(_ready(len(pool.urls), args.urls, getattr(engine, "pool_id", None)))
            pool.wait()
            say("stopping")
    return 130 if caught.first == signal.SIGINT else 0


def _ready(count: int, path: str | None, pool_id: str | None) -> str:
    of_pool = f" in the pool {pool_id}" if pool_id else ""
    return f"{count} ready{of_pool}{f', listed in {path}' if path else ''}; Ctrl-C stops them"


def _told(event: Event) -> str:
    return "\n    ".join([str(event), *event.log])


def _status(args: argparse.Namespace) -> int:
    from ..pool.status import read_statuses, table
    from ..rest import secret_from
    from ..urls import Source, from_words

    urls = Source.of(from_words(args.status)).read()
    statuses = read_statuses(urls, secret_from(args.token_env))
    print(json.dumps([asdict(status) for status in statuses], indent=2) if args.json else table(statuses))
    return 0 if all(status.healthy for status in statuses) else 1
