"""Miroir, as it is installed here, for the interpreter of another virtual environment."""

from __future__ import annotations

import os
from importlib.metadata import distribution
from pathlib import Path

import websockets

import miroir
import miroir_verifiers

SCENES = Path(__file__).with_name("verifiers_scenes")


def site(folder: Path) -> Path:
    """The folder, for PYTHONPATH, with Miroir, its metadata, the scenes, and what peers do not bring of its needs."""
    folder.mkdir(parents=True, exist_ok=True)
    metadata = distribution("miroir")
    named = Path(str(metadata.locate_file(f"miroir-{metadata.version}.dist-info")))
    modules = [Path(str(module.__file__)).parent for module in (miroir, miroir_verifiers, websockets)]
    for path in (*modules, named, SCENES):
        (folder / path.name).symlink_to(path)
    return folder


def variables(site: Path, home: Path, **more: str) -> dict[str, str]:
    """The variables of a process that imports from the folder, and keeps what it writes under `home`."""
    own = ("PRIME_", "XDG_")  # which would take what is written elsewhere
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return {**kept, "PYTHONPATH": str(site), "HOME": str(home), **more}
