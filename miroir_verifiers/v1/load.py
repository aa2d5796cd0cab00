"""`load_environment` for verifiers 0.4, whose own takes a configuration."""

from __future__ import annotations

from typing import Any

from miroir.errors import InvalidArgument

from .config import OWN, MiroirTasksetConfig
from .env import MiroirEnv, MiroirEnvConfig

_PACKAGE = "miroir_verifiers"
_OF_THE_TASKSET = ("split", "calibration", "keep")


def environment(**options: Any) -> MiroirEnv:
    """The environment with these options of its taskset and tasks; InvalidArgument for any other."""
    known = sorted({*OWN, *_OF_THE_TASKSET})
    unknown = sorted(options.keys() - set(known))
    if unknown:
        raise InvalidArgument(f"load_environment has no option {unknown[0]!r}; it has {', '.join(known)}")
    chosen = {name: options[name] for name in _OF_THE_TASKSET if name in options}
    task = {name: value for name, value in options.items() if name in OWN}
    taskset = MiroirTasksetConfig.model_validate({"id": _PACKAGE, "task": task, **chosen})
    return MiroirEnv(MiroirEnvConfig(taskset=taskset))
