"""Objects named on the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from miroir.errors import InvalidArgument
from miroir.locate import locate


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current directory of its own, which nothing imports from yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_an_installed_module_is_found() -> None:
    """By its dotted name."""
    assert locate("json:dumps", "agent") is json.dumps


def test_a_module_in_the_current_directory_is_found(here: Path) -> None:
    """As `python -m` would find it, though a console script's path lacks the directory."""
    (here / "my_players.py").write_text("def play(): return 7\n")
    found = locate("my_players:play", "agent")
    assert callable(found)
    assert found() == 7


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("my_players", "the agent 'my_players' is not of the form package.module:name; write it so"),
        (":play", "the agent ':play' is not of the form package.module:name; write it so"),
        ("my_players:", "the agent 'my_players:' is not of the form package.module:name; write it so"),
        (
            "no_such.players:play",
            "the agent 'no_such.players:play': there is no module no_such; install it or go to its directory",
        ),
        (
            "json.nope:play",
            "the agent 'json.nope:play': there is no module json.nope; install it or go to its directory",
        ),
        ("json:nope", "the agent 'json:nope': json has no nope; check its spelling"),
    ],
)
def test_what_cannot_be_found_is_named(here: Path, reference: str, message: str) -> None:
    """One line that says what to do."""
    with pytest.raises(InvalidArgument) as caught:
        locate(reference, "agent")
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("def play(:", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import not_installed_at_all", "ModuleNotFoundError: No module named 'not_installed_at_all'"),
    ],
)
def test_a_module_that_cannot_be_imported_says_why(here: Path, source: str, why: str) -> None:
    """A module that lacks another one is not taken for a missing one."""
    (here / "my_broken.py").write_text(source)
    with pytest.raises(InvalidArgument) as caught:
        locate("my_broken:play", "agent")
    assert caught.value.message.startswith(f"the agent 'my_broken:play': importing my_broken raised {why}")
    assert caught.value.message.endswith("; fix the module")
