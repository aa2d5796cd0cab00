"""The whole loop on the bundled world: a pool of four servers, leased episodes, records on disk, calibrated."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .agents import load_agent
from .calibrate import calibrate, write_calibration
from .errors import RecordError
from .pool import Event, Pool, ProcessEngine
from .run import Progress, Report, run
from .wire import Task

SERVERS = 4
TASKS = 12
K = 4
AGENT = "miroir.envs.office:clumsy?rate=0.15&seed=7"
LABEL = "clumsy"


@dataclass(frozen=True)
class Demo:
    """Where the demo's files are, what its run did, and what calibration made of the records."""

    folder: Path
    traces: Path
    calibration: Path
    report: Report
    document: dict[str, Any]


def demo(
    directory: str | os.PathLike[str] | None = None,
    *,
    on_event: Callable[[Event], None] | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> Demo:
    """Serve the office four times, play twelve tasks four times each with a clumsy agent, and calibrate the records.

    The files go to `directory`, or to a new temporary folder. Done again in the same folder, it plays nothing twice.
    `on_event` is told of the servers, `progress` of the episodes.
    """
    folder = _folder(directory)
    traces, calibration = folder / "traces", folder / "calibration.json"
    with Pool(ProcessEngine("office"), n=SERVERS, urls_file=folder / "urls.txt", on_event=on_event):
        report = run(
            folder / "urls.txt",
            traces,
            load_agent(AGENT),
            narrow=spread,
            k=K,
            concurrency=2 * SERVERS,
            progress=progress,
        )
    document = calibrate([traces], LABEL, k=K)
    write_calibration(document, calibration)
    return Demo(folder, traces, calibration, report, document)


def spread(tasks: list[Task]) -> list[Task]:
    """Twelve of the tasks, from all parts of the list: an environment lists what is alike together."""
    return [tasks[index * len(tasks) // TASKS] for index in range(TASKS)] if len(tasks) > TASKS else tasks


def _folder(directory: str | os.PathLike[str] | None) -> Path:
    if directory is None:
        return Path(tempfile.mkdtemp(prefix="miroir-demo-"))
    folder = Path(directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordError(f"{folder} cannot hold the demo ({error.strerror}); name a writable folder") from error
    return folder
