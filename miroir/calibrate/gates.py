"""Gates for continuous integration: a suite's number must surely be at least a bound."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InvalidArgument

Gate = tuple[str, float]  # the number's name, such as pass@1, and its bound


def parse_gate(text: str) -> Gate:
    """A gate in words, such as pass@1=0.4; InvalidArgument where it is none."""
    name, _, written = text.partition("=")
    try:
        bound = float(written)
    except ValueError:
        bound = math.nan
    if not math.isfinite(bound):  # against NaN, which nothing is under, no gate would fail
        raise InvalidArgument(f"a gate is a number's name and its bound, such as pass@1=0.4, not {text!r}")
    return name, bound


def failures(document: Mapping[str, Any], gates: Sequence[Gate]) -> list[str]:
    """Why each gate fails whose number's 95 % lower bound is under its bound; InvalidArgument for an unknown number."""
    k = document["k"]
    keys = {"reward": "reward", "pass@1": "pass@1", f"pass@{k}": "pass@k", f"pass^{k}": "pass^k"}
    failed = []
    for name, bound in gates:
        if name not in keys:
            raise InvalidArgument(f"no number of the suite is called {name}; give one of {', '.join(keys)}")
        low = document["suite"][keys[name]]["low"]
        if low is None:
            raise InvalidArgument(f"{name} has no interval, being of one task; calibrate at least two to gate on it")
        if low < bound:
            failed.append(f"{name} is only sure to be at least {low:.3f}, under {bound:g}")
    return failed
