"""A new package of tasks, written from the template: what `miroir verifiers init` does."""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys
from importlib.resources import files
from pathlib import Path
from string import Template

from miroir.errors import InvalidArgument

_NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")
_FILES = {
    "pyproject.toml.in": "pyproject.toml",
    "README.md.in": "README.md",
    "package.py.in": "{module}/__init__.py",
    "taskset.py.in": "{module}/taskset.py",
    "test.py.in": "tests/test_{module}.py",
}


def create(name: str, parent: str | Path = ".") -> Path:
    """Write the package of that name into a new folder of `parent`, which is returned; InvalidArgument if it cannot."""
    module = _module(name)
    folder = Path(parent) / name
    try:
        folder.mkdir(parents=True)
        for source, target in _FILES.items():
            path = folder / target.format(module=module)
            path.parent.mkdir(exist_ok=True)
            path.write_text(_filled(source, name, module), encoding="utf-8")
    except FileExistsError as error:
        raise InvalidArgument(f"{folder} is there already; choose another name, or another --path") from error
    except OSError as error:
        raise InvalidArgument(f"{folder} cannot be written: {error.strerror}; choose another --path") from error
    return folder


def _filled(source: str, name: str, module: str) -> str:
    text = files(__package__).joinpath("template", source).read_text(encoding="utf-8")
    return Template(text).substitute(name=name, module=module)


def _module(name: str) -> str:
    """The module that verifiers imports for the name; InvalidArgument for a name that it would take for another."""
    if not _NAME.fullmatch(name):
        raise InvalidArgument(
            f"{name!r} is no name of a package; write lower-case letters, digits and single hyphens, as in acme-crm"
        )
    module = name.replace("-", "_")
    if keyword.iskeyword(module) or module in sys.stdlib_module_names:
        raise InvalidArgument(f"{name!r} is a word of Python's own; choose another name")
    if importlib.util.find_spec(module) is not None or module in _tasksets():
        raise InvalidArgument(f"{name!r} is the name of another package that is installed; choose another name")
    return module


def _tasksets() -> set[str]:
    """The names that verifiers, where it is installed, gives to tasksets of its own before it looks for packages."""
    verifiers = importlib.util.find_spec("verifiers")
    roots = (verifiers.submodule_search_locations or []) if verifiers else []
    return {path.name for root in roots for path in Path(root, "v1", "tasksets").glob("*")}
