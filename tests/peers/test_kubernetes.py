"""The manifest of a pool on Kubernetes against Kubernetes' own schemas."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from peers.venvs import venv

from miroir.pool import ContainerSpec, Mount
from miroir.pool.kubernetes import manifest

pytestmark = pytest.mark.peers


@pytest.mark.parametrize(
    "spec",
    [
        ContainerSpec("world:1"),
        ContainerSpec(
            "r/w:1", ("serve", "a: b"), mounts=(Mount("/d", "/e", "ro"),), env=("T",), memory="4g", cpus="1.5"
        ),
    ],
)
def test_the_manifest_is_valid(spec: ContainerSpec, tmp_path: Path) -> None:
    """By kubernetes-validate, strictly: no property that Kubernetes does not know."""
    tool = venv("kubernetes-validate") / "bin" / "kubernetes-validate"
    path = tmp_path / "manifest.yaml"
    path.write_text(manifest(spec, 8))
    done = subprocess.run([tool, "--strict", path], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
