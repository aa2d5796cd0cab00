"""A hostile trace in the browser: nothing of it runs, nothing of it breaks the page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import hostile
import pytest
from browser.tabs import Tab

from miroir.review import Settings, write_report

ODD = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the hostile trace, its title and labels hostile too."""
    traces = hostile.hostile(tmp_path_factory.mktemp("hostile") / "traces.jsonl")
    settings = Settings(title=hostile.TEXTS[0], labels=hostile.TEXTS[:9])
    return write_report(traces, traces.with_name("report.html"), settings).path


def index(report: Path) -> dict[str, list[list[str]]]:
    """The index that the page reads."""
    found: dict[str, list[list[str]]] = json.loads(
        report.read_text().partition('id="index">')[2].partition("</script>")[0]
    )
    return found


def test_nothing_of_it_runs(tab: Tab, report: Path) -> None:
    """Every view and every episode is opened with all that is folded: the planted global stays unset."""
    tab.page.goto(report.as_uri())
    views = ["view=tasks", "view=episodes", "view=failures", "view=charts", "view=notes", f"q={'%3Cscript'}"]
    rows = index(report)["rows"]
    for address in [*views, *(f"e={row[0]}&s=2" for row in rows)]:
        tab.page.evaluate("address => { location.hash = address; }", address)
        if address.startswith("e="):
            tab.page.locator(f"main[data-episode='{address[2:34]}']").wait_for()
            tab.page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
            tab.page.evaluate("document.querySelectorAll('.unfold').forEach((one) => one.click())")
        assert tab.page.evaluate("typeof planted") == "undefined"
        assert not ODD.search(tab.page.inner_text("body"))
    assert tab.page.locator("main a[href^='javascript'], main img, main iframe, main style, main base").count() == 0


def test_links_lead_nowhere_but_into_the_report(tab: Tab, report: Path) -> None:
    """Every link of the lists is a place in the page."""
    for view in ("tasks", "episodes", "failures"):
        tab.page.goto(f"{report.as_uri()}#view={view}")
        links = tab.page.eval_on_selector_all("a", "links => links.map((link) => link.getAttribute('href'))")

        assert links
        assert all(link.startswith("#") for link in links)


def test_the_policy_allows_only_what_was_written(report: Path) -> None:
    """One style and one script may apply, told by their hashes; no data of the trace stands outside inert elements."""
    text = report.read_text()
    head, _, rest = text.partition('<script type="application/json" id="index">')

    assert "default-src 'none'; script-src 'sha256-" in head
    assert "unsafe" not in head
    assert len(re.findall(r"<script", text)) == len(re.findall(r"</script", text))
    assert len(re.findall(r"<script>", rest)) == 1
    assert hostile.PLANT not in head.partition("<title>")[0]
    assert "<" not in rest.partition("</script>")[0]


def test_five_thousand_steps_are_walked_through(tab: Tab, report: Path) -> None:
    """An episode of 5,000 steps opens at once with its last step in reach, and few of them in the document."""
    tab.page.goto(f"{report.as_uri()}#e={100:032x}&s=4990")
    tab.page.wait_for_selector(".step.current")

    assert tab.page.get_attribute(".step.current", "data-step") == "4989"
    assert tab.page.locator(".step").count() < 1000
    tab.page.keyboard.press("j")
    assert tab.page.get_attribute(".step.current", "data-step") == "4990"


def test_ten_megabytes_of_a_result_are_unfolded_piece_by_piece(tab: Tab, report: Path) -> None:
    """A line of 10 MB is folded, says how long it is, and opens in pieces."""
    tab.page.goto(f"{report.as_uri()}#e={101:032x}&s=1")
    tab.page.wait_for_selector(".step.current")
    tab.page.click(".step.current .stephead")
    button = tab.page.locator(".step.current .unfold")

    assert button.inner_text() == "Show 100 K more of 10 M characters"
    button.click()
    assert (
        100_000
        < tab.page.eval_on_selector(".step.current pre.text >> nth=1", "one => one.textContent.length")
        < 110_000
    )


def test_depths_stand_on_one_line(tab: Tab, report: Path) -> None:
    """900 levels are shown down to a depth that people read, the rest as JSON."""
    tab.page.goto(f"{report.as_uri()}#e={102:032x}&s=1")
    tab.page.wait_for_selector(".step.current")
    tab.page.click(".step.current .stephead")

    assert '{"down":{"down"' in tab.page.inner_text(".step.current")
