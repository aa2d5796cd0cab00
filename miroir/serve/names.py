"""An environment by its name: a bundled one, or `package.module:Class`."""

from __future__ import annotations

from ..errors import InvalidArgument
from ..locate import locate
from .environment import Environment

BUNDLED = {
    "office": "miroir.envs.office:Office",
    "appworld": "miroir.envs.appworld:AppWorld",
    "ors": "miroir.envs.ors:Ors",
}


def reference(name: str) -> str:
    """The `package.module:Class` that the name stands for; InvalidArgument when it can stand for none."""
    if name not in BUNDLED and ":" not in name:
        raise InvalidArgument(f"no environment {name!r}; name one of {', '.join(BUNDLED)}, or package.module:Class")
    return BUNDLED.get(name, name)


def find(name: str) -> type[Environment]:
    """The environment class of that name; the current directory is importable. InvalidArgument when there is none."""
    found = locate(reference(name), "environment")
    if not (isinstance(found, type) and issubclass(found, Environment)):
        raise InvalidArgument(f"{name!r} is no environment; name a subclass of miroir.serve.Environment")
    missing = sorted(getattr(found, "__abstractmethods__", ()))
    if missing:
        raise InvalidArgument(f"the environment {name!r} has no {', '.join(missing)}; define them")
    return found
