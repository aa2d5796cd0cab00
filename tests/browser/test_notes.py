"""Notes in the browser: kept, merged, checked against the record, and served to nobody else."""

from __future__ import annotations

import http.server
import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import rollouts
from browser.tabs import Tab

from miroir.notes import read_notes, verdicts
from miroir.review import Collection, ReviewServer, Settings, prepared, write, write_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """Eight short episodes."""
    return rollouts.save(tmp_path / "traces.jsonl", rollouts.records(2, steps=(3, 5)))


@pytest.fixture
def episode(traces: Path) -> str:
    """The first graded one."""
    with Collection(traces) as collection:
        return next(entry.episode_id for entry in collection.entries if entry.outcome != "void")


def judge(page: Page, reviewer: str, *, right: bool, text: str = "") -> None:
    """Say in the open episode whether its grade is right, and why."""
    page.wait_for_selector("#review form")
    page.fill("#review input[type=text]", reviewer)
    if text:
        page.fill("#review textarea", text)
    page.click(f"#review [data-right={'yes' if right else 'no'}]")
    page.locator("#review .note", has_text=f"grade {'right' if right else 'wrong'}").wait_for()


def downloaded(page: Page, to: Path) -> Path:
    """The notes that the page hands out."""
    page.evaluate("location.hash = 'view=notes'")
    with page.expect_download() as download:
        page.click("button:has-text('Download')")
    download.value.save_as(to)
    return to


def test_notes_survive_a_reload(tab: Tab, traces: Path, episode: str, tmp_path: Path) -> None:
    """What a reviewer said is there again after a reload, and in a report that was made anew."""
    report = write_report(traces, tmp_path / "report.html").path
    tab.page.goto(f"{report.as_uri()}#e={episode}")
    judge(tab.page, "Ada", right=False, text="the figure is right, the check reads the draft")
    tab.page.reload()
    tab.page.locator("#review .note", has_text="the check reads the draft").wait_for()
    tab.page.goto("about:blank")
    write_report(traces, report)
    tab.page.goto(f"{report.as_uri()}#e={episode}")

    tab.page.locator("#review .note", has_text="grade wrong").wait_for()
    assert tab.page.get_attribute("[data-right=no]", "aria-pressed") == "true"


def test_two_reviewers_files_merge(browser: Browser, traces: Path, episode: str, tmp_path: Path) -> None:
    """Each downloads their notes; both files given to a new report show both, and count as verdicts."""
    report = write_report(traces, tmp_path / "report.html").path
    files = []
    for reviewer, right in (("Ada", True), ("Bo", False)):
        tab = Tab(browser)
        tab.page.goto(f"{report.as_uri()}#e={episode}")
        judge(tab.page, reviewer, right=right, text=f"says {reviewer}")
        files.append(downloaded(tab.page, tmp_path / f"{reviewer}.jsonl"))
        tab.context.close()
        assert tab.complaints == []
    both = write_report(traces, tmp_path / "both.html", Settings(notes=files)).path
    tab = Tab(browser)
    tab.page.goto(f"{both.as_uri()}#e={episode}")
    tab.page.wait_for_selector("#review .note")

    assert "says Ada" in tab.page.inner_text("#review")
    assert "says Bo" in tab.page.inner_text("#review")
    tab.context.close()
    assert [set(verdicts(read_notes(path)).values()) for path in files] == [{True}, {False}]


def test_an_edited_trace_is_noticed(tab: Tab, traces: Path, episode: str, tmp_path: Path) -> None:
    """A note on a record that was edited since says so, and its verdict no longer counts."""
    report = write_report(traces, tmp_path / "report.html").path
    tab.page.goto(f"{report.as_uri()}#e={episode}")
    judge(tab.page, "Ada", right=True)
    records = [json.loads(line) for line in traces.read_text().splitlines()]
    for record in records:
        record["reward"] = 0.5 if record["episode_id"] == episode else record["reward"]
    rollouts.save(traces, records)
    write_report(traces, report)
    tab.page.goto("about:blank")
    tab.page.goto(f"{report.as_uri()}#e={episode}")

    tab.page.locator(".note.stale", has_text="another version of this record").wait_for()
    assert tab.page.get_attribute("[data-right=yes]", "aria-pressed") == "false"
    tab.page.evaluate("location.hash = 'view=tasks&reviewed=yes'")
    assert "0 of 8 episodes" in tab.page.inner_text(".found")


