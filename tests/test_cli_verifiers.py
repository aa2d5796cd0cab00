"""`miroir verifiers`: presets listed for people and for programs, and a package begun."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from distributions import install, installed

from miroir import cli


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    """A folder of the path into which packages are installed."""
    with installed(tmp_path):
        yield tmp_path


def test_presets_are_listed(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line each: the name, the package, and what it fixes."""
    install(site, "acme-crm", "crm = acme_crm:preset")
    install(
        site,
        "desk-tasks",
        "desk = desk_tasks:preset",
        "from pathlib import Path\nfrom miroir_verifiers import Preset\npreset = Preset(Path('urls.txt'))",
    )

    assert cli.main(["verifiers", "list"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "preset  package         split  surface  urls",
        "crm     acme-crm 1.0    eval   mcp      http://127.0.0.1:8000",
        "desk    desk-tasks 1.0  train  -        urls.txt",
    ]


def test_presets_are_listed_as_json(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With all that is known of them."""
    install(site, "acme-crm", "crm = acme_crm:preset")

    assert cli.main(["verifiers", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {
            "name": "crm",
            "distributions": ["acme-crm 1.0"],
            "urls": ["http://127.0.0.1:8000"],
            "split": "eval",
            "surface": "mcp",
            "token_env": "FLEET_TOKEN",
            "coworker_model": None,
            "metrics": [],
            "rewards": [],
        }
    ]


def test_no_preset_is_told_how_to_get_one(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty list is no error."""
    assert cli.main(["verifiers", "list"]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "no installed package has a preset; miroir verifiers init NAME begins one\n")


def test_what_cannot_be_had_is_told_beside_the_rest(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line on stderr for each, exit code 2, and the good ones are listed."""
    install(site, "acme-crm", "crm = acme_crm:preset")
    install(site, "bad-tasks", "bad = bad_tasks:preset", "raise RuntimeError('two\\nlines')")
    install(site, "one", "twice = one:preset")
    install(site, "other", "twice = other:preset")

    assert cli.main(["verifiers", "list"]) == 2
    said = capsys.readouterr()
    assert [line.split()[0] for line in said.out.splitlines()] == ["preset", "crm"]
    assert said.err.splitlines() == [
        "error: INVALID_ARGUMENT: the preset 'bad' of bad-tasks 1.0 cannot be loaded: bad_tasks:preset raised "
        "RuntimeError: two lines; mend that package",
        "error: INVALID_ARGUMENT: the preset 'twice' is in one 1.0 and other 1.0; uninstall all but one of them",
    ]
    cli.main(["verifiers", "list", "--json"])
    assert sorted(json.loads(capsys.readouterr().out)[0]) == ["distributions", "error", "name"]


def test_the_list_needs_no_verifiers(site: Path) -> None:
    """Nor does it load what it could use of it."""
    install(site, "acme-crm", "crm = acme_crm:preset")
    code = (
        f"import sys; sys.path.insert(0, {str(site)!r}); sys.modules['verifiers'] = None\n"
        "from miroir import cli; print(cli.main(['verifiers', 'list']), 'mcp' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert done.stdout.splitlines()[-1] == "0 False"


def test_a_package_is_begun(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its module is named as verifiers will import it, and it offers its preset by an entry point."""
    assert cli.main(["verifiers", "init", "acme-crm", "--path", str(tmp_path / "new")]) == 0
    folder = tmp_path / "new" / "acme-crm"
    said = capsys.readouterr()
    assert said.out == f"{folder}\n"
    assert f"pip install -e {folder}" in said.err

    project = tomllib.loads((folder / "pyproject.toml").read_text())
    assert project["project"]["name"] == "acme-crm"
    assert project["project"]["entry-points"]["miroir.verifiers"] == {"acme-crm": "acme_crm:preset"}
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()) == [
        "README.md",
        "acme_crm/__init__.py",
        "acme_crm/taskset.py",
        "pyproject.toml",
        "tests/test_acme_crm.py",
    ]


def test_its_preset_is_found_and_loads_without_verifiers(tmp_path: Path) -> None:
    """The package's own module says which fleet it is about."""
    cli.main(["verifiers", "init", "crm", "--path", str(tmp_path)])
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'crm')!r}); sys.modules['verifiers'] = None\n"
        "import crm; print(crm.preset)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert done.stdout.startswith("Preset(urls=PosixPath('urls.txt'), split='train'")


def test_its_readme_has_the_sections_and_tables_of_the_ecosystem(tmp_path: Path) -> None:
    """As environments that are published have them."""
    cli.main(["verifiers", "init", "crm", "--path", str(tmp_path)])
    text = (tmp_path / "crm" / "README.md").read_text()

    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "# crm",
        "### Overview",
        "### Tasks",
        "### Quickstart",
        "### Environment Arguments",
        "### Metrics",
        "### Required Environment Variables",
    ]
    assert "| Arg | Type | Default | Description |" in text
    assert "| Metric | Meaning |" in text


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is there stays as it is."""
    (tmp_path / "crm").mkdir()
    assert cli.main(["verifiers", "init", "crm", "--path", str(tmp_path)]) == 2
    assert list((tmp_path / "crm").iterdir()) == []
    told = f"error: INVALID_ARGUMENT: {tmp_path}/crm is there already; choose another name, or another --path\n"
    assert capsys.readouterr().err == told


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In one line."""
    (tmp_path / "file").touch()
    assert cli.main(["verifiers", "init", "crm", "--path", str(tmp_path / "file")]) == 2
    assert "file/crm cannot be written: Not a directory; choose another --path" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Crm", "'Crm' is no name of a package; write lower-case letters, digits and single hyphens, as in acme-crm"),
        ("../crm", "'../crm' is no name of a package"),
        ("crm-", "'crm-' is no name of a package"),
        ("1crm", "'1crm' is no name of a package"),
        ("class", "'class' is a word of Python's own; choose another name"),
        ("json", "'json' is a word of Python's own; choose another name"),
        ("miroir", "'miroir' is the name of another package that is installed; choose another name"),
        ("miroir-verifiers", "'miroir-verifiers' is the name of another package that is installed"),
    ],
)
def test_a_name_that_cannot_be_played_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, told: str
) -> None:
    """Before anything is written."""
    assert cli.main(["verifiers", "init", name, "--path", str(tmp_path)]) == 2
    assert told in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_taskset_of_verifiers_own_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where verifiers is installed: it would play its own in the package's place."""
    (tmp_path / "verifiers" / "v1" / "tasksets" / "harbor").mkdir(parents=True)
    (tmp_path / "verifiers" / "__init__.py").touch()
    with installed(tmp_path):
        assert cli.main(["verifiers", "init", "harbor", "--path", str(tmp_path / "new")]) == 2
    assert "'harbor' is the name of another package that is installed" in capsys.readouterr().err
