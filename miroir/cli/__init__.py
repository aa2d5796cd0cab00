"""The `miroir` command: one module per subcommand, and the exit codes they share.

0 done, 1 the work found failures, 2 a usage or environment error, 130 interrupted.
Data goes to stdout, talk to stderr.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import logging
import os
import sys
import warnings
from collections.abc import Sequence
from importlib.metadata import version

from ..errors import MiroirError

# Each names a module of this package with `HELP`, `add_arguments(parser)` and `command(args) -> int`.
COMMANDS = ("demo", "serve", "pool", "tasks", "run", "calibrate", "review", "derive", "check", "verifiers")

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="miroir",
        description="Lease environments, run episodes, read their records.",
        epilog="`miroir COMMAND --help` tells its options. A command ends with 0 when all is well, 1 when its work "
        "found failures, 2 when it could not work, 130 when interrupted.",
    )
    top.add_argument("--version", action="version", version=f"miroir {version('miroir')}")
    subcommands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in COMMANDS:
        module = importlib.import_module(f".{name}", __package__)
        sub = subcommands.add_parser(name, help=module.HELP, description=module.HELP, allow_abbrev=False)
        sub.set_defaults(run=module.command, refuse=sub.error)
        module.add_arguments(sub)
    return top


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    print(f"warning: {message}", file=sys.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    args = _parsed(list(sys.argv[1:] if argv is None else argv))
    if isinstance(sys.stdout, io.TextIOWrapper):  # servers' text may be cut within a character; in JSON that is right
        sys.stdout.reconfigure(errors="backslashreplace")
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s", level=logging.WARNING)
    with warnings.catch_warnings():
        warnings.showwarning = _warn
        return _run(args)


def _parsed(argv: list[str]) -> argparse.Namespace:
    """The arguments; what a command that serves an environment does not know is an option of that environment."""
    top = parser()
    end = argv.index("--") if "--" in argv else len(argv)
    args, unknown = top.parse_known_args(argv[:end])
    if "env_options" not in args:
        args, unknown = top.parse_known_args(argv)
        if unknown:
            args.refuse(f"unrecognized arguments: {' '.join(unknown)}")
        return args
    args.after = argv[end + 1 :]
    args.env_options = [*unknown, *args.after]
    return args


def _run(args: argparse.Namespace) -> int:
    try:
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone; nothing is left to say to it
        _discard_output()
        return 1
    except (MiroirError, ValueError) as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except OSError as error:
        if error.errno not in _FULL:
            raise
        _discard_output()
        print(f"error: no more can be written: {error.strerror}; free space, or name another place", file=sys.stderr)
        return 2


def _discard_output() -> None:
    """Let what is still to be written go, which Python would try again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
