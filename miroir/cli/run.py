"""`miroir run`: play tasks over a fleet."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..errors import InvalidArgument

if TYPE_CHECKING:
    from ..agents import Agent
    from ..coworkers import CoworkerModel
    from ..run import Report
    from ..wire import Task

HELP = "play every task k times over a fleet and save the records"
_REASONS = 3  # of voids that are told
_NEEDS = {  # options that do nothing without one of these others
    "--keep": ("--calibration",),
    "--base-url": ("--model", "--coworker-model"),
    "--api-key-env": ("--model", "--coworker-model"),
    "--coworker-base-url": ("--coworker-model",),
    "--coworker-api-key-env": ("--coworker-model",),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("urls", nargs="+", metavar="URLS", help="a URL file, base URLs, or dns://name:port")
    parser.add_argument("--out", required=True, metavar="DIR", help="the folder of the trace files")
    what = parser.add_argument_group("what is played")
    what.add_argument("--split", action="append", metavar="S", help="a split (default: train); may be repeated")
    what.add_argument("--tasks", metavar="FILE", help="a file of tasks, one JSON object a line, in place of a split")
    what.add_argument("--episodes", type=int, metavar="N", help="N episodes of an environment that lists no tasks")
    what.add_argument("--reset-field", action="append", metavar="F[=OPTION]", help="a field of tasks that resets take")
    what.add_argument("--task", action="append", default=[], metavar="ID", help="only this task; may be repeated")
    what.add_argument(
        "--calibration", metavar="FILE", help="only tasks that this calibration file classes as --keep says"
    )
    what.add_argument("--keep", nargs="+", metavar="CLASS", help="classes kept (learnable)")
    what.add_argument("-k", type=int, default=1, metavar="K", help="rollouts of each task (default: 1)")
    what.add_argument("--shard", metavar="i/n", help="only the i-th of n parts, from 0: for several hosts")
    how = parser.add_argument_group("how it is played")
    how.add_argument("--concurrency", type=int, default=32, metavar="C", help="episodes at once (default: 32)")
    how.add_argument("--surface", metavar="S", help="which tools the environment shows: api, mcp or code")
    how.add_argument("--max-seconds", type=int, metavar="S", help="the time limit of an episode")
    how.add_argument("--retries", type=int, default=2, metavar="N", help="how often a void episode is run again (2)")
    how.add_argument("--token-env", metavar="NAME", help="the environment variable that holds the fleet's token")
    how.add_argument(
        "--wait", type=float, default=10.0, metavar="S", help="seconds to wait for a first container that answers (10)"
    )
    how.add_argument("--json", action="store_true", help="JSON instead of the table")
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
    from ..rest import secret_from
    from ..run import run
    from ..urls import from_words
    from .progress import shown
    from .signals import interruptible

    _refuse_idle(args)
    tasks = _tasks(args)
    with interruptible(), shown() as progress:
        report = run(
            from_words(args.urls),
            args.out,
            _agent(args),
            token=secret_from(args.token_env),
            splits=args.split or ("train",),
            tasks=tasks,
            task_ids=args.task,
            reset_fields=_reset_fields(args),
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
    print(json.dumps(report.as_json(), indent=2) if args.json else report.table())
    _tell(report)
    return 1 if report.unfinished else 0


def _tell(report: Report) -> None:
    if report.earlier:
        print(f"{report.earlier} rollouts had a graded record before", file=sys.stderr)
    if report.unfinished:
        print(f"{report.unfinished} rollouts are still void; the same command runs them again", file=sys.stderr)
    for reason, count in report.reasons.most_common(_REASONS):
        print(f"  {count} x {reason}", file=sys.stderr)


def _refuse_idle(args: argparse.Namespace) -> None:
    """InvalidArgument for an option that would do nothing, since what it belongs to was not given."""
    for option, others in _NEEDS.items():
        if _given(args, option) and not any(_given(args, other) for other in others):
            raise InvalidArgument(f"{option} is of no use without {' or '.join(others)}; give both, or neither")


def _given(args: argparse.Namespace, option: str) -> bool:
    return getattr(args, option.removeprefix("--").replace("-", "_")) is not None


def _tasks(args: argparse.Namespace) -> Sequence[Task] | None:
    from ..run.jobs import numbered, read_tasks

    given = [name for name in ("split", "tasks", "episodes") if getattr(args, name) is not None]
    if len(given) > 1:
        raise InvalidArgument(f"--{given[0]} and --{given[1]} exclude each other; give one")
    if args.tasks is not None:
        return read_tasks(args.tasks)
    return None if args.episodes is None else numbered(args.episodes)


def _reset_fields(args: argparse.Namespace) -> dict[str, str]:
    pairs = [text.partition("=") for text in args.reset_field or []]
    return {name: option or name for name, _, option in pairs}


def _agent(args: argparse.Namespace) -> Agent:
    from ..agents import ChatAgent, load_agent, parse_options
    from ..chat import ChatClient
    from ..rest import secret_from

    if (args.agent is None) == (args.model is None):
        raise InvalidArgument("who plays? give --agent SPEC, or --model M with --base-url U")
    if args.agent is not None:
        if args.param:
            raise InvalidArgument("--param belongs to --model; write an agent's options as module:function?name=value")
        return load_agent(args.agent)
    if args.base_url is None:
        raise InvalidArgument(f"where is {args.model}? give its endpoint with --base-url")
    client = ChatClient(args.base_url, args.model, secret_from(args.api_key_env), params=parse_options(args.param))
    client.check()
    return ChatAgent(client)


def _coworker_model(args: argparse.Namespace) -> CoworkerModel | None:
    """The coworkers' model, at an endpoint of its own or at the agent's."""
    from ..chat import ChatClient
    from ..coworkers import CoworkerModel
    from ..rest import secret_from

    if args.coworker_model is None:
        return None
    base_url, key_env = args.coworker_base_url, args.coworker_api_key_env
    if base_url is None:
        base_url, key_env = args.base_url, key_env or args.api_key_env
    if base_url is None:
        raise InvalidArgument(f"where is {args.coworker_model}? give its endpoint with --coworker-base-url")
    key = secret_from(key_env)
    with ChatClient(base_url, args.coworker_model, key) as client:
        client.check()
    return CoworkerModel(base_url, args.coworker_model, key)


def _calibrated(args: argparse.Namespace) -> Callable[[list[Task]], list[Task]] | None:
    if args.calibration is None:
        return None
    from ..calibrate import calibrated
    from ..calibrate.entries import LEARNABLE

    return lambda tasks: calibrated(tasks, args.calibration, keep=tuple(args.keep or (LEARNABLE,)))


def _shard(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    index, slash, count = text.partition("/")
    if not (slash and index.isdecimal() and count.isdecimal()):
        raise InvalidArgument(f"the shard {text!r} is not of the form i/n; write 0/4 to 3/4 for four hosts")
    return int(index), int(count)
