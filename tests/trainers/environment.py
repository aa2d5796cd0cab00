"""The environment of the trainers, loaders and validators that training data is made for."""

from __future__ import annotations

import os
from pathlib import Path

from peers.venvs import venv


def interpreter() -> Path:
    """Its Python, of the version that runs the tests."""
    return venv("trainers") / "bin" / "python"


def offline(home: Path, **more: str) -> dict[str, str]:
    """This process's environment, for scripts that must fetch nothing; their caches go to `home`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "HF_HUB_OFFLINE": "1", "HF_HOME": str(home), **more}
