"""Verifiers 0.4: a fleet's tasks, the loop that plays them here, and the environment that holds the lease."""

import verifiers.v1 as vf

from miroir.errors import MissingExtra

if "id" not in vf.TaskData.model_fields:
    raise MissingExtra(
        "the v1 of the verifiers that is installed is older than 0.4's; "
        "install it by `pip install 'verifiers>=0.4'`, or use load_environment"
    )

from .config import MiroirTaskConfig, MiroirTasksetConfig
from .env import MiroirEnv, MiroirEnvConfig
from .harness import MiroirHarness, MiroirHarnessConfig
from .task import MiroirTask, MiroirTaskData
from .taskset import MiroirTaskset

__all__ = [
    "MiroirEnv",
    "MiroirEnvConfig",
    "MiroirHarness",
    "MiroirHarnessConfig",
    "MiroirTask",
    "MiroirTaskConfig",
    "MiroirTaskData",
    "MiroirTaskset",
    "MiroirTasksetConfig",
]
