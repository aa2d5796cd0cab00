"""The README cannot drift: its help texts, its example and its error table are the code's own.

`python tests/test_docs.py` writes them anew.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import sys
from pathlib import Path

import pytest

from miroir import cli, errors

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
_HELP = re.compile(r"<!-- help: (\w+) -->\n\n```text\n(.*?)\n```", re.DOTALL)
_EXAMPLE = re.compile(r"<!-- example: (\S+) -->\n\n```python\n(.*?)\n```", re.DOTALL)


def help_of(command: str) -> str:
    """What `miroir COMMAND --help` prints, 110 columns wide."""
    os.environ["COLUMNS"] = "110"
    top = cli.parser()
    subparsers = next(action for action in top._actions if hasattr(action, "choices") and action.choices)
    return subparsers.choices[command].format_help().strip()


def words(text: str) -> list[str]:
    """The words of a help text: line breaks and the spelling of short options differ between Python versions."""
    return re.sub(r"(-\w) \S+, (--)", r"\1, \2", text).split()


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_is_in_the_readme(command: str) -> None:
    """The README holds the help text of every command, as it is."""
    shown = dict(_HELP.findall(README.read_text()))

    assert words(shown.get(command, "")) == words(help_of(command))


def test_the_example_is_tested_code() -> None:
    """The environment that the README shows is the one that the tests serve, and takes about forty lines."""
    [(path, shown)] = _EXAMPLE.findall(README.read_text())

    assert shown.strip() == (ROOT / path).read_text().strip()
    assert len([line for line in shown.splitlines() if line.strip()]) <= 45


def test_the_session_of_the_opening_is_twelve_lines() -> None:
    """The first Python of the README parses, and is no longer than it says."""
    code = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[0]

    ast.parse(code)
    assert len([line for line in code.splitlines() if line.strip()]) <= 12


def test_every_error_is_in_the_table() -> None:
    """The README's table names each kind of error and its code."""
    text = README.read_text()
    kinds = [
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.MiroirError) and not kind.__name__.startswith("_")
    ]

    missing = [kind.__name__ for kind in kinds if f"`{kind.__name__}`" not in text]
    assert missing == []
    assert [kind.CODE for kind in kinds if getattr(kind, "CODE", "") and f"`{kind.CODE}`" not in text] == []


def test_the_two_commands_are_there() -> None:
    """The commands that a newcomer types first stand in the README, each on a line of its own."""
    lines = README.read_text().splitlines()

    assert "$ pip install '.[serve,cli]' && miroir demo" in lines
    assert "$ pip install '.[test]' && pytest -n 4" in lines


def write() -> None:
    """Bring the README's help texts and example up to date."""
    text = README.read_text()
    text = _HELP.sub(lambda m: f"<!-- help: {m[1]} -->\n\n```text\n{help_of(m[1])}\n```", text)
    text = _EXAMPLE.sub(
        lambda m: f"<!-- example: {m[1]} -->\n\n```python\n{(ROOT / m[1]).read_text().strip()}\n```", text
    )
    README.write_text(text)


if __name__ == "__main__":
    sys.exit(write())
