"""The report in a browser: it opens from a file, is quick, and shows what reviewers ask for."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from browser.tabs import Tab

from miroir.review import Collection
from miroir.review.alignment import best_pair

FIRST_VIEW_S = 1.5
ANSWER_MS = 200

# Milliseconds from a change in a form until the list is drawn for it and nothing is searched any more.
MEASURE = """async ([selector, value]) => {
  const field = document.querySelector(selector);
  const began = performance.now();
  if (value === null) field.click();
  else {
    field.value = value;
    field.dispatchEvent(new Event(field.tagName === "SELECT" ? "change" : "input", { bubbles: true }));
  }
  do await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
  while (document.querySelector(".found").textContent.includes("searching"));
  return performance.now() - began;
}"""


@pytest.fixture(params=["demo_report", "real_report"])
def report(request: pytest.FixtureRequest) -> Path:
    """Each of the two reports."""
    found: Path = request.getfixturevalue(request.param)
    return found


def test_the_first_view_is_there_within_a_second_and_a_half(tab: Tab, report: Path) -> None:
    """Opened from a file, the list stands soon, without a request or a complaint."""
    tab.page.goto("about:blank")
    began = time.monotonic()
    tab.page.goto(report.as_uri())
    tab.page.wait_for_selector(".rows .chip")

    assert time.monotonic() - began <= FIRST_VIEW_S


def test_filters_and_search_answer_at_once(tab: Tab, report: Path) -> None:
    """An outcome, a tag, a word of the list and a word that only stands inside records: each within 200 ms."""
    tab.page.goto(report.as_uri())
    tab.page.wait_for_selector("[data-warm] .rows .chip")
    tag = tab.page.eval_on_selector("[data-filter=tag] option:nth-child(2)", "option => option.value")
    words = [("#search", "rules"), ("#search", "there is no")]
    acts = [("[data-outcome=failure]", None), ("[data-filter=tag]", tag), *words]

    took = {act: tab.page.evaluate(MEASURE, list(act)) for act in acts}

    assert {act: ms for act, ms in took.items() if ms > ANSWER_MS} == {}


def test_counts_follow_the_filters(tab: Tab, demo_report: Path, played: Path) -> None:
    """What is shown is counted, and the counts are those of the records."""
    with Collection(played) as collection:
        failed = sum(entry.outcome == "failure" for entry in collection.entries)
        harmful = sum(entry.harm for entry in collection.entries)
    tab.page.goto(demo_report.as_uri())

    assert tab.page.inner_text(".found") == "12 of 12 tasks, 48 of 48 episodes"
    assert tab.page.inner_text("[data-outcome=failure] b") == str(failed)
    tab.page.click("[data-outcome=failure]")
    assert f" {failed} of 48 episodes" in tab.page.inner_text(".found")
    tab.page.click("[data-outcome=failure]")
    tab.page.click("[data-outcome=harm]")
    assert f" {harmful} of 48 episodes" in tab.page.inner_text(".found")
    tab.page.click("text=Clear")
    assert tab.page.inner_text(".found") == "12 of 12 tasks, 48 of 48 episodes"


def test_a_search_finds_words_inside_records(tab: Tab, real_report: Path, real_traces: Path) -> None:
    """A word that stands only in a step's result finds its episode, and the episode opens with it marked."""
    with Collection(real_traces) as collection:
        entry = collection.entries[77]
        word = collection.record(entry)["steps"][3]["result"]["items"][2]["id"]
    tab.page.goto(real_report.as_uri())
    tab.page.fill("#search", word)
    tab.page.locator(".found:not(:has-text('searching'))").wait_for()
    tab.page.click(".rows .chip:not(.dim)")

    assert tab.page.inner_text(".step mark") == word


