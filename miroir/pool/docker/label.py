"""What marks a container as a pool's: labels that say whose it is, and a name that says so after an adoption."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..owner import Owner
from .cli import Docker

POOL = "miroir.pool"
OWNER = "miroir.owner"
SLOT = "miroir.slot"
SIZE = "miroir.size"
SPEC = "miroir.spec"
STOP = "miroir.stop"  # the signal that ends the owner, where it is a process for the pool alone
_LABELS = (POOL, OWNER, SLOT, SIZE, SPEC, STOP)
_ADOPTED = ".adopted-"
_REMOVE_S = 600.0
_FIELDS = "\t".join(("{{.ID}}", "{{.Names}}", *(f'{{{{.Label "{label}"}}}}' for label in _LABELS)))


def label_argv(**labels: str) -> Iterator[str]:
    """The options that set labels: `pool`, `owner`, …"""
    for name, value in labels.items():
        yield from ("--label", f"miroir.{name}={value}")


@dataclass(frozen=True)
class Marked:
    """A container that carries a pool's label, as it was seen."""

    id: str
    name: str
    labels: Mapping[str, str]

    @property
    def pool(self) -> str:
        """Its pool's id."""
        return self.labels[POOL]

    @property
    def owner(self) -> Owner | None:
        """The process that owns it; None when that cannot be read, and so cannot be proven dead."""
        _, adopted, text = self.name.partition(_ADOPTED)
        if not adopted:
            return Owner.parse(self.labels[OWNER])
        try:
            return Owner.parse(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode())
        except ValueError:
            return None

    def adopted_name(self, owner: Owner) -> str:
        """The name that tells of another owner; a container's labels cannot change."""
        text = base64.urlsafe_b64encode(owner.dump().encode()).decode().rstrip("=")
        return f"{self.name.partition(_ADOPTED)[0]}{_ADOPTED}{text}"


def marked(docker: Docker, pool: str | None = None) -> list[Marked]:
    """The containers of one pool, or of every pool, running or not."""
    wanted = POOL if pool is None else f"{POOL}={pool}"
    listing = docker.ask("ps", "--all", "--no-trunc", "--filter", f"label={wanted}", "--format", _FIELDS)
    rows = (line.split("\t") for line in listing.splitlines())
    return [Marked(cid, name, dict(zip(_LABELS, values, strict=True))) for cid, name, *values in rows]


def remove(docker: Docker, names: Sequence[str]) -> str:
    """Remove containers by the names that were seen, running or not; what could not be done, "" when all was."""
    # By name: one that was adopted meanwhile has another name, and is spared.
    if not names:
        return ""
    done = docker.call("rm", "--force", "--volumes", *names, timeout_s=_REMOVE_S)
    lines = [line.strip() for line in done.err.splitlines() if line.strip()]
    faults = [line for line in lines if "No such container" not in line]
    return "; ".join(faults) or done.fault if done.code and (faults or not lines) else ""
