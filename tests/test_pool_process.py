"""A pool of server processes, with servers of the standard library that misbehave as told."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

import pytest
import requests
from processes import alive, descriptors, until

from miroir.errors import ContainerPoolError, InvalidArgument, UrlFileError
from miroir.pool import Change, Engine, Event, Pool, ProcessEngine, Timing
from miroir.pool.owner import Owner
from miroir.pool.process import ending
from miroir.urls import read_urls

SERVE = (sys.executable, str(Path(__file__).with_name("poolserver.py")))
FAST = Timing(start_s=20.0, ready_every_s=0.02, ended_every_s=0.02, health_every_s=0.1, health_s=0.5)


class Told:
    """The events that a pool told, for a test to wait on."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def __getitem__(self, change: Change) -> list[Event]:
        return [event for event in self.events if event.change is change]


def engine(env: str = "well", timing: Timing = FAST, **options: object) -> ProcessEngine:
    """An engine of fake servers."""
    return ProcessEngine(env, timing=timing, serve=SERVE, **options)  # type: ignore[arg-type]


def post(url: str, path: str) -> None:
    """Tell a server to change; a crash gives no answer."""
    try:
        requests.post(f"{url}/{path}", timeout=5)
    except requests.ConnectionError:
        return


def pids(urls: list[str]) -> list[int]:
    """The processes behind the URLs."""
    return [requests.get(f"{url}/health", timeout=5).json()["pid"] for url in urls]


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first restart comes after a tenth of a second."""
    monkeypatch.setattr("miroir.pool.restarts.FIRST_DELAY_S", 0.1)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where an engine makes its temporary folder."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def test_a_pool_is_ready_when_all_are_and_leaves_nothing(tmp_path: Path, temporary: Path) -> None:
    """The file lists every server; after the block it is gone, with the processes, the lock and the folder."""
    path, told = tmp_path / "urls.txt", Told()
    with Pool(engine(), n=4, urls_file=path, on_event=told) as pool:
        assert read_urls(path) == pool.urls
        assert len(set(pool.urls)) == 4
        assert [event.name for event in sorted(told.events, key=str)] == [f"well-{n}" for n in range(4)]
        assert all(event.change is Change.READY for event in told.events)
        found = pids(pool.urls)
    assert not any(map(alive, found))
    assert not path.exists()
    assert not path.with_name("urls.txt.lock").exists()
    assert list(temporary.iterdir()) == []
    pool.stop()


def test_a_pool_may_start_with_fewer_than_all(tmp_path: Path) -> None:
    """With `least` it is ready when so many are and the rest have failed; those come when they can."""
    told = Told()
    with Pool(engine(f"once:{tmp_path / 'first'}"), n=2, least=1, on_event=told) as pool:
        assert len(pool.urls) == 1
        assert len(told[Change.FAILED]) == 1
        (tmp_path / "first").rmdir()
        assert until(lambda: len(pool.urls) == 2)


def test_a_pool_with_too_few_does_not_start(tmp_path: Path) -> None:
    """One more failure than `least` allows ends the start, with nothing left."""
    with pytest.raises(ContainerPoolError, match="nothing was left running"):
        Pool(engine(f"once:{tmp_path / 'first'}"), n=3, least=2).start()
    with pytest.raises(InvalidArgument, match="at least 3 of 2 containers cannot be; ask for 1 to 2"):
        Pool(engine(), n=2, least=3)


def test_a_pool_needs_no_url_file() -> None:
    """`urls` says who is ready."""
    with Pool(engine(), n=1) as pool:
        assert len(pool.urls) == 1
    assert pool.urls == []


def test_a_crashed_server_leaves_the_file_and_comes_back(tmp_path: Path) -> None:
    """Out of the file within a second, and back, ready, at whatever port the kernel gives; the rest is not touched."""
    path, told = tmp_path / "urls.txt", Told()
    with Pool(engine(), n=3, urls_file=path, on_event=told) as pool:
        before = pool.urls
        post(before[1], "crash")
        assert until(lambda: len(read_urls(path)) == 2, 5.0)
        assert read_urls(path) == [before[0], before[2]]
        assert until(lambda: len(read_urls(path)) == 3)
        assert [read_urls(path)[0], read_urls(path)[2]] == [before[0], before[2]]
        assert len(pids(read_urls(path))) == 3
        (down,) = told[Change.DOWN]
    assert str(down) == "well-1 down: ended with exit code 7; starts again in 0.1 s"
    assert down.log[-1] == "about to crash"


def test_a_file_with_no_server_left_is_true_too(tmp_path: Path) -> None:
    """While the only server is down the file lists none."""
    path = tmp_path / "urls.txt"
    with Pool(engine(), n=1, urls_file=path) as pool:
        post(pool.urls[0], "crash")
        assert until(lambda: "http" not in path.read_text(), 5.0)
        assert until(lambda: "http" in path.read_text())


@pytest.mark.parametrize(("how", "why"), [("sick", "told to be"), ("stop", "timed out")])
def test_a_server_that_is_unhealthy_for_long_is_replaced(how: str, why: str, tmp_path: Path) -> None:
    """503 three times in a row, or no answer, while the process lives; one that cannot end is killed."""
    path, told = tmp_path / "urls.txt", Told()
    with Pool(engine(timing=replace(FAST, grace_s=0.3)), n=1, urls_file=path, on_event=told) as pool:
        (url,), (pid,) = pool.urls, pids(pool.urls)
        if how == "sick":
            post(url, "sick")
        else:
            os.kill(pid, 19)
        assert until(lambda: told[Change.DOWN])
        assert until(lambda: len(told[Change.READY]) == 2)
        assert not alive(pid)
        assert pids(pool.urls) != [pid]
    assert f"was unhealthy 3 times in a row ({'/health answered HTTP 503: ' if how == 'sick' else ''}{why})" in str(
        told[Change.DOWN][0]
    )


def test_a_server_of_someone_else_at_the_url_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed boot id is a fault, however healthy the answer."""
    told = Told()
    with Pool(engine(), n=1, on_event=told) as pool:
        from miroir.pool import slot

        real = slot.read_status
        monkeypatch.setattr(
            slot, "read_status", lambda url, timeout_s: replace(real(url, timeout_s=timeout_s), boot_id="another")
        )
        assert until(lambda: told[Change.DOWN])
        monkeypatch.setattr(slot, "read_status", real)
        assert pool.urls or until(lambda: pool.urls)
    assert "another server answers at its URL" in str(told[Change.DOWN][0])


