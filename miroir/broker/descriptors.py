"""How many files this process may open, and what its sessions need of them."""

from __future__ import annotations

import errno
import resource
from pathlib import Path

from ..errors import DescriptorLimit

PER_SESSION = 4  # a socket, the two ends that wake its reader, and the reader's selector
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE})


def require(sessions: int, more: int) -> None:
    """DescriptorLimit unless `more` sessions can be opened besides the `sessions` that this process has."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY or PER_SESSION * (sessions + more) <= limit // 2:
        return  # counting what is open costs a millisecond
    if sum(1 for _ in Path("/dev/fd").iterdir()) + PER_SESSION * more > limit:
        raise exhausted(sessions + more)


def exhausted(sessions: int) -> DescriptorLimit:
    """The error of a process that may not open enough descriptors for this many sessions."""
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = max(4096, 2 * PER_SESSION * sessions)
    root = "" if most == resource.RLIM_INFINITY or most >= enough else f" (beyond {most} only root may)"
    return DescriptorLimit(
        f"this process may open {limit} files, too few for {sessions} sessions, which need {PER_SESSION} each; "
        f"raise the limit{root}: `ulimit -n {enough}` before the start, or resource.setrlimit in the program"
    )
