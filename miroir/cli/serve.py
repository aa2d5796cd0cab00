"""`miroir serve`: one environment on a port of this machine."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator

from ..disk import replace_file
from ..errors import InvalidArgument

HELP = "serve an environment"
ENV_OPTIONS = "Other options are ENV's own, as its constructor takes them: ors has --url U. After -- all are."
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_LAST_WORDS_S = 1.5  # for closing worlds, once the process that started this one is gone


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `miroir serve`."""
    parser.set_defaults(env_options=[])
    parser.epilog = ENV_OPTIONS
    parser.add_argument("env", metavar="ENV", help="office, appworld, ors, or package.module:Class")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default %(default)s)")
    parser.add_argument("--port", type=int, default=0, help="port to listen on (default: one that is free)")
    parser.add_argument("--port-file", metavar="FILE", help="write the port there once the server accepts")
    guard = parser.add_mutually_exclusive_group()
    guard.add_argument("--token-env", metavar="NAME", help="environment variable with the token that clients must send")
    guard.add_argument("--no-token", action="store_true", help="serve anyone on an address other machines can reach")
    parser.add_argument("--allow-code", action="store_true", help="let agents run code on this machine")
    parser.add_argument("--max-sessions", type=int, default=1, metavar="N", help="sessions at a time (default 1)")
    parser.add_argument("--death-fd", type=int, metavar="FD", help="end when this inherited pipe is closed")


def command(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGHUP (0), or SIGINT (130)."""
    with _ending_with_parent(args.death_fd):  # first of all: an environment's import may hang
        return _serve(args)


def _serve(args: argparse.Namespace) -> int:
    from ..serve import names, options, serve

    token = _token(args)
    factory = options.configured(names.find(args.env), args.env_options, args.env)

    def ready(url: str) -> None:
        if args.port_file is not None:
            _write_port(args.port_file, url)
        print(url, flush=True)

    serve(
        factory,
        host=args.host,
        port=args.port,
        token=token,
        max_sessions=args.max_sessions,
        allow_code=args.allow_code,
        on_ready=ready,
    )
    return 0


def _token(args: argparse.Namespace) -> str | None:
    if args.token_env is None:
        if args.host not in _LOOPBACK and not args.no_token:
            raise InvalidArgument(
                f"{args.host} can be reached by others; use --token-env NAME, or --no-token to allow it"
            )
        return None
    from ..rest import secret_from

    return secret_from(args.token_env)


def _write_port(path: str, url: str) -> None:
    try:
        replace_file(path, [f"{url.rpartition(':')[2]}\n".encode()], durable=False)
    except OSError as error:
        raise InvalidArgument(f"the port file {path} cannot be written: {error.strerror}; name another") from error


@contextlib.contextmanager
def _ending_with_parent(fd: int | None) -> Iterator[None]:
    """In the block this process ends once the pipe does, and with it all of its group, if that is its own."""
    if fd is None:
        yield
        return
    try:
        os.set_inheritable(fd, False)
    except OSError as error:
        raise InvalidArgument(f"{fd} is no file descriptor of this process; pass the read end of a pipe") from error
    gone = threading.Event()
    threading.Thread(target=_watch, args=(fd, gone), name="miroir-parent", daemon=True).start()
    try:
        yield
    finally:
        if gone.is_set():
            _kill_group()


def _watch(fd: int, gone: threading.Event) -> None:
    while os.read(fd, 1):
        pass
    gone.set()
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:  # it serves, and has worlds to close
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_LAST_WORDS_S)
    _kill_group()
    os._exit(1)


def _kill_group() -> None:
    """Kill what an environment has started, and this process, unless others are in its group."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
