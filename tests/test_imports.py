"""The house: which module may import which, what `import miroir` costs, and what is public."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import miroir

PACKAGE = Path(miroir.__file__).parent

# Each room may import those of earlier lines, and its own line. A package stands for all its modules.
ORDER = """
errors
wire deadlines disk columns
rest urls locate sse
transport stats schedule
chat
broker
session
fleet
catalog coworkers records notes
agents
void
episode
run
calibrate
review derive check trl
demo
cli
__main__
"""
RANK = {name: rank for rank, line in enumerate(ORDER.strip().splitlines()) for name in line.split()}

# What runs inside a container needs none of the client.
SERVER_SIDE = {
    "serve": {"errors", "wire", "locate", "serve"},
    "envs": {
        "errors",
        "wire",
        "rest",
        "sse",
        "serve",
        "appworld",
        "envs",
    },  # a gateway asks the server that it stands before
}
POOL = {"errors", "wire", "rest", "urls", "columns", "pool"}
APPWORLD = {"errors", "rest", "urls", "pool", "appworld"}


def modules() -> list[tuple[str, set[str]]]:
    """Every module of the package: its room, and the rooms it imports."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = ["miroir", *path.relative_to(PACKAGE).with_suffix("").parts]
        imported = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom):
                continue
            base = parts[: len(parts) - node.level] if node.level else []
            names = [*base, *(node.module or "").split(".")] if node.module else base
            for alias in node.names:
                target = names if len(names) > 1 else [*names, alias.name]
                if target[0] == "miroir" and len(target) > 1:
                    imported.add(target[1])
        found.append((parts[1], imported))
    return found


def test_dependencies_point_one_way() -> None:
    """A room imports from the rooms before it, never from those after it."""
    wrong = [
        f"{room} imports {other}"
        for room, imported in modules()
        for other in imported - {room}
        if room in RANK and other in RANK and RANK[other] > RANK[room]
    ]

    assert wrong == []


def test_every_room_has_its_place() -> None:
    """The order above names every module of the package."""
    rooms = {room for room, _ in modules()} - {"__init__"}

    assert rooms - set(RANK) - {"pool", "serve", "envs", "appworld"} == set()


@pytest.mark.parametrize(("room", "allowed"), [*SERVER_SIDE.items(), ("pool", POOL), ("appworld", APPWORLD)])
def test_a_container_needs_none_of_the_client(room: str, allowed: set[str]) -> None:
    """The serve kit and the worlds import no client, the pool no session."""
    imported = set().union(*(others for name, others in modules() if name == room))

    assert imported - allowed == set()


def test_the_package_under_test_is_the_installed_one() -> None:
    """In continuous integration the built wheel is tested, not the folder beside the tests."""
    here = Path(__file__).parents[1]

    assert not os.environ.get("CI") or here not in PACKAGE.parents


def test_public_names_are_what_they_are_said_to_be() -> None:
    """Type checkers are told of every name of `__all__`, from the module that it is loaded from, and of no other."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    told = {
        alias.name: node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    }

    assert miroir.__all__ == sorted(miroir.__all__)
    for name in miroir.__all__:
        assert getattr(miroir, name) is getattr(importlib.import_module(f"miroir.{told[name]}"), name)
    assert told.keys() - set(miroir.__all__) == {"import_module", "Any", "TYPE_CHECKING"}
    assert set(miroir.__all__) <= set(dir(miroir))
    with pytest.raises(AttributeError, match="module 'miroir' has no attribute 'Sessoin'"):
        miroir.Sessoin  # noqa: B018


def test_names_load_what_they_need() -> None:
    """`import miroir` loads no client, so a server needs none; a name or its module does, at the first use."""
    code = """
import sys, miroir
assert not {"requests", "websockets", "miroir.errors"} & set(sys.modules)
assert miroir.errors.EnvError is miroir.EnvError
assert "requests" not in sys.modules
from miroir import *
assert Session is miroir.session.Session and "requests" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_import_loads_no_extra() -> None:
    """All names of `miroir` load no package of an extra, and no server."""
    code = "from miroir import *; import json, sys; print(json.dumps([*sys.modules]))"
    modules = json.loads(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
    loaded = {name.partition(".")[0] for name in modules}

    assert loaded & {"starlette", "uvicorn", "tqdm", "orjson", "zstandard", "torch", "trl", "verifiers"} == set()


def test_the_package_is_typed() -> None:
    """Type checkers find the marker in the installed package."""
    assert importlib.util.find_spec("miroir") is not None
    assert (PACKAGE / "py.typed").exists()
