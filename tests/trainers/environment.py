"""The environment of the trainers, loaders and validators that training data is made for."""

from __future__ import annotations

import importlib.metadata
import os
from pathlib import Path

from peers.venvs import venv

import miroir


def interpreter() -> Path:
    """Its Python, of the version that runs the tests."""
    return venv("trainers") / "bin" / "python"


def offline(home: Path, **more: str) -> dict[str, str]:
    """This process's environment, for scripts that must fetch nothing; their caches go to `home`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "HF_HUB_OFFLINE": "1", "HF_HOME": str(home), **more}


def linked_package(folder: Path) -> Path:
    """The folder, from which another interpreter of this version now imports this very miroir."""
    (folder / "miroir").symlink_to(Path(miroir.__file__).parent)
    metadata = Path(str(importlib.metadata.distribution("miroir")._path))  # type: ignore[attr-defined]
    (folder / metadata.name).symlink_to(metadata)
    return folder
