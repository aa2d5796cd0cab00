"""`miroir run`: play tasks over a fleet."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import InvalidArgument

if TYPE_CHECKING:
    from ..agents import Agent
    from ..coworkers import CoworkerModel
    from ..report import Progress
    from ..wire import Task

HELP = "play every task k times over a fleet and save the records"
LINE_EVERY_S = 5.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("urls", nargs="+", metavar="URLS", help="a URL file, base URLs, or dns://name:port")
    parser.add_argument("--out", required=True, metavar="DIR", help="the folder of the trace files")
    what = parser.add_argument_group("what is played")
    what.add_argument("--split", action="append", metavar="S", help="a split (default: train); may be repeated")
    what.add_argument("--tasks", metavar="FILE", help="a file of tasks, one JSON object a line, in place of a split")
    what.add_argument("--episodes", type=int, metavar="N", help="N episodes of an environment that lists no tasks")
    what.add_argument("--task", action="append", default=[], metavar="ID", help="only this task; may be repeated")
    what.add_argument(
        "--calibration", metavar="FILE", help="only tasks that this calibration file classes as --keep says"
    )
    what.add_argument("--keep", nargs="+", default=["learnable"], metavar="CLASS", help="classes kept (learnable)")
    what.add_argument("-k", type=int, default=1, metavar="K", help="rollouts of each task (default: 1)")
    what.add_argument("--shard", metavar="i/n", help="only the i-th of n parts, from 0: for several hosts")
    how = parser.add_argument_group("how it is played")
    how.add_argument("--concurrency", type=int, default=32, metavar="C", help="episodes at once (default: 32)")
    how.add_argument("--surface", metavar="S", help="which tools the environment shows: api, mcp or code")
    how.add_argument("--max-seconds", type=int, metavar="S", help="the time limit of an episode")
    how.add_argument("--retries", type=int, default=2, metavar="N", help="how often a void episode is run again (2)")
    how.add_argument("--token-env", metavar="NAME", help="the environment variable that holds the fleet's token")
    how.add_argument("--wait", type=float, default=10.0, metavar="S", help="give up when nothing is alive for so long")
    who = parser.add_argument_group("who plays")
    who.add_argument("--agent", metavar="SPEC", help="module:function, or module:function?option=value&seed=7")
    who.add_argument("--model", metavar="M", help="a chat model")
    who.add_argument("--base-url", metavar="U", help="its OpenAI-compatible endpoint, such as http://127.0.0.1:8000/v1")
    who.add_argument("--api-key-env", metavar="NAME", help="the environment variable that holds its key")
    who.add_argument("--param", action="append", default=[], metavar="K=V", help="a parameter of the model's requests")
    who.add_argument("--coworker-model", metavar="M", help="the model that plays coworkers")
    who.add_argument("--coworker-base-url", metavar="U", help="its endpoint")
    who.add_argument("--coworker-api-key-env", metavar="NAME", help="the environment variable that holds its key")


def command(args: argparse.Namespace) -> int:
    """Run it; 0 when every episode is graded, 1 when some is still void."""
    from ..run import run
    from ..urls import from_words

    tasks = _tasks(args)
    agent = _agent(args)
    with _shown() as progress:
        report = run(
            from_words(args.urls),
            args.out,
            agent,
            token=secret(args.token_env),
            splits=args.split or ("train",),
            tasks=tasks,
            task_ids=args.task,
            narrow=_calibrated(args),
            k=args.k,
            concurrency=args.concurrency,
            retries=args.retries,
            surface=args.surface,
            max_seconds=args.max_seconds,
            coworker_model=_coworker_model(args),
            shard=_shard(args.shard),
            wait_s=args.wait,
            progress=progress,
        )
    print(report.table())
    if report.earlier:
        print(f"{report.earlier} rollouts had a graded record before", file=sys.stderr)
    if report.unfinished:
        print(f"{report.unfinished} rollouts are still void; the same command runs them again", file=sys.stderr)
    return 1 if report.unfinished else 0


def secret(name: str | None) -> str | None:
    """The value of the environment variable that holds a secret."""
    if name is None:
        return None
    value = os.environ.get(name)
    if not value:
        raise InvalidArgument(f"the environment variable {name} is not set; put the secret there")
    return value


def _tasks(args: argparse.Namespace) -> Sequence[Task] | None:
    from ..jobs import numbered, read_tasks

    given = [name for name in ("split", "tasks", "episodes") if getattr(args, name) is not None]
    if len(given) > 1:
        raise InvalidArgument(f"--{given[0]} and --{given[1]} exclude each other; give one")
    if args.tasks is not None:
        return read_tasks(args.tasks)
    return None if args.episodes is None else numbered(args.episodes)


def _agent(args: argparse.Namespace) -> Agent:
    from ..agents import ChatAgent, load_agent, parse_options
    from ..chat import ChatClient

    if (args.agent is None) == (args.model is None):
        raise InvalidArgument("who plays? give --agent SPEC, or --model M with --base-url U")
    if args.agent is not None:
        return load_agent(args.agent)
    if args.base_url is None:
        raise InvalidArgument(f"where is {args.model}? give its endpoint with --base-url")
    client = ChatClient(args.base_url, args.model, secret(args.api_key_env), params=parse_options(args.param))
    client.check()
    return ChatAgent(client)


def _coworker_model(args: argparse.Namespace) -> CoworkerModel | None:
    from ..coworkers import CoworkerModel

    if args.coworker_model is None:
        return None
    base_url = args.coworker_base_url or args.base_url
    if base_url is None:
        raise InvalidArgument(f"where is {args.coworker_model}? give its endpoint with --coworker-base-url")
    return CoworkerModel(base_url, args.coworker_model, secret(args.coworker_api_key_env))


def _calibrated(args: argparse.Namespace) -> Callable[[list[Task]], list[Task]] | None:
    if args.calibration is None:
        return None
    from ..calibrate import calibrated

    return lambda tasks: calibrated(tasks, args.calibration, keep=tuple(args.keep))


def _shard(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    index, slash, count = text.partition("/")
    if not (slash and index.isdigit() and count.isdigit()):
        raise InvalidArgument(f"the shard {text!r} is not of the form i/n; write 0/4 to 3/4 for four hosts")
    return int(index), int(count)


class _shown:  # noqa: N801 - used as a context manager
    """Progress on stderr: a bar on a terminal, a line now and then elsewhere."""

    def __enter__(self) -> Callable[[Progress], None]:
        self._bar: Any = None
        self._line_at = 0.0
        if sys.stderr.isatty():
            try:
                from tqdm import tqdm
            except ImportError:
                pass
            else:
                self._bar = tqdm(unit="episode", dynamic_ncols=True, file=sys.stderr)
        return self._told

    def _told(self, now: Progress) -> None:
        if self._bar is not None:
            self._bar.total, self._bar.n = now.total, now.done
            self._bar.set_postfix(success=now.successes, void=now.void, refresh=True)
        elif now.done == now.total or now.elapsed_s >= self._line_at:
            self._line_at = now.elapsed_s + LINE_EVERY_S
            left = "" if now.left_s is None else f", {now.left_s:.0f} s left"
            print(
                f"{now.done}/{now.total} episodes, {now.successes} successful, {now.void} void, "
                f"{now.rate:.1f} a second{left}",
                file=sys.stderr,
            )

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