def test_a_start_that_fails_shows_code_and_log(tmp_path: Path, temporary: Path) -> None:
    """The message ends with the server's last line; the error and the event carry the last fifty."""
    path, told = tmp_path / "urls.txt", Told()
    with pytest.raises(
        ContainerPoolError,
        match=r"exit-\d ended with exit code 1 before it was ready: error: told to fail; nothing was left running",
    ) as caught:
        Pool(engine("exit"), n=3, urls_file=path, on_event=told).start()
    assert caught.value.log == told[Change.FAILED][0].log
    assert caught.value.log[-2:] == ("line 69\N{REPLACEMENT CHARACTER}[31m", "error: told to fail")
    assert len(caught.value.log) == 50
    assert list(tmp_path.iterdir()) == [temporary]
    assert list(temporary.iterdir()) == []


def test_a_start_that_fails_half_way_leaves_nothing(tmp_path: Path) -> None:
    """Servers that were ready already are stopped; the file was never there."""
    path, told = tmp_path / "urls.txt", Told()
    with pytest.raises(ContainerPoolError, match="error: not again"):
        Pool(engine(f"once:{tmp_path / 'first'}"), n=3, urls_file=path, on_event=told).start()
    assert len(told[Change.READY]) == 1
    assert list(tmp_path.iterdir()) == [tmp_path / "first"]


