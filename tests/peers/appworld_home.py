"""The real AppWorld for tests: an interpreter that has it, and a data root of toy tasks, each made once and cached.

AppWorld's own code may be passed on encrypted alone: nothing of it is kept with these tests, it is unpacked where pip
has put it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

from peers.venvs import MARKER, venv

MAKE_ROOT = Path(__file__).parent / "appworld" / "make_toy_root.py"
TASKS = ("toy001x_1", "toy002x_1", "toy003x_1")


def python() -> str:
    """The interpreter."""
    return str(_home() / "bin" / "python")


def data_root() -> Path:
    """The data root."""
    return _home() / "toy"


def environment() -> dict[str, str]:
    """The environment in which it runs: it writes to no home folder."""
    return {**os.environ, "APPWORLD_CACHE": str(venv("appworld") / "cache")}


def _home() -> Path:
    folder = venv("appworld")
    root = folder / "toy"
    with (folder / "toy.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (root / MARKER).exists():
            shutil.rmtree(root, ignore_errors=True)
            for argv in (
                [str(folder / "bin" / "appworld"), "install"],
                [str(folder / "bin" / "python"), str(MAKE_ROOT), str(root), str(len(TASKS))],
            ):
                subprocess.run(argv, cwd=folder, env=environment(), check=True, capture_output=True, timeout=300)
            (root / MARKER).touch()
    return folder
