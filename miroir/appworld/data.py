"""An AppWorld data root on this machine: its splits, and what decides each of its tasks."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from ..errors import AppWorldDataError

_TASK_DIGEST_OF = ("specs.json", "dbs", "ground_truth")  # what AppWorld reads of a task's folder


class DataRoot:
    """The folder that `appworld download data --root` has filled; nothing in it is ever written."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).resolve()
        self.data = self.path / "data"

    @property
    def datasets(self) -> Path:
        """The folder of the split files."""
        return self.data / "datasets"

    @property
    def tasks(self) -> Path:
        """The folder of the tasks' own folders."""
        return self.data / "tasks"

    def check(self) -> None:
        """AppWorldDataError, which names the folder that is missing, unless the root is laid out as AppWorld's is."""
        for folder in (self.datasets, self.tasks):
            if not folder.is_dir():
                raise AppWorldDataError(
                    f"{folder} is not there; fill the data root by"
                    f" `appworld install && appworld download data --root {self.path}`"
                )

    def splits(self) -> list[str]:
        """The names of the splits, sorted."""
        return sorted(file.stem for file in self.datasets.glob("*.txt"))

    def task_ids(self, split: str) -> list[str]:
        """The ids of a split in the order of its file, without their tags; AppWorldDataError when it has no file."""
        file = self.datasets / f"{split}.txt"
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            known = ", ".join(self.splits()) or "none"
            raise AppWorldDataError(f"{file} cannot be read; the splits are {known}") from error
        return [task_id for line in lines if (task_id := line.partition(":")[0].strip())]

    def specs(self, task_id: str) -> dict[str, Any]:
        """What a task's `specs.json` says, its `instruction` and `supervisor` among it; AppWorldDataError without."""
        file = self.tasks / task_id / "specs.json"
        try:
            specs = json.loads(file.read_bytes())
        except (OSError, ValueError) as error:
            raise AppWorldDataError(f"{file} cannot be read; download the data root again") from error
        if not isinstance(specs, dict) or not {"instruction", "supervisor"} <= specs.keys():
            raise AppWorldDataError(f"{file} has no instruction and supervisor; download the data root again")
        return specs

    def digest(self, task_id: str) -> str:
        """The SHA-256 of the files that make the task's world and its grader, in hex."""
        digest = hashlib.sha256()
        folder = self.tasks / task_id
        for part in _TASK_DIGEST_OF:
            found = folder / part
            for file in sorted(found.rglob("*")) if found.is_dir() else [found]:
                if file.is_file() and "__pycache__" not in file.parts:
                    digest.update(f"{file.relative_to(folder)}\0{file.stat().st_size}\0".encode())
                    digest.update(file.read_bytes())
        return digest.hexdigest()
