"""Verifiers 0.4: a fleet's tasks, the loop that plays them here, and the environment that holds the lease."""

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
