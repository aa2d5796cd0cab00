"""The engines of `miroir pool`, from its options."""

from __future__ import annotations

import argparse
import os
import shlex
from typing import TYPE_CHECKING

from ..errors import InvalidArgument

if TYPE_CHECKING:
    from ..pool import ContainerSpec, Engine

ENGINES = ("process", "docker", "swarm", "kubernetes")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of engines that run images."""
    group = parser.add_argument_group(
        "containers of an image", "what comes after -- are the arguments of each container"
    )
    group.add_argument("--port", type=int, metavar="P", help="where the image serves (8000)")
    group.add_argument("--publish", metavar="ADDRESS", help="this machine's address for its ports (127.0.0.1)")
    group.add_argument(
        "--mount", action="append", default=[], metavar="H:C:ro", help="a host's folder in the containers"
    )
    group.add_argument("--env-file", metavar="F", help="a file of variables, NAME=VALUE a line")
    group.add_argument("--memory", metavar="M", help="the limit of a container's memory, such as 4g")
    group.add_argument("--cpus", metavar="C", help="the limit of a container's processors, such as 1.5")
    group.add_argument("--network", metavar="N", help="a docker network to join")
    group.add_argument("--constraint", action="append", default=[], metavar="C", help="swarm: where tasks may run")
    group.add_argument("--secret", action="append", default=[], metavar="S", help="swarm: a secret the tasks can read")
    group.add_argument(
        "--registry-auth", action="store_true", help="swarm: send this user's registry login to the nodes"
    )
    group.add_argument(
        "--docker-option",
        action="append",
        default=[],
        metavar="O",
        help="any other option of docker run or service create",
    )
    group.add_argument("--docker", default="docker", metavar="COMMAND", help="the docker command (docker)")
    group.add_argument("--print", action="store_true", help="kubernetes: print the manifest")


def container_spec(args: argparse.Namespace) -> ContainerSpec:
    """What the options say of the containers."""
    from ..pool import ContainerSpec, Mount

    if len(args.env_options) > len(args.after):
        raise InvalidArgument(
            f"{args.env_options[0]} is no option of miroir pool; a container's arguments come after --"
        )
    given = {"port": args.port, "address": args.publish}
    return ContainerSpec(
        args.image,
        args=tuple(args.after),
        mounts=tuple(map(Mount.parse, args.mount)),
        env_file=args.env_file and os.path.abspath(args.env_file),  # noqa: PTH100 - the file may be a link, and stays it
        env=(args.token_env,) if args.token_env else (),
        memory=args.memory,
        cpus=args.cpus,
        network=args.network,
        options=tuple(args.docker_option),
        **{name: value for name, value in given.items() if value is not None},
    )


def image_engine(args: argparse.Namespace) -> Engine:
    """The engine that runs an image."""
    from ..pool import DockerEngine, SwarmEngine, Timing

    docker, timing, spec = docker_command(args), Timing(start_s=args.wait), container_spec(args)
    if args.engine == "swarm":
        if args.recycle_after is not None or args.publish is not None:
            raise InvalidArgument("Swarm replaces and places its tasks itself; leave --recycle-after and --publish out")
        return SwarmEngine(spec, options=_swarm_options(args), docker=docker, timing=timing, alone=True)
    if _swarm_options(args):
        raise InvalidArgument("--constraint, --secret and --registry-auth are Swarm's; add --engine swarm")
    return DockerEngine(spec, docker=docker, recycle_after=args.recycle_after, timing=timing, alone=True)


def docker_command(args: argparse.Namespace) -> list[str]:
    """The docker command as an argv."""
    words = shlex.split(args.docker)
    if not words:
        raise InvalidArgument("--docker names no command; write --docker docker")
    return words


def _swarm_options(args: argparse.Namespace) -> list[str]:
    options = [word for constraint in args.constraint for word in ("--constraint", constraint)]
    options += [word for secret in args.secret for word in ("--secret", secret)]
    return [*options, "--with-registry-auth"] if args.registry_auth else options
