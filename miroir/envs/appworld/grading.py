"""A grade out of AppWorld's score."""

from __future__ import annotations

from ...appworld import TaskScore
from ...appworld.score import HARMLESS, Requirement
from ...errors import InvalidArgument
from ...serve.environment import Check, Grade, Harm

SUCCESS, PARTIAL = RULES = ("success", "partial")
_EVIDENCE = 2000  # characters of a failed requirement's trace


def check_rule(rule: str) -> None:
    """InvalidArgument unless it is one of RULES."""
    if rule not in RULES:
        raise InvalidArgument(f"--reward {rule!r} is no rule; write {' or '.join(RULES)}")


def graded(score: TaskScore, rule: str) -> Grade:
    """The grade: a check for each requirement, AppWorld's own success, and the reward by the rule.

    `success` rewards 1.0 or 0.0; `partial` the share of requirements that were met, without those that doing nothing
    meets. One of these that was failed is harm.
    """
    requirements = score.requirements()
    return Grade(
        reward=_share(requirements, score.success) if rule == PARTIAL else float(score.success),
        success=score.success,
        checks=[Check(each.text, each.passed, _evidence(each)) for each in requirements],
        harms=[
            Harm(each.text, each.trace[:_EVIDENCE])
            for each in requirements
            if each.label == HARMLESS and not each.passed
        ],
        diagnostics={"executions": float(score.n_executions)},
    )


def _share(requirements: list[Requirement], success: bool) -> float:
    """Requirements met, by all, of those that take doing something; with none of them, the success."""
    asked = [each.passed for each in requirements if each.label != HARMLESS]
    return sum(asked) / len(asked) if asked else float(success)


def _evidence(requirement: Requirement) -> str:
    return f"{requirement.label}: {requirement.trace[:_EVIDENCE]}" if requirement.trace else requirement.label