def test_the_episode_shows_checks_with_evidence_steps_and_errors(
    tab: Tab, real_report: Path, real_traces: Path
) -> None:
    """Each check is met or unmet with its evidence, errors stand out, and a step opens to its result."""
    with Collection(real_traces) as collection:
        entry = next(entry for entry in collection.entries if entry.outcome == "failure" and entry.tool_errors)
        record = collection.record(entry)
    tab.page.goto(f"{real_report.as_uri()}#e={entry.episode_id}")
    tab.page.wait_for_selector(".step")

    checks = {check["name"]: check for check in record["metadata"]["checks"]}
    for name, check in checks.items():
        finding = tab.page.locator(".finding", has_text=name)
        assert ("success" if check["passed"] else "failure") in (finding.get_attribute("class") or "")
        assert check["detail"][:60] in finding.inner_text()
    assert tab.page.locator(".step").count() == len(record["steps"])
    failed = next(at for at, step in enumerate(record["steps"]) if step["error"])
    assert record["steps"][failed]["error"]["message"] in tab.page.inner_text(f"[data-step='{failed}'] .error")
    tab.page.click("[data-step='0'] .stephead")
    assert record["steps"][0]["result"]["items"][0]["id"] in tab.page.inner_text("[data-step='0'] .stepbody")
    tab.page.click("#raw summary")
    tab.page.locator("#raw pre", has_text=record["episode_id"]).wait_for()


def test_deep_links_lead_to_a_step(tab: Tab, real_report: Path, real_traces: Path) -> None:
    """An address with an episode and a step opens that episode with that step current."""
    with Collection(real_traces) as collection:
        entry = next(entry for entry in collection.entries if entry.steps > 40)
    tab.page.goto(f"{real_report.as_uri()}#e={entry.episode_id}&s=40")
    tab.page.wait_for_selector(".step.current")

    assert tab.page.get_attribute(".step.current", "data-step") == "39"
    assert tab.page.evaluate("document.querySelector('.step.current').getBoundingClientRect().bottom <= innerHeight")


def test_the_best_pair_of_a_task_is_proposed_and_parts_where_its_records_do(
    tab: Tab, real_report: Path, real_traces: Path
) -> None:
    """The list names the step at which a good and a failing rollout part, and the comparison marks it there."""
    with Collection(real_traces) as collection:
        pairs = [best_pair(entries) for _, entries in collection.by_task()]
        pair = next(pair for pair in pairs if pair and pair.common > 3)
    tab.page.goto(real_report.as_uri())
    tab.page.fill("#search", pair.good.task_id)
    proposed = tab.page.locator(".rows li", has=tab.page.get_by_role("link", name=pair.good.task_id, exact=True))
    proposed.locator(".parts a").click()
    tab.page.wait_for_selector(".parting")

    assert f"part at step {pair.common + 1}" in tab.page.inner_text(".summaryline")
    shown = [int(number) for number in re.findall(r"\d+", tab.page.inner_text(".parting + .pair .number >> nth=0"))]
    assert shown == [pair.common + 1]


def test_failures_are_grouped(tab: Tab, real_report: Path, real_traces: Path) -> None:
    """The groups hold every episode that failed, is void or did harm, the largest group first."""
    with Collection(real_traces) as collection:
        reasons = [entry.reason.fault for entry in collection.entries if entry.reason]
    tab.page.goto(f"{real_report.as_uri()}#view=failures")
    counts = [int(text) for text in tab.page.locator(".group .big").all_inner_texts()]

    assert sum(counts) == len(reasons)
    assert counts == sorted(counts, reverse=True)
    assert len(counts) == len(set(reasons))


def test_charts_are_drawn_with_their_numbers(tab: Tab, real_report: Path) -> None:
    """Reward by task, steps, time, void over time, each with a table of its numbers."""
    tab.page.goto(f"{real_report.as_uri()}#view=charts")

    assert tab.page.locator(".chart h2").all_inner_texts() == ["Reward by task", "Steps", "Time", "Void over time"]
    assert all(tab.page.locator(".chart svg").nth(at).bounding_box() for at in range(4))
    assert tab.page.locator(".chart:first-child tbody tr").count() == 48  # two tasks have no graded rollout


def test_the_page_prints_all_of_a_list(tab: Tab, real_report: Path) -> None:
    """On paper every task is there, not only those near the window."""
    tab.page.goto(real_report.as_uri())
    tab.page.evaluate("dispatchEvent(new Event('beforeprint'))")

    assert tab.page.locator(".rows li").count() == 50
