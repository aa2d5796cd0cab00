"""What a pool's containers are made of: image, arguments, port, mounts, limits."""

from __future__ import annotations

import ipaddress
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...errors import ContainerPoolError, InvalidArgument
from ...rest import named
from .mount import Mount

DEFAULT_PORT = 8000
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class ContainerSpec:
    """Containers of `image`, run with `args`, that serve on `port` inside and on a port of `address` outside.

    `env` names variables whose values go in from here; `options` are passed on to docker as they are.
    """

    image: str
    args: tuple[str, ...] = ()
    port: int = DEFAULT_PORT
    address: str = LOOPBACK
    mounts: tuple[Mount, ...] = ()
    env_file: str | None = None
    env: tuple[str, ...] = ()
    memory: str | None = None
    cpus: str | None = None
    network: str | None = None
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.image or self.image.startswith("-"):
            raise InvalidArgument(f"{self.image!r} is not the name of an image; write name:tag")
        if not 1 <= self.port <= 65535:
            raise InvalidArgument(f"{self.port} is not a port; name one from 1 to 65535")
        if not _is_address(self.address):
            raise InvalidArgument(
                f"{self.address!r} is no address to reach a container at; name an IPv4 address of this machine"
            )
        if self.network in {"host", "none"}:
            raise InvalidArgument(
                f"the network {self.network!r} gives a container no port of its own; name a bridge network"
            )

    @classmethod
    def load(cls, text: str) -> ContainerSpec:
        """The spec that `dump` wrote; ContainerPoolError for any other text."""
        try:
            fields = json.loads(text)
            fields["mounts"] = [Mount(**mount) for mount in fields["mounts"]]
            read: dict[str, Any] = {
                name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
            }
            return cls(**read)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ContainerPoolError(
                "the pool was started by another version of miroir; stop it, and start a new one"
            ) from error

    def dump(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))

    def check(self) -> None:
        """InvalidArgument when something that it names on this machine is not there."""
        if self.env_file is not None and not Path(self.env_file).is_file():
            raise InvalidArgument(f"the env file {self.env_file} is not there; name a file with a NAME=VALUE a line")
        for name in self.env:
            if name not in os.environ:
                raise InvalidArgument(f"{named(name)} is not set; set it for the containers")

    def run_argv(self) -> Iterator[str]:
        """The options of `docker run`, then image and arguments."""
        yield from ("--publish", f"{self.address}::{self.port}")
        yield from _optional("--memory", self.memory)
        yield from _optional("--cpus", self.cpus)
        yield from self._common_argv()

    def service_argv(self) -> Iterator[str]:
        """The options of `docker service create`, then image and arguments."""
        yield from ("--publish", f"mode=host,target={self.port}")
        yield from _optional("--limit-memory", self.memory)
        yield from _optional("--limit-cpu", self.cpus)
        yield from self._common_argv()

    def _common_argv(self) -> Iterator[str]:
        for mount in self.mounts:
            yield from ("--mount", mount.to_bind())
        yield from _optional("--env-file", self.env_file)
        for name in self.env:
            yield from ("--env", name)
        yield from _optional("--network", self.network)
        yield from self.options
        yield self.image
        yield from self.args


def _is_address(text: str) -> bool:
    try:
        return not ipaddress.IPv4Address(text).is_unspecified
    except ValueError:
        return False


def _optional(option: str, value: str | None) -> tuple[str, ...]:
    return () if value is None else (option, value)
