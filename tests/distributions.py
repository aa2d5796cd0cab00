"""Installed packages for tests: a module and the metadata that pip would have written, in a folder of the path."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PRESET = """
from miroir_verifiers.preset import Preset

preset = Preset(["http://127.0.0.1:8000"], split="eval", surface="mcp", token_env="FLEET_TOKEN")
"""


def install(folder: Path, distribution: str, entry: str, code: str = PRESET) -> None:
    """A distribution 1.0 whose module holds the code, and that gives `entry`, as in `crm = crm_tasks:preset`."""
    module = distribution.replace("-", "_")
    (folder / f"{module}.py").write_text(code)
    metadata = folder / f"{module}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[miroir.verifiers]\n{entry}\n")


@contextmanager
def installed(folder: Path) -> Iterator[None]:
    """The folder is on the path; what was imported from it is forgotten."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(str(folder)):
                del sys.modules[name]