@pytest.mark.parametrize("env", ["silent", "junk"])
def test_a_server_that_does_not_come_up_in_time_fails(env: str) -> None:
    """One that never listens, and one whose port file is junk."""
    with pytest.raises(ContainerPoolError, match=rf"{env}-0 was not ready within 0.3 s \(it does not listen\)"):
        Pool(engine(env, replace(FAST, start_s=0.3)), n=1).start()


def test_a_command_that_is_not_there_fails() -> None:
    """The operating system's reason is shown."""
    broken = ProcessEngine("well", serve=("/nonexistent",), timing=FAST)
    with pytest.raises(ContainerPoolError, match=r"could not be started: .*No such file"):
        Pool(broken, n=2).start()


class Scripted(Engine):
    """An engine that tells what it was given; some containers are ready."""

    def __init__(self, *changes: tuple[str, Change], ready: tuple[str, ...] = ()) -> None:
        self.events: SimpleQueue[Event] = SimpleQueue()
        self.running = False
        self._changes = changes
        self._ready = ready

    def start(self, n: int) -> None:
        self.running = True
        for name, change in self._changes:
            self.events.put(Event(name, change, "as told"))

    def cancel(self) -> None:
        """Nothing is prepared."""

    def ready(self) -> list[str]:
        return list(self._ready)

    def logs(self, name: str) -> tuple[str, ...]:
        return ()

    def stop(self) -> None:
        self.running = False

    def kill(self) -> None:
        """Nothing is waited for."""


@contextlib.contextmanager
def bounded(pool: Pool) -> Iterator[None]:
    """Whatever waits in the block returns after some seconds."""
    timer = threading.Timer(5.0, pool.cancel)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def test_a_start_does_not_wait_for_a_container_that_was_given_up() -> None:
    """One that was ready, and went down too often before the others were: the start fails, with nothing left."""
    scripted = Scripted(("env-0", Change.READY), ("env-0", Change.GIVEN_UP))
    pool = Pool(scripted, n=2)
    with bounded(pool), pytest.raises(ContainerPoolError, match="env-0 as told; nothing was left running"):
        pool.start()
    assert not scripted.running


def test_a_container_that_was_given_up_during_the_start_counts() -> None:
    """`wait` raises once every container was given up, whenever that was."""
    scripted = Scripted(*[(name, Change.GIVEN_UP) for name in ("env-0", "env-1")])
    pool = Pool(scripted, n=2, least=0)
    with bounded(pool), pool, pytest.raises(ContainerPoolError, match="every container was given up"):
        pool.wait()


def test_threads_that_cannot_be_started_fail_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was begun is stopped, and the message says which limit it was."""
    start = threading.Thread.start

    def scarce(thread: threading.Thread) -> None:
        if thread.name == "miroir-pool-well-1":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", scarce)
    with pytest.raises(ContainerPoolError, match=r"only 1 of 3 threads could be started; .*\(ulimit -u\)"):
        Pool(engine(), n=3, urls_file=tmp_path / "urls.txt").start()
    assert list(tmp_path.iterdir()) == []


def test_a_machine_without_room_for_temporary_files_starts_no_pool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is one error with the reason, and the URL file is given up."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(
        ContainerPoolError, match=r"nowhere to keep its temporary files: No such file or directory; free space"
    ):
        Pool(engine(), n=1, urls_file=tmp_path / "urls.txt").start()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kept", [True, False])
def test_folders_that_were_tidied_away_are_made_again(kept: bool, tmp_path: Path, temporary: Path) -> None:
    """Temporary folders are swept on many machines after days: a server that is replaced then comes back."""
    logs, told = tmp_path / "logs", Told()
    with Pool(engine(log_dir=logs if kept else None), n=1, on_event=told) as pool:
        for folder in (*temporary.iterdir(), *([logs] if kept else [])):
            shutil.rmtree(folder)
        post(pool.urls[0], "crash")
        assert until(lambda: told[Change.DOWN])
        assert until(lambda: len(told.events) == 3)
        assert told.events[-1].change is Change.READY
    assert list(temporary.iterdir()) == []


def test_a_server_that_is_replaced_leaves_no_file(temporary: Path) -> None:
    """A pool that replaces servers for days does not fill the disk with what each of them had."""
    told = Told()
    with Pool(engine(), n=1, on_event=told) as pool:
        (folder,) = temporary.iterdir()
        before = len(list(folder.iterdir()))
        post(pool.urls[0], "crash")
        assert until(lambda: len(told[Change.READY]) == 2)
        assert len(list(folder.iterdir())) == before


def test_folders_of_killed_pools_are_removed_by_the_next(temporary: Path) -> None:
    """Only those whose owner is provably dead: another pool's, and what no pool made, stay."""
    owners = {
        "dead": dataclasses.replace(Owner.me(), began="1"),
        "alive": Owner.me(),
        "away": Owner("x", "", "", 1, ""),
    }
    for name, owner in owners.items():
        (temporary / f"miroir-pool-{name}").mkdir()
        (temporary / f"miroir-pool-{name}" / "owner").write_text(owner.dump())
    (temporary / "miroir-pool-junk").mkdir()
    with Pool(engine(), n=1):
        pass
    assert {path.name for path in temporary.iterdir()} == {"miroir-pool-alive", "miroir-pool-away", "miroir-pool-junk"}


