"""Virtual environments for peers from the package index: made once for a set of requirements, then used again."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

INSTALL_S = 600.0
MARKER = "complete"


def venv(name: str, requirements: Sequence[str]) -> Path:
    """The folder of a virtual environment in which pip installed the requirements (anything that `pip install` takes).

    It is made where it stays, under a lock, and counts only with its marker: one that was not finished is made anew.
    """
    wanted = json.dumps([sys.version_info[:2], *requirements])
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "miroir-ci"
    folder = cache / f"{name}-{hashlib.sha256(wanted.encode()).hexdigest()[:16]}"
    cache.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / MARKER).exists():
            shutil.rmtree(folder, ignore_errors=True)
            _run(sys.executable, "-m", "venv", str(folder))
            _run(str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *requirements)
            (folder / MARKER).touch()
    return folder


def _run(*command: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-4000:]}")
