"""A client that plays office episodes in some threads until its standard input ends, and logs what befell each.

Arguments: URL file, log file, number of threads, seed. A log line is JSON, its `at` on the machine's monotonic clock.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

from miroir import ConnectionLost, Deadlines, EnvError, Fleet, MiroirError, Session, StepTimeout, tasks

DEADLINES = Deadlines(handshake_s=5, reset_s=20, step_s=8, finish_s=20)
LEASE_S = 60.0


class Log:
    """Appends lines to a file, each by one write."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def line(self, **what: Any) -> None:
        """One event."""
        os.write(self._file, (json.dumps({"at": time.monotonic(), "pid": os.getpid(), **what}) + "\n").encode())


def play(session: Session, task_id: str, dice: random.Random) -> str:
    """One episode; `graded`, or why it is void."""
    try:
        session.reset(task_id)
        for _ in range(dice.randint(1, 4)):
            session.step("mail_list", {})
            time.sleep(dice.expovariate(20))
        return "graded" if session.finish()["reward"] is not None else "void by the environment"
    except (ConnectionLost, StepTimeout, EnvError) as error:
        return f"void: {error}"


def work(fleet: Fleet, log: Log, task_ids: list[str], dice: random.Random, ended: threading.Event) -> None:
    """Lease and play until it is over."""
    while not ended.is_set():
        asked_at = time.monotonic()
        try:
            session = fleet.lease(timeout_s=LEASE_S)
        except MiroirError as error:
            log.line(event="starved", why=str(error))
            continue
        lease = f"{os.getpid()}-{id(session)}-{time.monotonic_ns()}"
        log.line(event="leased", lease=lease, url=session.url, waited_s=time.monotonic() - asked_at)
        outcome = play(session, dice.choice(task_ids), dice)
        log.line(event="over", lease=lease, outcome=outcome)
        session.close()


def main() -> None:
    """Play until standard input ends."""
    urls, path, threads, seed = sys.argv[1:]
    log, ended = Log(path), threading.Event()
    with Fleet(Path(urls), deadlines=DEADLINES, chain_s=1) as fleet:
        with fleet.lease(timeout_s=LEASE_S) as session:
            task_ids = [task["id"] for task in tasks(session.url)]
        workers = [
            threading.Thread(target=work, args=[fleet, log, task_ids, random.Random(f"{seed}-{n}"), ended])
            for n in range(int(threads))
        ]
        for worker in workers:
            worker.start()
        sys.stdin.read()
        ended.set()
        for worker in workers:
            worker.join()
    log.line(event="ended", stats={key: value for key, value in fleet.stats().items() if key != "urls"})


if __name__ == "__main__":
    main()
