"""PROTOCOL.md says all that the server does: its routes, frames, codes and keys, and it is in the package."""

from __future__ import annotations

import importlib.resources

import pytest
from puppet import Puppet

from miroir import wire
from miroir.serve import create_app, frames

TEXT = importlib.resources.files("miroir.serve").joinpath("PROTOCOL.md").read_text()
CODES = sorted(value for name, value in vars(wire).items() if name == value)


def test_there_are_codes() -> None:
    """The codes are the constants of the wire that are their own value."""
    assert len(CODES) == 13


@pytest.mark.parametrize("code", CODES)
def test_names_every_code(code: str) -> None:
    """Each error code has a row that says when it comes."""
    assert f"| {code} |" in TEXT


@pytest.mark.parametrize("path", [route.path for route in create_app(Puppet).routes])
def test_names_every_route(path: str) -> None:
    """Each route of the server is in the text."""
    assert f"`{path}" in TEXT


@pytest.mark.parametrize("kind", frames._DATA)
def test_names_every_request(kind: str) -> None:
    """Each request that the server takes has a row."""
    assert f'| `{{"type":"{kind}"' in TEXT


@pytest.mark.parametrize("key", [*wire.Record.__annotations__, *wire.Metadata.__annotations__])
def test_names_every_key_of_a_record(key: str) -> None:
    """Each key of a record is in the text."""
    assert f'"{key}"' in TEXT


def test_names_every_ending() -> None:
    """The ways in which an episode ends are those of the wire, in its order."""
    assert f'"ended_by":"{"|".join(wire.ENDINGS)}"' in TEXT


def test_stands_for_itself() -> None:
    """The text refers to nothing that does not ship with it."""
    assert wire.PROTOCOL in TEXT
    assert "](" not in TEXT
    assert "../" not in TEXT
