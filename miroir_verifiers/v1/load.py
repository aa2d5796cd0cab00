"""`load_environment` for verifiers 0.4, whose own takes a configuration."""

from __future__ import annotations

from typing import Any

from ..settings import CHOICE, OPTIONS, refuse_unknown
from .config import MiroirTasksetConfig
from .env import MiroirEnv, MiroirEnvConfig

_PACKAGE = "miroir_verifiers"
_OF_THE_TASKSET = ("split", *CHOICE)


def environment(**options: Any) -> MiroirEnv:
    """The environment with these options of its taskset and tasks; InvalidArgument for any other."""
    refuse_unknown(options, OPTIONS)
    chosen = {name: value for name, value in options.items() if name in _OF_THE_TASKSET}
    task = {name: value for name, value in options.items() if name not in _OF_THE_TASKSET}
    taskset = MiroirTasksetConfig.model_validate({"id": _PACKAGE, "task": task, **chosen})
    return MiroirEnv(MiroirEnvConfig(taskset=taskset))
