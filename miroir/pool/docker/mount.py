"""A folder or file of the host, seen inside a container."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

from ...errors import InvalidArgument

MODES = ("ro", "rw")


@dataclass(frozen=True)
class Mount:
    """`host` is seen as `container`, read-only (`ro`) or writable (`rw`)."""

    host: str
    container: str
    mode: str

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise InvalidArgument(f"the mount mode {self.mode!r} is neither 'ro' nor 'rw'; write HOST:CONTAINER:ro")

    @classmethod
    def parse(cls, text: str) -> Mount:
        """`HOST:CONTAINER:MODE`, or `HOST:CONTAINER`, which is writable as docker's `-v` is; InvalidArgument else."""
        host, _, rest = text.partition(":")
        container, colon, mode = rest.partition(":")
        if not (host.startswith("/") and container.startswith("/")):
            raise InvalidArgument(f"{text!r} mounts nothing; write /HOST:/CONTAINER:ro with absolute paths")
        return cls(host, container, mode if colon else "rw")

    def to_arg(self) -> str:
        """The value of docker's `-v`."""
        return f"{self.host}:{self.container}:{self.mode}"

    def to_bind(self) -> str:
        """The value of docker's `--mount`, which refuses a host path that is not there where `-v` would make it."""
        fields = [
            "type=bind",
            f"src={self.host}",
            f"dst={self.container}",
            *(["readonly"] if self.mode == "ro" else []),
        ]
        row = io.StringIO()
        csv.writer(row, lineterminator="").writerow(fields)
        return row.getvalue()
