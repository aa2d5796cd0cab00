"""`load_environment`, for the major of verifiers that is installed."""

from __future__ import annotations

from typing import Any

import verifiers


def load_environment(**options: Any) -> Any:
    """The environment of a fleet; InvalidArgument for an unknown option.

    With verifiers before 0.4 a MultiTurnEnv, as its `vf-eval` and trainers take it; with 0.4 an `Env` of its `v1`.
    """
    if hasattr(verifiers, "MultiTurnEnv"):
        from .v0 import environment
    else:
        from .v1.load import environment
    return environment(**options)
