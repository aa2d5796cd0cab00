"""An episode's reward from the rewards of its calls. Pure."""

from __future__ import annotations

from ...errors import InvalidArgument

RULES = ("last", "sum")


class Rewards:
    """The rewards that an episode's calls have given, and what the rule makes of them."""

    def __init__(self, rule: str) -> None:
        if rule not in RULES:
            raise InvalidArgument(f"--reward {rule!r} is none; name one of {', '.join(RULES)}")
        self._rule = rule
        self.given: list[float] = []
        self.finished = False
        self._graded = True  # whether the call that finished it gave a reward

    def add(self, reward: float | None, *, finished: bool) -> None:
        """Take in what a call gave; None is no reward, or one that was not a number."""
        if reward is not None:
            self.given.append(float(reward))
        if finished:
            self.finished, self._graded = True, reward is not None

    @property
    def so_far(self) -> float | None:
        """The reward by the rule, None while no call has given any."""
        if not self.given:
            return None
        return self.given[-1] if self._rule == "last" else sum(self.given)

    @property
    def final(self) -> float | None:
        """The episode's reward; None makes it void.

        A call that finished the episode without a reward has not graded it. An episode that its agent left unfinished
        has the sum of what it was given, which is 0.0 for nothing, and no last reward where there was none.
        """
        if self.finished and not self._graded:
            return None if self._rule == "last" else self.so_far
        if self._rule == "sum" and not self.finished:
            return self.so_far or 0.0
        return self.so_far