def test_output_of_any_length_blocks_nobody(tmp_path: Path) -> None:
    """400 KB at the start and 200 KB later, with nobody reading."""
    with Pool(engine("loud", log_dir=tmp_path / "logs"), n=2) as pool:
        for url in pool.urls:
            post(url, "shout")
        assert len(pids(pool.urls)) == 2
    sizes = [path.stat().st_size for path in sorted((tmp_path / "logs").iterdir())]
    assert len(sizes) == 2
    assert all(size > 600_000 for size in sizes)


def test_options_reach_the_server_and_the_token_does_not_reach_its_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token travels by the name of its variable."""
    monkeypatch.setenv("POOL_TOKEN", "S3CRET")
    chosen = engine(token_env="POOL_TOKEN", allow_code=True, max_sessions=3, log_dir=tmp_path)
    with Pool(chosen, n=1) as pool:
        (line,) = [line for line in chosen.logs("well-0") if line.startswith("argv")]
        argv = Path(f"/proc/{pids(pool.urls)[0]}/cmdline").read_text()
    assert "--port 0 --token-env POOL_TOKEN --allow-code --max-sessions 3 --port-file" in line
    assert "S3CRET" not in argv + (tmp_path / "well-0.log").read_text()


def test_bad_arguments_are_refused_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No container, a token that is not set, no session, a log folder that is a file, a claimed URL file."""
    monkeypatch.delenv("POOL_TOKEN", raising=False)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InvalidArgument, match="a pool of 0 has no container"):
        Pool(engine(), n=0)
    with pytest.raises(InvalidArgument, match="variable POOL_TOKEN is empty or not set"):
        engine(token_env="POOL_TOKEN")
    with pytest.raises(InvalidArgument, match="max_sessions is 0"):
        engine(max_sessions=0)
    with pytest.raises(InvalidArgument, match="file is no folder for logs"):
        Pool(engine(log_dir=tmp_path / "file"), n=1, urls_file=tmp_path / "urls.txt").start()
    with pytest.raises(UrlFileError, match="no pool wrote it"):
        Pool(engine(), n=1, urls_file=tmp_path / "file").start()
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_two_pools_do_not_share_a_file(tmp_path: Path) -> None:
    """The second is refused at once, and the first goes on."""
    path = tmp_path / "urls.txt"
    with Pool(engine(), n=1, urls_file=path) as pool:
        with pytest.raises(UrlFileError, match=f"belongs to the pool of process {os.getpid()}"):
            Pool(engine(), n=1, urls_file=path).start()
        assert read_urls(path) == pool.urls


