"""The whole loop on the bundled world: leased servers, episodes, records, and what is made of them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .agents import load_agent
from .calibrate import calibrate, write_calibration
from .derive import Report as Funnel
from .derive import derive
from .errors import RecordError
from .pool import Event, Pool, ProcessEngine
from .review import Settings, write_report
from .run import Progress, Report, run
from .wire import Task

SERVERS = 4
TASKS = 12
K = 4
AGENT = "miroir.envs.office:clumsy?rate=0.15&seed=7"
LABEL = "clumsy"


@dataclass(frozen=True)
class Demo:
    """Where the demo's files are, what its run did, and what was made of its records.

    `document` is the calibration, `page` the review, `rows` the training rows that `funnel` tells the making of.
    """

    folder: Path
    traces: Path
    calibration: Path
    page: Path
    rows: Path
    report: Report
    document: dict[str, Any]
    funnel: Funnel


def demo(
    directory: str | os.PathLike[str] | None = None,
    *,
    on_event: Callable[[Event], None] | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> Demo:
    """Serve the office four times, play twelve tasks four times each with a clumsy agent, and use the records.

    They are calibrated, written as a page to review, and made into rows for supervised fine-tuning.

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
    page = write_report([traces], folder / "review.html", Settings(title="miroir demo", calibration=calibration)).path
    rows = folder / "sft.jsonl"
    funnel = derive([traces], "sft", rows, force=True)
    return Demo(folder, traces, calibration, page, rows, report, document, funnel)


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
