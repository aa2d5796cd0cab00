"""Which process owns something, and whether it is provably gone.

Proof fails closed, as PostgreSQL's, Mercurial's and Qt's lock files do: an owner that cannot be looked at is alive.
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Owner:
    """One process: where it runs, its pid, and what tells it from a later process of that pid."""

    host: str
    boot: str  # the running kernel's boot, "" where the system names none
    namespace: str  # the namespace of pids, "" where the system has none
    pid: int
    began: str  # clock ticks after boot, "" where the system does not say

    @classmethod
    def me(cls) -> Owner:
        """The process that asks."""
        boot = _read(Path("/proc/sys/kernel/random/boot_id"))
        return cls(socket.gethostname(), boot, _namespace(), os.getpid(), _stat(os.getpid())[1])

    @classmethod
    def parse(cls, text: str) -> Owner | None:
        """The owner that `dump` wrote; None for any other text."""
        try:
            owner = cls(**json.loads(text))
        except (ValueError, TypeError):
            return None
        return owner if isinstance(owner.pid, int) and owner.pid > 0 else None

    def dump(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))

    def is_here(self) -> bool:
        """Whether it ran where this process runs, and so can be looked at."""
        here = Owner.me()
        return (self.host, self.boot, self.namespace) == (here.host, here.boot, here.namespace)

    def is_dead(self) -> bool:
        """Whether no such process is left: it ran under this kernel, and its pid is free, a zombie's or another's."""
        if not self.is_here():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass  # it is someone else's, and alive
        state, began = _stat(self.pid)
        return state == "Z" or (began != "" and self.began != "" and began != self.began)


def described(owner: Owner | None) -> str:
    """Who owns something, for an error's text; None is an owner that cannot be read."""
    return f"process {owner.pid} on {owner.host}" if owner else "an unknown process"


def _stat(pid: int) -> tuple[str, str]:
    """State and start of a process (fields 3 and 22 of proc_pid_stat(5)); empty where they cannot be seen."""
    fields = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return (fields[0], fields[19]) if len(fields) > 19 else ("", "")


def _namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
