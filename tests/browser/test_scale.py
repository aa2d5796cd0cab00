"""Ten thousand episodes: an index and its pages, and a list that scrolls without a jerk."""

from __future__ import annotations

import pytest
import rollouts
from browser.tabs import Tab

from miroir.review import Collection, Settings, Written, budget, write_report

EPISODES = 10_000
FRAME_MS = 100
ROWS = 300
TRIES = 5  # a machine that does other things may hold a frame up; one clean run shows that the page does not

# Scroll through the list and report the longest time between two frames and the most rows that were in the document.
SCROLL = """async () => {
  const found = { frame: 0, rows: 0 };
  const height = document.documentElement.scrollHeight - innerHeight;
  await new Promise((resolve) => setTimeout(resolve, 300));
  let last = await new Promise(requestAnimationFrame);
  for (let at = 0; at < 150; at += 1) {
    scrollTo(0, at < 100 ? at * 180 : (height * (at - 99)) / 50);
    const now = await new Promise(requestAnimationFrame);
    found.frame = Math.max(found.frame, now - last);
    found.rows = Math.max(found.rows, document.querySelectorAll(".rows > li").length);
    last = now;
  }
  return found;
}"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """The report of 10,000 short episodes, in several pages."""
    folder = tmp_path_factory.mktemp("many")
    traces = rollouts.save(folder / "traces.jsonl", rollouts.records(EPISODES // 4, steps=(2, 4), result_words=8))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(budget, "PAGE_BYTES", 2 << 20)
        return write_report(traces, folder / "many episodes.html", Settings(title="many"))


@pytest.mark.parametrize("view", ["tasks", "episodes"])
def test_scrolling_has_no_long_frame(tab: Tab, written: Written, view: str) -> None:
    """Through 2,500 tasks and 10,000 episodes: no frame over 100 ms, at most 300 rows in the document."""
    tab.page.goto(f"{written.path.as_uri()}#view={view}")
    tab.page.wait_for_selector(".rows .chip")
    runs = [tab.page.evaluate(SCROLL) for _ in range(TRIES)]

    assert f"{EPISODES:,} of {EPISODES:,} episodes" in tab.page.inner_text(".found")
    assert max(run["rows"] for run in runs) <= ROWS
    assert min(run["frame"] for run in runs) <= FRAME_MS


def test_the_index_leads_to_the_pages_and_they_lead_back(tab: Tab, written: Written) -> None:
    """An episode of the index opens on the page that holds it; that page leads back to the whole report."""
    assert len(written.pages) > 3
    with Collection(written.path.with_name("traces.jsonl")) as collection:
        entry = collection.entries[-1]
    tab.page.goto(f"{written.path.as_uri()}#view=episodes&q={entry.episode_id}")
    tab.page.click(".rows .title")
    tab.page.wait_for_selector(".step")
    assert written.pages[-1].as_uri() in tab.page.url
    assert tab.page.locator(".step").count() == entry.steps
    tab.page.click("text=Whole report")
    tab.page.wait_for_selector(".rows .chip")
    assert tab.page.url.startswith(written.path.as_uri())


def test_a_link_to_an_episode_of_another_page_is_led_on(tab: Tab, written: Written) -> None:
    """An episode that a page does not hold is looked for in the index, which opens the page that holds it."""
    with Collection(written.path.with_name("traces.jsonl")) as collection:
        entry = collection.entries[0]
    tab.page.goto(f"{written.pages[-1].as_uri()}#e={entry.episode_id}")
    tab.page.click("text=Look for it in the whole report")
    tab.page.wait_for_selector(".step")

    assert tab.page.url.startswith(written.pages[0].as_uri())
