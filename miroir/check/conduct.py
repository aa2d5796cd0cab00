"""The check: every rule is tested in turn on one server, within a minute."""

from __future__ import annotations

import time
from collections.abc import Collection

from ..errors import ConnectionFailed, InvalidArgument, NoFreeContainer
from ..urls import base_url
from . import framing, leasing, listing, playing
from .evidence import Evidence
from .findings import Finding, Outcome, Report
from .link import Ended, OutOfTime, Refused
from .rules import Broken, NotOffered, NotReached, Rule, code_of
from .subject import Subject

RULES: tuple[Rule, ...] = (*listing.RULES, *leasing.RULES, *framing.RULES, *playing.RULES)
LIMIT_S = 60.0
_FAULTS = (Broken, Ended, Refused)
_MISSHAPEN = (TypeError, LookupError, AttributeError, ValueError, ArithmeticError, RecursionError)


def check(
    url: str,
    token: str | None = None,
    *,
    task_id: str | None = None,
    only: Collection[str] = (),
    limit_s: float = LIMIT_S,
) -> Report:
    """Test every rule on the server at `url`, or `only` those named, with the task `task_id` or the first one listed.

    ConnectionFailed when there is no environment server, NoFreeContainer when somebody else leases it,
    InvalidArgument when its protocol is newer. Rules are not reached once `limit_s` seconds are over.
    """
    unknown = sorted(set(only) - {rule.name for rule in RULES})
    if unknown:
        raise InvalidArgument(
            f"there is no rule {unknown[0]!r}; the rules are {', '.join(rule.name for rule in RULES)}"
        )
    began = time.monotonic()
    subject = Subject(base_url(url), token, task_id)
    subject.introduce()
    _require_free(subject)
    env, findings = subject.env, []
    subject.deadline = began + limit_s
    for rule in RULES:
        if only and rule.name not in only:
            continue
        if time.monotonic() > subject.deadline:
            findings.append(Finding(rule.name, rule.says, Outcome.NOT_REACHED, str(OutOfTime())))
        else:
            findings.append(_tested(rule, subject))
    return Report(url, subject.protocol, env, tuple(findings), time.monotonic() - began)


def _require_free(subject: Subject) -> None:
    try:
        with subject.lease() as link:
            if code_of(link.first) is not None:
                raise NoFreeContainer(
                    f"{subject.url} cannot be leased ({subject.evidence.last_received}); check one that nobody uses"
                )
    except Refused as refusal:
        raise ConnectionFailed(
            f"{subject.url}: {refusal}; check the token, and that it is an environment server", status=refusal.status
        ) from refusal
    except Ended as ended:
        raise ConnectionFailed(
            f"{subject.url}: {ended} where the first frame was due; is it an environment server?"
        ) from ended


def _tested(rule: Rule, subject: Subject) -> Finding:
    subject.evidence = Evidence()
    if rule.ours and subject.plain:
        return Finding(rule.name, rule.says, Outcome.NOT_OFFERED, rule.without)
    try:
        rule.test(subject)
    except NotOffered as error:
        return Finding(rule.name, rule.says, Outcome.NOT_OFFERED, str(error) or rule.without)
    except (NotReached, OutOfTime) as error:
        return Finding(rule.name, rule.says, Outcome.NOT_REACHED, str(error))
    except _FAULTS as error:
        return _broken(rule, subject, str(error))
    except _MISSHAPEN as error:
        # What the server said has not the shape in which the test looks for it.
        return _broken(rule, subject, f"an answer of the right form ({type(error).__name__}: {error})")
    return Finding(rule.name, rule.says, Outcome.KEPT)


def _broken(rule: Rule, subject: Subject, why: str) -> Finding:
    evidence = subject.evidence
    return Finding(rule.name, rule.says, Outcome.BROKEN, why, evidence.last_sent, evidence.last_received)