def test_what_a_server_started_ends_with_it(tmp_path: Path) -> None:
    """A crash leaves no orphan of the server's behind."""
    note, told = tmp_path / "pid", Told()
    with Pool(engine(f"orphans:{note}"), n=1, on_event=told) as pool:
        first = int(note.read_text())
        post(pool.urls[0], "crash")
        assert until(lambda: len(told[Change.READY]) == 2)
        assert until(lambda: not alive(first))
        second = int(note.read_text())
        assert alive(second)
    assert until(lambda: not alive(second))


def test_a_stubborn_server_is_killed_after_the_grace() -> None:
    """SIGTERM is asked first; `kill` takes the grace away."""
    for grace_s, hurry in ((0.3, False), (600.0, True)):
        pool = Pool(engine("stubborn", replace(FAST, grace_s=grace_s)), n=1)
        pool.start()
        (pid,) = pids(pool.urls)
        if hurry:
            threading.Timer(0.3, pool.kill).start()
        pool.stop()
        assert not alive(pid)


def test_a_start_can_be_cancelled(tmp_path: Path) -> None:
    """`start` returns with nothing running, and `wait` returns at once."""
    pool = Pool(engine("silent"), n=2, urls_file=tmp_path / "urls.txt")
    threading.Timer(0.3, pool.cancel).start()
    pool.start()
    assert pool.urls == []
    pool.wait()
    pool.stop()
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_start_leaves_nothing(tmp_path: Path) -> None:
    """KeyboardInterrupt, say, out of the caller's own callback."""

    def interrupt(event: Event) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Pool(engine(), n=2, urls_file=tmp_path / "urls.txt", on_event=interrupt).start()
    assert list(tmp_path.iterdir()) == []


def test_a_callback_that_raises_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """The error is logged, and the pool starts."""

    def fail(event: Event) -> None:
        raise OSError("nobody reads")

    with Pool(engine(), n=1, on_event=fail) as pool:
        assert pool.urls
    assert "on_event raised" in caplog.text


def test_a_file_that_cannot_be_written_for_a_while_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning, and the file is true again once the disk is."""
    path, told = tmp_path / "urls.txt", Told()
    with Pool(engine(), n=2, urls_file=path, on_event=told) as pool:
        before = path.read_text()

        def full(*_: object) -> None:
            raise UrlFileError("no space left")

        with monkeypatch.context() as patch:
            patch.setattr("miroir.pool.urlfile.write_urls", full)
            post(pool.urls[0], "crash")
            assert until(lambda: len(told[Change.READY]) == 3)
            assert path.read_text() == before
        assert until(lambda: read_urls(path) == pool.urls)
    assert [record.message for record in caplog.records] == ["no space left"]


def test_containers_that_keep_failing_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """With none left `wait` raises; the event says how it went."""
    monkeypatch.setattr("miroir.pool.restarts.BUDGET", 1)
    told = Told()
    with Pool(engine(), n=1, on_event=told) as pool:
        post(pool.urls[0], "crash")
        assert until(lambda: len(told[Change.READY]) == 2)
        post(pool.urls[0], "crash")
        with pytest.raises(ContainerPoolError, match="every container was given up"):
            pool.wait()
    assert "ended with exit code 7; it went down more than" in str(told[Change.GIVEN_UP][0])


def test_a_forked_child_cannot_stop_its_parents_pool(tmp_path: Path) -> None:
    """The child's copy does nothing, and holds no end of the pipe by which servers know that their pool lives."""
    path, before = tmp_path / "urls.txt", descriptors("pipe")
    with Pool(engine(), n=1, urls_file=path) as pool:
        pipes = descriptors("pipe") - before
        child = os.fork()
        if child == 0:
            pool.stop()
            os._exit(1 if descriptors("pipe") & pipes else 0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert pipes
        assert read_urls(path) == pool.urls
        assert len(pids(pool.urls)) == 1


@pytest.mark.parametrize(
    ("code", "said"), [(3, "ended with exit code 3"), (-9, "was killed by SIGKILL"), (-40, "was killed by signal 40")]
)
def test_how_a_server_ended_is_said(code: int, said: str) -> None:
    """By its exit code or the signal that killed it; real-time signals have no name."""
    assert ending(code) == said
