"""A real browser, and reports for it to open. A component that is missing fails the test."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import rollouts
from browser.tabs import Tab

from miroir.demo import demo
from miroir.review import Settings, write_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
AXE = "axe-core@4.11.0"
NPM_S = 120


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder belongs to the suite `browser`."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's chromium, driven by Playwright."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture
def tab(browser: Browser) -> Iterator[Tab]:
    """A page that complained of nothing and asked nobody for anything."""
    made = Tab(browser)
    yield made
    made.context.close()
    assert made.complaints == []
    assert made.away() == []


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's traces."""
    return demo(tmp_path_factory.mktemp("demo")).traces


@pytest.fixture(scope="session")
def demo_report(played: Path) -> Path:
    """The report of the demo's 48 episodes."""
    return write_report([played], played.parent / "report.html", Settings(title="demo")).path


@pytest.fixture(scope="session")
def real_traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 episodes of 20 to 60 steps."""
    return rollouts.save(tmp_path_factory.mktemp("real") / "traces.jsonl", rollouts.records(50))


@pytest.fixture(scope="session")
def real_report(real_traces: Path) -> Path:
    """Their report."""
    return write_report(real_traces, real_traces.with_name("report.html"), Settings(title="real")).path


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, from npm."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "miroir-ci"
    cache.mkdir(parents=True, exist_ok=True)
    archive = cache / f"{AXE.replace('@', '-')}.tgz"
    if not archive.exists():
        packed = subprocess.run(
            ["npm", "pack", AXE, "--pack-destination", str(cache), "--silent"],
            capture_output=True, text=True, timeout=NPM_S, check=False,
        )  # fmt: skip
        assert packed.returncode == 0, packed.stderr
    with tarfile.open(fileobj=io.BytesIO(archive.read_bytes())) as package:
        member = package.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()
