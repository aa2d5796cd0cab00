"""An agent for the toy tasks, by name on a command line: right, wrong, or mischievous once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

# What the trials from 2 on do the first time that they are played.
MISCHIEF = {
    2: "import os\nos.abort()",
    3: "print('\\ud800')",
    4: "raise BaseException('b')",
}


def plays(session: Any, task: Any, tools: Any, *, trial: int, notes: str, **_: Any) -> None:
    """Solve the task, but for trial 1; do mischief once for each further trial, noted in the folder `notes`."""
    number = int(task["instruction"].split()[2])
    session.step("execute", {"code": f"number = {number}"})
    note = Path(notes) / f"{task['id']}-{trial}"
    if trial in MISCHIEF and not note.exists():
        note.touch()
        session.step("execute", {"code": MISCHIEF[trial]})
    session.step("execute", {"code": f"apis.supervisor.complete_task(answer=number + {5 if trial == 1 else 1})"})
