"""What a check finds: each rule kept, broken, not offered or not reached, with what was sent and received."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any


class Outcome(Enum):
    """What became of a rule."""

    KEPT = "kept"
    BROKEN = "broken"
    NOT_OFFERED = "not offered"
    NOT_REACHED = "not reached"  # the time was over, or what it needs was broken


@dataclass(frozen=True)
class Finding:
    """One rule and what became of it; `sent` and `received` are the last exchange of one that is broken."""

    rule: str
    says: str
    outcome: Outcome
    detail: str = ""
    sent: str = ""
    received: str = ""

    def lines(self) -> list[str]:
        """The finding as lines of text, the evidence below it."""
        head = f"{self.outcome.value:<12} {self.rule}: {self.says}"
        told = [("", self.detail), ("sent     ", self.sent), ("received ", self.received)]
        return [head, *(f"{'':<13}{name}{text}" for name, text in told if text)]


@dataclass(frozen=True)
class Report:
    """The findings about one server."""

    url: str
    protocol: str | None
    env: dict[str, Any]
    findings: tuple[Finding, ...]
    seconds: float

    @property
    def broken(self) -> list[Finding]:
        """The rules that are broken."""
        return [finding for finding in self.findings if finding.outcome is Outcome.BROKEN]

    def text(self) -> str:
        """The findings, the kept ones last and in one line each, and a summary."""
        order = (Outcome.BROKEN, Outcome.NOT_REACHED, Outcome.NOT_OFFERED, Outcome.KEPT)
        lines = [line for kind in order for found in self.findings if found.outcome is kind for line in found.lines()]
        counts = Counter(finding.outcome for finding in self.findings)
        told = ", ".join(f"{counts[kind]} {kind.value}" for kind in reversed(order) if counts[kind])
        speaks = self.protocol or "OpenEnv's protocol"
        name = f"{self.env.get('name')} {self.env.get('version')}"
        return "\n".join([*lines, f"{self.url} ({name}, {speaks}): {told}, in {self.seconds:.1f} s"])

    def as_dict(self) -> dict[str, Any]:
        """The report as a JSON object."""
        findings = [{**asdict(finding), "outcome": finding.outcome.value} for finding in self.findings]
        return {
            "url": self.url,
            "protocol": self.protocol,
            "env": self.env,
            "broken": len(self.broken),
            "seconds": round(self.seconds, 3),
            "findings": findings,
        }
