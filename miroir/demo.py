"""The whole loop on the bundled world: a pool of four servers, leased episodes, records on disk."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .agents import load_agent
from .report import Progress
from .errors import RecordError
from .pool import Pool, ProcessEngine
from .run import Report, run

SERVERS = 4
TASKS = 12
K = 4
AGENT = "miroir.envs.office:clumsy?rate=0.15&seed=7"


@dataclass(frozen=True)
class Demo:
    """Where the demo's files are, and what its run did."""

    folder: Path
    traces: Path
    report: Report


def demo(directory: str | os.PathLike[str] | None = None, *, progress: Callable[[Progress], object] | None = None) -> Demo:
    """Serve the office four times, play twelve tasks four times each with a clumsy agent; under a minute on two cores."""
    folder = Path(directory) if directory is not None else Path(tempfile.mkdtemp(prefix="miroir-demo-"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordError(f"{folder} cannot hold the demo ({error.strerror}); name a writable folder") from error
    traces = folder / "traces"
    urls = folder / "urls.txt"
    with Pool(ProcessEngine("office"), n=SERVERS, urls_file=urls):
        report = run(
            urls,
            traces,
            load_agent(AGENT),
            narrow=lambda tasks: tasks[:: max(1, len(tasks) // TASKS)][:TASKS],
            k=K,
            concurrency=SERVERS * 2,
            progress=progress,
        )
    return Demo(folder, traces, report)
