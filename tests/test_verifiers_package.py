"""The package without verifiers: importable, and clear about what is missing."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import miroir_verifiers
from miroir.errors import MissingExtra


def test_importing_it_imports_nothing_of_verifiers() -> None:
    """Nor what comes with it."""
    code = "import json, sys, miroir_verifiers; print(json.dumps(sorted({n.partition('.')[0] for n in sys.modules})))"
    loaded = set(json.loads(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout))
    assert loaded & {"verifiers", "pydantic", "datasets", "mcp", "openai", "uvicorn"} == set()


@pytest.mark.parametrize("name", ["load_environment", "MiroirEnv", "MiroirHarness", "MiroirTaskset"])
def test_without_verifiers_the_extra_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By an ImportError, at the first use."""
    monkeypatch.setitem(sys.modules, "verifiers", None)
    with pytest.raises(ImportError) as caught:
        getattr(miroir_verifiers, name)
    assert isinstance(caught.value, MissingExtra)
    assert caught.value.message == (
        f"miroir_verifiers.{name} needs verifiers; install it by `pip install 'miroir[verifiers]'`"
    )


def test_other_names_are_not_there() -> None:
    """As in any module."""
    with pytest.raises(AttributeError, match="module 'miroir_verifiers' has no attribute 'Nothing'"):
        miroir_verifiers.Nothing  # noqa: B018
