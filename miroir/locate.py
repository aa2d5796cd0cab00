"""What `package.module:name` names, imported from where Python finds it or from the current directory."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from .errors import InvalidArgument


def locate(reference: str, kind: str) -> object:
    """The object of the reference; InvalidArgument, which calls it a `kind`, when it cannot be had."""
    module_name, colon, name = reference.partition(":")
    if not (module_name and colon and name):
        raise InvalidArgument(f"the {kind} {reference!r} is not of the form package.module:name; write it so")
    here = str(Path.cwd())
    if here not in sys.path:  # a console script's path lacks it
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}."):
            raise InvalidArgument(
                f"the {kind} {reference!r}: there is no module {error.name}; install it or go to its directory"
            ) from error
        raise InvalidArgument(
            f"the {kind} {reference!r}: importing {module_name} raised {type(error).__name__}: {error}; fix the module"
        ) from error
    try:
        return getattr(module, name)
    except AttributeError as error:
        raise InvalidArgument(f"the {kind} {reference!r}: {module_name} has no {name}; check its spelling") from error
