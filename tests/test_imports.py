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
    """Every name of `__all__` is there, sorted, and nothing is defined in `__init__`."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text())

    assert miroir.__all__ == sorted(miroir.__all__)
    assert all(hasattr(miroir, name) for name in miroir.__all__)
    assert not any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in tree.body)


def test_import_loads_no_extra() -> None:
    """`import miroir` loads no package of an extra, and no server."""
    code = "import json, sys, miroir; print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    loaded = set(json.loads(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout))

    assert loaded & {"starlette", "uvicorn", "tqdm", "orjson", "zstandard", "torch", "trl", "verifiers"} == set()


def test_the_package_is_typed() -> None:
    """Type checkers find the marker in the installed package."""
    assert importlib.util.find_spec("miroir") is not None
    assert (PACKAGE / "py.typed").exists()
