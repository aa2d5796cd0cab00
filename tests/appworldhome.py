"""What tests of AppWorld pools stand on: a data root of a few tasks, a fake interpreter and a fake Docker."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
SERVER = HERE / "appworldserver.py"


def data_root(folder: Path, tasks: int = 2) -> Path:
    """A root as AppWorld lays it out, with tasks `toy_1` to `toy_<tasks>`; the second is in `dev`, with a tag."""
    ids = [f"toy_{number}" for number in range(1, tasks + 1)]
    for task_id in ids:
        task = folder / "data" / "tasks" / task_id
        (task / "ground_truth").mkdir(parents=True)
        supervisor = {"first_name": "Ada", "last_name": "Toy", "email": "ada@example.com", "phone_number": "5550001"}
        specs = {"instruction": f"Solve {task_id}.", "supervisor": supervisor, "datetime": "2023-05-18T12:00:00"}
        (task / "specs.json").write_text(json.dumps(specs))
        (task / "ground_truth" / "evaluation.py").write_text("def evaluate(): ...\n")
    datasets = folder / "data" / "datasets"
    datasets.mkdir()
    (datasets / "train.txt").write_text("\n".join(ids) + "\n")
    (datasets / "dev.txt").write_text(f"{ids[-1]}:easy\n\n  \n{ids[0]}\n")
    return folder


def fake_python(folder: Path) -> str:
    """An interpreter whose package `appworld` is the fake server."""
    package = folder / "appworld"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "cli.py").write_text("from appworldserver import main\n")
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{folder}:{HERE}" exec {sys.executable} "$@"\n')
    script.chmod(0o755)
    return str(script)


def docker_on_path(folder: Path, command: tuple[str, ...], program: list[str]) -> str:
    """A value of PATH on which `docker` is the fake of the command, whose containers are the program."""
    (Path(command[-1]) / "program").write_text(json.dumps(program))
    script = folder / "bin" / "docker"
    script.parent.mkdir(exist_ok=True)
    script.write_text(f'#!/bin/sh\nexec {" ".join(command)} "$@"\n')
    script.chmod(0o755)
    return f"{script.parent}{os.pathsep}{os.environ['PATH']}"
