"""One pool owns a URL file."""

from __future__ import annotations

import dataclasses
import errno
import os
import threading
from pathlib import Path

import pytest

from miroir.errors import UrlFileError
from miroir.pool.owner import Owner
from miroir.pool.urlfile import UrlFile
from miroir.urls import read_urls, write_urls


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file is to be."""
    return tmp_path / "urls.txt"


def test_a_claimed_file_is_written_removed_and_released(path: Path) -> None:
    """A pool that ends leaves neither the file nor the lock."""
    file = UrlFile(path)
    file.claim()
    assert not path.exists()
    file.write(["http://a"])
    file.write([])
    file.write(["http://a", "http://b"])
    assert read_urls(path) == ["http://a", "http://b"]
    file.remove()
    file.release()
    assert list(path.parent.iterdir()) == []


def test_a_second_claim_is_refused(path: Path) -> None:
    """The message names the owner and says what to do; the refused one harms nothing when it lets go."""
    first, second = UrlFile(path), UrlFile(path)
    first.claim()
    first.write(["http://a"])
    with pytest.raises(
        UrlFileError,
        match=r"urls.txt belongs to the pool of process \d+ on .*; stop that pool, .* or remove .*urls.txt.lock",
    ):
        second.claim()
    second.remove()
    second.release()
    assert read_urls(path) == ["http://a"]
    first.remove()
    first.release()
    second.claim()
    second.release()
    assert list(path.parent.iterdir()) == []


def test_a_dead_owner_leaves_the_file_to_the_next(path: Path) -> None:
    """What a killed pool left is removed by the next claim: its URLs are no longer true."""
    lock = path.with_name("urls.txt.lock")
    write_urls(path, ["http://gone"])
    lock.write_text(dataclasses.replace(Owner.me(), began="1").dump())
    file = UrlFile(path)
    file.claim()
    assert not path.exists()
    assert Owner.parse(lock.read_text()) == Owner.me()
    file.release()
    assert not lock.exists()


@pytest.mark.parametrize("record", ["junk", dataclasses.replace(Owner.me(), host="elsewhere").dump()])
def test_an_owner_that_cannot_be_proved_dead_keeps_the_file(record: str, path: Path) -> None:
    """A record that is not understood, or of another host, is believed."""
    write_urls(path, ["http://a"])
    lock = path.with_name("urls.txt.lock")
    lock.write_text(record)
    with pytest.raises(UrlFileError, match="belongs to the pool of"):
        UrlFile(path).claim()
    assert read_urls(path) == ["http://a"]
    assert lock.read_text() == record


def test_a_file_that_no_pool_wrote_is_not_touched(path: Path) -> None:
    """A list that a person wrote, and what is no file, are refused; an empty file is not."""
    path.write_text("http://mine\n")
    with pytest.raises(UrlFileError, match="exists and no pool wrote it; name another file, or remove it"):
        UrlFile(path).claim()
    with pytest.raises(UrlFileError, match="is not a file"):
        UrlFile(path.parent).claim()
    assert path.read_text() == "http://mine\n"
    assert list(path.parent.iterdir()) == [path]
    path.write_text("")
    file = UrlFile(path)
    file.claim()
    file.release()


def test_a_folder_that_is_not_there_is_refused(path: Path) -> None:
    """Nothing is started for a file that could not be written."""
    with pytest.raises(UrlFileError, match=r"cannot be claimed: No such file.*; name a file in a writable folder"):
        UrlFile(path / "x" / "urls.txt").claim()


def test_a_claim_for_which_the_disk_has_no_room_leaves_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No lock without a record stays behind."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(UrlFileError, match=r"cannot be claimed: No space left on device"):
        UrlFile(path).claim()
    assert list(path.parent.iterdir()) == []


def test_a_file_that_someone_else_rewrote_stays(path: Path) -> None:
    """Only what the pool wrote itself is removed."""
    file = UrlFile(path)
    file.claim()
    file.write(["http://a"])
    write_urls(path, ["http://b"])
    file.remove()
    file.release()
    assert read_urls(path) == ["http://b"]


def test_a_claim_that_another_pool_took_over_stays_its_own(path: Path) -> None:
    """Where somebody removed the lock of a running pool, its end leaves the next one's claim alone."""
    lock = path.with_name("urls.txt.lock")
    file = UrlFile(path)
    file.claim()
    other = dataclasses.replace(Owner.me(), host="elsewhere").dump()
    lock.unlink()
    lock.write_text(other)
    file.release()
    assert lock.read_text() == other


def test_a_claim_whose_lock_is_gone_is_given_up_without_a_trace(path: Path) -> None:
    """Its end makes no new lock."""
    file = UrlFile(path)
    file.claim()
    path.with_name("urls.txt.lock").unlink()
    file.release()
    assert list(path.parent.iterdir()) == []


def test_a_symlink_and_its_target_are_one_file(path: Path) -> None:
    """A second pool is refused by whatever name it comes."""
    link = path.with_name("link.txt")
    link.symlink_to(path)
    file = UrlFile(link)
    file.claim()
    with pytest.raises(UrlFileError, match="belongs to the pool"):
        UrlFile(path).claim()
    file.release()


def test_of_many_that_claim_at_once_one_wins(path: Path) -> None:
    """A stale record is taken over once, also while winners let go."""
    wins, won, losses = [], threading.Semaphore(1), []

    def claim() -> None:
        for _ in range(20):
            file = UrlFile(path)
            try:
                file.claim()
            except UrlFileError:
                losses.append(file)
                continue
            wins.append(won.acquire(blocking=False))
            won.release()
            file.release()

    threads = [threading.Thread(target=claim) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wins
    assert all(wins)
    assert len(wins) + len(losses) == 160
    assert list(path.parent.iterdir()) == []
