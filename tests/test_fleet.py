"""A fleet as an object: its own waiting line, sessions and statistics."""

from __future__ import annotations

import logging
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from fakefleet import FakeFleet

from miroir import Fleet
from miroir.errors import ConnectionFailed, InvalidArgument, NoFreeContainer, UrlFileError
from miroir.urls import write_urls


def test_lease_and_statistics() -> None:
    """Sessions are leased, counted, and given back."""
    with FakeFleet("free", "free") as running, Fleet(running.urls) as fleet:
        with fleet.lease(timeout_s=5) as session:
            assert fleet.stats()["urls"][session.url]["state"] == "held"

        assert fleet.stats()["requests_num"] == 1
        assert {row["state"] for row in fleet.stats()["urls"].values()} <= {"free", "unknown"}


def test_each_fleet_has_its_own_line() -> None:
    """Two fleets over the same containers share nothing but the containers."""
    with FakeFleet("free") as running, Fleet(running.urls) as one, Fleet(running.urls) as two:
        with one.lease(timeout_s=5), pytest.raises(NoFreeContainer):
            two.lease(wait_busy=False)
        two.lease(timeout_s=5).close()

        assert one.stats()["requests_num"] == 1


def test_many_threads_on_few_containers() -> None:
    """Sixty-four threads on four containers all get their episodes, and no container serves two at once."""
    with FakeFleet(*["free"] * 4) as running, Fleet(running.urls) as fleet:
        played = []

        def work(number: int) -> None:
            for _ in range(3):
                with fleet.lease(timeout_s=60) as session:
                    session.reset("t")
                    session.step("echo", {"number": number})
                    played.append(session.finish()["reward"])

        threads = [threading.Thread(target=work, args=[number]) for number in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert played == [1.0] * 192
        assert [container.most for container in running.containers] == [1] * 4
        assert fleet.stats()["requests_errors"] == 0


def test_closing_keeps_open_sessions() -> None:
    """A session outlives its fleet, and frees its container when it is closed."""
    with FakeFleet("free") as running:
        with Fleet(running.urls) as fleet:
            session = fleet.lease(timeout_s=5)
        session.reset("t")
        session.close()

        assert running.settled(0)
        with pytest.raises(InvalidArgument, match="this fleet is closed; make a new one"):
            fleet.lease()


def test_closed_as_the_interpreter_ends() -> None:
    """Closing waits for no lock: a thread that ended with the interpreter may hold it for ever."""
    with FakeFleet("free") as running:
        script = textwrap.dedent(f"""
            import miroir

            class Env:
                def __init__(self):
                    self.fleet = miroir.Fleet({running.urls!r})
                    self.session = self.fleet.lease(timeout_s=5)

                def __del__(self):
                    self.session.close()
                    self.fleet.close()
                    print("closed")

            env = Env()
            env.fleet._broker._desk._lock.acquire()  # as a thread does that is ended in the middle
        """)
        told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, cwd="/")

        assert (told.stdout, told.stderr) == ("closed\n", "")
        assert running.settled(0)


def test_bad_lists_fail_at_once(tmp_path: Path) -> None:
    """A fleet of nothing, or of a file that is not there, is refused when it is made."""
    with pytest.raises(ValueError, match="urls is empty"):
        Fleet([])
    with pytest.raises(UrlFileError):
        Fleet(tmp_path / "none.txt")


def test_a_fleet_in_a_file_that_grows(tmp_path: Path) -> None:
    """Waiters are served by containers that are added."""
    path = tmp_path / "urls.txt"
    with FakeFleet("held", "free") as running:
        write_urls(path, running.urls[:1])
        with Fleet(path) as fleet:
            threading.Timer(0.3, write_urls, [path, running.urls]).start()
            began = time.monotonic()
            with fleet.lease(timeout_s=10) as session:
                assert session.url == running.urls[1]
            assert time.monotonic() - began < 1.8


def test_a_line_a_minute_while_threads_wait(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log says how many wait, for how long, and what the fleet does."""
    monkeypatch.setattr("miroir.broker.diagnosis.REPORT_S", 0.5)
    with (
        FakeFleet("held", "down") as running,
        Fleet(running.urls) as fleet,
        caplog.at_level(logging.INFO, "miroir.lease"),
        pytest.raises(NoFreeContainer),
    ):
        fleet.lease(timeout_s=1.2)

    assert (
        "1 waiting, the first for 1 s; of 2 containers 1 leased (0 by this process), 1 unhealthy, 0 refused"
        in caplog.messages
    )


def test_all_refuse() -> None:
    """A wrong token everywhere is CONNECTION_FAILED, not a wait."""
    with FakeFleet("free", "free") as running:
        for container in running.containers:
            container.token = "right"
        with Fleet(running.urls, "wrong") as fleet, pytest.raises(ConnectionFailed, match="HTTP 401"):
            fleet.lease()
