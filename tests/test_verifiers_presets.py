"""The presets of installed packages: found by name, listed, and one clear error for each that cannot be had."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from distributions import install, installed

from miroir.errors import InvalidArgument
from miroir_verifiers.preset import Preset
from miroir_verifiers.presets import find, listing

FOUND = Preset(["http://127.0.0.1:8000"], split="eval", surface="mcp", token_env="FLEET_TOKEN")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    """A folder of the path into which packages are installed."""
    with installed(tmp_path):
        yield tmp_path


def told(name: str) -> str:
    """The error of finding that preset."""
    with pytest.raises(InvalidArgument) as caught:
        find(name)
    return caught.value.message


def test_a_preset_is_found_by_its_name(site: Path) -> None:
    """The name is the entry point's, whatever the package is called."""
    install(site, "acme-crm", "crm = acme_crm:preset")

    assert find("crm") == FOUND
    [listed] = listing()
    assert (listed.name, listed.distributions, listed.preset, listed.error) == ("crm", ("acme-crm 1.0",), FOUND, None)


def test_without_any_the_error_says_how_to_get_one(site: Path) -> None:
    """Nothing is installed, so nothing is listed."""
    assert listing() == []
    assert (
        told("crm")
        == "there is no preset 'crm', nor any other; install its package, or write one by miroir verifiers init"
    )


def test_an_unknown_name_is_told_with_those_that_there_are(site: Path) -> None:
    """And with the one that was probably meant."""
    install(site, "acme-crm", "crm = acme_crm:preset")
    install(site, "acme-desk", "desk = acme_desk:preset")

    assert told("dsk") == "there is no preset 'dsk'; did you mean 'desk'? miroir verifiers list shows 2: crm, desk"
    assert told("mail") == "there is no preset 'mail'; miroir verifiers list shows 2: crm, desk"


def test_two_of_one_name_are_refused(site: Path) -> None:
    """The error names both packages; neither is preferred."""
    install(site, "acme-crm", "crm = acme_crm:preset")
    install(site, "other-crm", "crm = other_crm:preset")

    assert told("crm") == "the preset 'crm' is in acme-crm 1.0 and other-crm 1.0; uninstall all but one of them"


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("raise RuntimeError('no licence')", "RuntimeError: no licence"),
        ("import absent_module", "ModuleNotFoundError: No module named 'absent_module'"),
        ("import sys; sys.exit('bye')", "SystemExit: bye"),
        ("x = 1", "AttributeError: module 'acme_crm' has no attribute 'preset'"),
        (
            "from miroir_verifiers.preset import Preset; preset = Preset([])",
            "InvalidArgument: INVALID_ARGUMENT: urls is empty; pass at least one base URL, such as http://host:port",
        ),
    ],
)
def test_one_that_does_not_load_is_an_error(site: Path, code: str, fault: str) -> None:
    """Whatever its package does when it is imported; the error names the package."""
    install(site, "acme-crm", "crm = acme_crm:preset", code)

    assert (
        told("crm")
        == f"the preset 'crm' of acme-crm 1.0 cannot be loaded: acme_crm:preset raised {fault}; mend that package"
    )


def test_what_is_no_preset_is_refused(site: Path) -> None:
    """The error says what was found."""
    install(site, "acme-crm", "crm = acme_crm:preset", "preset = {'urls': []}")

    assert told("crm") == "the preset 'crm' of acme-crm 1.0 is a dict; make acme_crm:preset a miroir_verifiers.Preset"


def test_a_broken_package_stops_no_other(site: Path) -> None:
    """The good ones are found and listed beside the error."""
    install(site, "acme-bad", "bad = acme_bad:preset", "preset = 1")
    install(site, "acme-crm", "crm = acme_crm:preset")

    bad, good = listing()
    assert find("crm") == good.preset == FOUND
    assert (bad.name, bad.preset) == ("bad", None)
    assert bad.error is not None
    assert "acme-bad 1.0" in bad.error.message