def test_a_blind_queue_hides_grades_until_they_are_judged(tab: Tab, traces: Path, tmp_path: Path) -> None:
    """In a blind sample no list, episode or record tells a grade; a verdict reveals it, and the queue goes on."""
    settings = Settings(size=4, seed=3, strata=("outcome",), blind=True)
    page = tab.page
    page.goto(write_report(traces, tmp_path / "report.html", settings).path.as_uri())
    page.wait_for_selector(".rows .chip")
    assert page.locator(".rows .chip:not(.unknown)").count() == 0
    page.goto(page.url.partition("#")[0] + "#view=notes")
    page.click("text=Judge the next")
    page.wait_for_selector("#review form")
    assert page.locator(".finding, .badge.success, .badge.failure, #raw summary, .reward").count() == 0
    page.fill("#review input[type=text]", "Ada")
    page.click("text=The task was done")
    page.wait_for_selector("[aria-label=Grade] .finding")
    page.evaluate("location.hash = 'view=notes'")

    assert "1 of 4 judged by you" in page.inner_text("[aria-label=Queue]")


@contextmanager
def reviewing(traces: Path, folder: Path) -> Iterator[ReviewServer]:
    """A review server on the traces, its notes in `folder`."""
    with Collection(traces) as collection:
        records = {entry.episode_id: entry.sha256 for entry in collection.entries}
        pages = folder / "pages"
        pages.mkdir()
        with ReviewServer(pages, "report.html", folder / "notes.jsonl", records) as server:
            write(collection, pages / "report.html", prepared(collection, Settings()), notes_url=server.NOTES_URL)
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
            thread.start()
            try:
                yield server
            finally:
                server.shutdown()
                thread.join()
                shutil.rmtree(pages)


def test_served_notes_are_written_at_once(browser: Browser, traces: Path, episode: str, tmp_path: Path) -> None:
    """With a server a note is in the file when the page says so, and another reviewer's page shows it."""
    with reviewing(traces, tmp_path) as server:
        tab = Tab(browser)
        tab.page.goto(f"{server.url}#e={episode}")
        judge(tab.page, "Ada", right=True, text="as it should be")
        [*_, note] = read_notes(tmp_path / "notes.jsonl")
        other = Tab(browser)
        other.page.goto(f"{server.url}#e={episode}")
        other.page.locator("#review .note", has_text="as it should be").wait_for()
        tab.context.close()
        other.context.close()

    assert (note["reviewer"], note["grade_right"], note["text"]) == ("Ada", True, "as it should be")
    assert [*tab.complaints, *other.complaints] == []


ATTACKS = """async ([url, note]) => {
  const tried = {};
  const attempt = async (name, act) => {
    try { tried[name] = await act(); } catch (error) { tried[name] = "refused"; }
  };
  const notes = new URL("notes", url);
  const post = { method: "POST", body: JSON.stringify(note) };
  const headers = { "Content-Type": "application/json" };
  await attempt("read", async () => (await fetch(url)).text());
  await attempt("read notes", async () => (await fetch(notes)).text());
  await attempt("write", async () => (await fetch(notes, post)).status);
  await attempt("write json", async () => (await fetch(notes, { ...post, headers })).status);
  await attempt("write blindly", async () => (await fetch(notes, { ...post, mode: "no-cors" })).type);
  await attempt("beacon", () => navigator.sendBeacon(notes, post.body) && "refused");
  const frame = document.createElement("iframe");
  frame.src = url;
  await new Promise((resolve) => { frame.onload = resolve; document.body.append(frame); });
  await attempt("frame", () => frame.contentDocument?.title ?? "refused");
  const form = document.createElement("form");
  Object.assign(form, { method: "POST", action: notes, enctype: "text/plain", target: "sink" });
  const field = document.createElement("input");
  Object.assign(field, { name: post.body.slice(0, -1) + ', "x": "', value: '"}' });
  const sink = document.createElement("iframe");
  sink.name = "sink";
  document.body.append(sink);
  form.append(field);
  document.body.append(form);
  await new Promise((resolve) => { sink.onload = resolve; form.submit(); });
  return tried;
}"""


def test_another_origin_can_neither_read_nor_write(
    browser: Browser, traces: Path, episode: str, tmp_path: Path
) -> None:
    """A page of another origin that knows the address, token and all, gets nothing out and nothing in."""
    with reviewing(traces, tmp_path) as server, elsewhere() as address:
        note: dict[str, Any] = {"schema": 1, "episode_id": episode, "record_sha256": server.records[episode]}
        note |= {"at": "", "reviewer": "Eve", "labels": [], "grade_right": False, "step": None, "text": "planted"}
        tab = Tab(browser)
        tab.page.goto(address)
        tried = tab.page.evaluate(ATTACKS, [server.url, note])
        tab.context.close()

    assert not (tmp_path / "notes.jsonl").exists()
    assert len(tried) == 7
    assert set(tried.values()) == {"refused"}


@contextmanager
def elsewhere() -> Iterator[str]:
    """The address of an empty page of another origin."""

    class Empty(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>elsewhere</title><link rel=icon href='data:,'>")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Empty) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()
