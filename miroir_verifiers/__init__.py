"""Miroir under Prime Intellect's verifiers: fleets as environments to evaluate and train in.

Nothing of verifiers is imported before it is used, so that this can be imported without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from miroir.errors import MissingExtra

from .preset import Preset

if TYPE_CHECKING:
    from .environment import load_environment
    from .v1 import MiroirEnv, MiroirHarness, MiroirTaskset

# Verifiers looks here for exactly one taskset, one harness and one environment.
__all__ = ["MiroirEnv", "MiroirHarness", "MiroirTaskset", "Preset", "load_environment"]

_MODULES = {"load_environment": "environment", "MiroirEnv": "v1", "MiroirHarness": "v1", "MiroirTaskset": "v1"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    try:
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "verifiers":
            raise
        raise MissingExtra(
            f"miroir_verifiers.{name} needs verifiers; install it by `pip install 'miroir[verifiers]'`"
        ) from error
