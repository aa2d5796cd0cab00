"""What a user of verifiers sets of a fleet, in TOML or as flags; the texts below the fields are the flags' help."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import verifiers.v1 as vf
from pydantic import field_validator, model_validator

from ..settings import OPTIONS, Settings, settings


class MiroirTaskConfig(vf.TaskConfig):
    """Where and how an episode is played; what is unset is the preset's."""

    preset: str | None = None
    """Name of an installed preset (`miroir verifiers list`)."""
    urls: list[str] = []
    """The fleet: a URL file, base URLs, or dns://name:port."""
    token_env: str | None = None
    """Name of the environment variable with the fleet's token."""
    surface: str | None = None
    """Which tools the environment shows: api, mcp or code."""
    max_seconds: int | None = None
    """Seconds that an episode may take, counted by the environment."""
    coworker_model: str | None = None
    """Model that plays the coworkers of a world."""
    coworker_base_url: str | None = None
    """OpenAI-compatible base URL of the coworkers' model."""
    coworker_api_key_env: str | None = None
    """Name of the environment variable with its API key."""
    traces: Path | None = None
    """Folder in which each episode's record is saved."""

    @field_validator("urls", mode="before")
    @classmethod
    def _one_is_a_list(cls, urls: Any) -> Any:
        return [str(urls)] if isinstance(urls, str | Path) else urls

    def settings(self, split: str | None = None) -> Settings:
        """These options where they are set, else the preset's."""
        own: dict[str, Any] = {name: getattr(self, name) for name in OPTIONS if name in MiroirTaskConfig.model_fields}
        return settings(**own, split=split)


class MiroirTasksetConfig(vf.TasksetConfig):
    """Which of the fleet's tasks are played."""

    preset: str | None = None
    """Short for task.preset."""
    split: str | None = None
    """Split of the environment (the preset's, else train)."""
    calibration: Path | None = None
    """Calibration file (`miroir calibrate`) by which tasks are chosen."""
    keep: list[str] = ["learnable"]
    """Classes of the calibration whose tasks are played."""
    task: MiroirTaskConfig = MiroirTaskConfig()

    @model_validator(mode="after")
    def _tell_the_task(self) -> MiroirTasksetConfig:
        """Hand the preset on: an environment server has the task's settings alone."""
        if self.preset and not self.task.preset:
            self.task = self.task.model_copy(update={"preset": self.preset})
        return self
