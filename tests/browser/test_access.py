"""The report without a mouse, for a screen reader, in both themes and on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser.tabs import Tab

from miroir.review import Collection
from miroir.review.alignment import best_pair

if TYPE_CHECKING:
    from playwright.sync_api import Browser

DESKTOP = {"width": 1280, "height": 860}
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def places(real_traces: Path) -> dict[str, str]:
    """The address of each kind of view."""
    with Collection(real_traces) as collection:
        pairs = [best_pair(entries) for _, entries in collection.by_task()]
        pair = next(pair for pair in pairs if pair and pair.bad.tool_errors)
        middle = next(entry for entry in collection.entries if entry.trial == 1 and entry.steps > 20)
    return {
        "list": "",
        "episodes": "view=episodes",
        "episode": f"e={pair.bad.episode_id}&s={pair.common + 1}",
        "comparison": f"c={pair.good.episode_id},{pair.bad.episode_id}",
        "middle": f"e={middle.episode_id}",
        "failures": "view=failures",
        "charts": "view=charts",
        "notes": "view=notes",
    }


@pytest.fixture(params=[("light", DESKTOP), ("dark", DESKTOP), ("dark", PHONE)], ids=str)
def dressed(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Tab]:
    """A tab in a theme and a size."""
    theme, viewport = request.param
    made = Tab(browser, viewport=viewport, color_scheme=theme)
    yield made
    made.context.close()
    assert made.complaints == []


def test_axe_finds_nothing_serious(dressed: Tab, real_report: Path, places: dict[str, str], axe: str) -> None:
    """No serious or critical finding of axe-core in any view, theme and width, and nothing wider than the window."""
    dressed.context.add_init_script(axe)
    found: dict[str, Any] = {}
    for name, place in places.items():
        dressed.page.goto("about:blank")
        dressed.page.goto(f"{real_report.as_uri()}#{place}")
        dressed.page.locator("main :is(.chip, .card)").first.wait_for()
        report = dressed.page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
        bad = [one for one in report["violations"] if one["impact"] in ("serious", "critical")]
        found |= {f"{name}: {one['id']}": [node["html"][:160] for node in one["nodes"]][:3] for one in bad}
        assert dressed.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} is too wide"

    assert found == {}


def test_everything_can_be_done_with_keys(tab: Tab, real_report: Path, real_traces: Path) -> None:
    """A reviewer finds a failure, reads its steps, compares, judges and labels it, and goes on, all with keys."""
    with Collection(real_traces) as collection:
        failed = next(entry for entry in collection.entries if entry.outcome == "failure")
    page, press = tab.page, tab.page.keyboard.press
    page.goto(f"{real_report.as_uri()}#sort=name")
    page.wait_for_selector(".rows .chip")
    press("/")
    page.keyboard.type(failed.episode_id)
    press("Escape")
    press("j")
    assert page.evaluate("document.activeElement.textContent") == failed.task_id
    press("Enter")
    page.wait_for_selector(".step")
    press("j")
    press("j")
    assert "s=2" in page.url
    press("Enter")
    assert page.get_attribute(".step.current .stephead", "aria-expanded") == "true"
    press("k")
    assert page.get_attribute(".step.current", "data-step") == "0"
    press("e")
    assert page.locator(".stephead[aria-expanded=true]").count() == page.locator(".step").count()
    press("x")
    assert page.locator(".stephead[aria-expanded=true]").count() == 0
    page.fill("#review input[type=text]", "Ada")
    press("Escape")
    press("w")
    page.wait_for_selector("#review .note b:has-text('grade wrong')")
    page.keyboard.press("Escape")


def test_every_key_of_the_list_does_something(tab: Tab, real_report: Path, places: dict[str, str]) -> None:
    """Views, filters, rollouts, comparison, notes at a step, theme and help answer to their keys."""
    page, press = tab.page, tab.page.keyboard.press
    page.goto(real_report.as_uri())
    page.wait_for_selector(".rows .chip")
    for key, view in (("a", "Episodes"), ("r", "Failures"), ("h", "Charts"), ("m", "Notes"), ("t", "Tasks")):
        press(key)
        page.locator("nav [aria-current]", has_text=view).wait_for()
    press("f")
    assert page.evaluate("document.activeElement.matches('.outcome, [data-filter]')")
    press("l")
    assert page.get_attribute("html", "data-theme") == "dark"
    press("?")
    assert page.locator("dialog dt kbd").count() > 20
    press("Escape")
    assert page.locator("dialog").count() == 0
    page.goto(f"{real_report.as_uri()}#{places['middle']}")
    page.wait_for_selector(".step")
    for key, trial in (("]", 2), ("[", 1), ("n", 2), ("p", 1)):
        press(key)
        page.locator("h1", has_text=f"trial {trial}").wait_for()
    page.wait_for_selector(".step")
    press("j")
    press("c")
    assert page.evaluate("document.activeElement.matches('.step.current textarea')")
    page.fill(".step.current input[type=text]", "Ada")
    press("Escape")
    press("3")
    page.wait_for_selector(".step.current .note")
    assert "grader wrong" in page.inner_text(".step.current .note")
    press("d")
    page.wait_for_selector(".pairs")
    press("Escape")
    page.wait_for_selector(".rows")


def test_single_keys_can_be_turned_off(tab: Tab, real_report: Path) -> None:
    """Those who press keys by accident turn them off, and back on."""
    tab.page.goto(real_report.as_uri())
    tab.page.wait_for_selector(".rows .chip")
    tab.page.keyboard.press("?")
    tab.page.check("dialog input")
    tab.page.keyboard.press("Escape")
    tab.page.keyboard.press("r")
    assert tab.page.inner_text("nav [aria-current]") == "Tasks"
    tab.page.get_by_role("button", name="Keys").click()
    tab.page.uncheck("dialog input")
    tab.page.keyboard.press("Escape")
    tab.page.keyboard.press("r")
    assert tab.page.inner_text("nav [aria-current]") == "Failures"
