"""Proof that an owner is gone, which fails closed."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest
from processes import until

from miroir.pool.owner import Owner


def of_child(child: subprocess.Popen[bytes]) -> Owner:
    """The owner record that the child would write."""
    began = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
    return dataclasses.replace(Owner.me(), pid=child.pid, began=began)


def test_a_live_process_is_not_dead() -> None:
    """Neither this process nor one of another user is taken for dead."""
    assert not Owner.me().is_dead()
    assert not dataclasses.replace(Owner.me(), pid=1, began="").is_dead()


def test_a_record_survives_its_file() -> None:
    """What `dump` writes `parse` reads; anything else is no owner."""
    assert Owner.parse(Owner.me().dump()) == Owner.me()
    for text in ("", "{}", "[]", "junk", '{"pid": 1}', Owner.me().dump().replace(f"{os.getpid()}", '"x"')):
        assert Owner.parse(text) is None


def test_a_killed_process_is_dead_as_zombie_and_reaped() -> None:
    """A process that its parent has not reaped yet runs no more."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as child:
        owner = of_child(child)
        assert not owner.is_dead()
        child.kill()
        assert until(owner.is_dead)
    assert owner.is_dead()


def test_a_pid_used_again_is_another_process() -> None:
    """The pid lives, but began at another time."""
    assert dataclasses.replace(Owner.me(), began="1").is_dead()


@pytest.mark.parametrize("change", [{"host": "elsewhere"}, {"boot": "another"}, {"namespace": "pid:[1]"}])
def test_what_cannot_be_looked_at_is_alive(change: dict[str, str]) -> None:
    """Another host, another boot and another namespace of pids give no proof."""
    assert not dataclasses.replace(Owner.me(), pid=2**22 - 1, began="1", **change).is_dead()
