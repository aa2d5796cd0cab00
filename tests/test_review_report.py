"""The report on disk: one page or several, complete, and never half written."""

from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

import pytest
import rollouts

from miroir.calibrate import run_calibrate
from miroir.errors import InvalidArgument, RecordError
from miroir.records import load
from miroir.review import Settings, budget, report, write_report

_BLOB = re.compile(r'<script type="text/plain" id="blob-(\d+)">([^<]*)</script>')


def index(page: Path) -> dict[str, Any]:
    """The index of a page, its rows as objects."""
    found: dict[str, Any] = json.loads(page.read_text().partition('id="index">')[2].partition("</script>")[0])
    found["rows"] = [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]
    return found


def embedded(page: Path) -> dict[str, dict[str, Any]]:
    """The whole records of a page, by the id of the row that names their place."""
    blobs = {int(number): data for number, data in _BLOB.findall(page.read_text())}
    rows = [row for row in index(page)["rows"] if row["blob"] is not None]
    assert sorted(blobs) == sorted(row["blob"] for row in rows)
    return {row["id"]: json.loads(zlib.decompress(base64.b64decode(blobs[row["blob"]]), 31)) for row in rows}


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """48 episodes of 12 tasks."""
    return rollouts.save(tmp_path / "traces.jsonl", rollouts.records(12, steps=(2, 4)))


def test_one_page_holds_every_record_whole(traces: Path, tmp_path: Path) -> None:
    """A small report is one file, and nothing else is left beside it."""
    written = write_report(traces, tmp_path / "out" / "report.html")

    assert embedded(written.path) == {record["episode_id"]: record for record in load(traces)}
    assert (written.pages, written.left_out) == ((), "")
    assert [path.name for path in written.path.parent.iterdir()] == ["report.html"]
    assert index(written.path)["loaded"] == "48 records of 1 file"


def test_a_large_report_is_an_index_and_pages(traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every record is on exactly one page, links are relative, and a task's rollouts are together."""
    monkeypatch.setattr(budget, "PAGE_BYTES", 20_000)
    written = write_report(traces, tmp_path / "my report.html")
    cover = index(written.path)
    whole = [embedded(page) for page in written.pages]

    assert len(written.pages) > 2
    assert not _BLOB.search(written.path.read_text())
    assert cover["pages"] == [f"my%20report-pages/page-{at + 1:04}.html" for at in range(len(written.pages))]
    assert {key for page in whole for key in page} == {record["episode_id"] for record in load(traces)}
    assert sum(map(len, whole)) == 48
    for row in cover["rows"]:
        assert row["id"] in whole[row["page"]]
    assert len({(row["task"], row["page"]) for row in cover["rows"]}) == 12
    assert {index(page)["home"] for page in written.pages} == {"../my%20report.html"}


def test_what_does_not_fit_is_listed_and_said(traces: Path, tmp_path: Path) -> None:
    """Beyond the limit records are left out by the rule, never silently: rows stay, and the page says how many."""
    written = write_report(traces, tmp_path / "report.html", max_mb=0.05)
    found = index(written.path)
    whole = embedded(written.path)

    assert 0 < len(whole) < 48
    assert len(found["rows"]) == 48
    assert f"{48 - len(whole)} episodes are listed without their steps, to keep within 0.05 MB" in written.left_out
    assert found["left_out"] == written.left_out
    assert sum(len(data) for _, data in _BLOB.findall(written.path.read_text())) <= 0.05 * (1 << 20)


def test_a_new_report_replaces_the_old_one(traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pages too; but a folder that holds anything else is left alone and named."""
    monkeypatch.setattr(budget, "PAGE_BYTES", 20_000)
    first = write_report(traces, tmp_path / "report.html")
    monkeypatch.setattr(budget, "PAGE_BYTES", 60_000)
    second = write_report(traces, tmp_path / "report.html")
    assert len(second.pages) < len(first.pages)
    assert sorted((tmp_path / "report-pages").iterdir()) == sorted(second.pages)
    (tmp_path / "report-pages" / "thesis.tex").touch()
    with pytest.raises(
        RecordError, match=r"is not the folder of an earlier report's pages \(thesis.tex\); move it away"
    ):
        write_report(traces, tmp_path / "report.html")
    assert sorted(tmp_path.glob(".report*")) == []


def test_a_failed_report_leaves_the_old_one(traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When writing breaks off, the report that was there is whole, and no part of the new one is left."""
    out = write_report(traces, tmp_path / "report.html").path
    before = out.read_bytes()

    def broken(*_: object, **__: object) -> Any:
        yield b"half a page"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(report, "page", broken)
    with pytest.raises(RecordError, match=r"report\.html was not written: No space left on device; name another file"):
        write_report(traces, out)

    assert out.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "traces.jsonl"]


def test_outputs_that_cannot_be_are_refused(traces: Path, tmp_path: Path) -> None:
    """A folder in the file's place, and a file in a folder's place."""
    with pytest.raises(RecordError, match=r"is a folder; name a file, such as .*report\.html"):
        write_report(traces, tmp_path)
    with pytest.raises(RecordError, match="was not written: File exists; name another file"):
        write_report(traces, traces / "report.html")
    with pytest.raises(InvalidArgument, match="a report of -1 MB holds nothing; give --max-mb more"):
        write_report(traces, tmp_path / "r.html", max_mb=-1)


def test_classes_come_from_a_calibration(traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each task has its class; one of another version of its task is left out, and said."""
    run_calibrate([traces], "m", tmp_path / "c.json")
    capsys.readouterr()
    document = json.loads((tmp_path / "c.json").read_text())
    [first, *_] = document["tasks"]
    document["tasks"][first]["task_hash"] = "another"
    (tmp_path / "c.json").write_text(json.dumps(document))
    found = index(write_report(traces, tmp_path / "r.html", Settings(calibration=tmp_path / "c.json")).path)

    assert {task["id"]: task["class"] for task in found["tasks"]} == {
        name: None if name == first else entry["class"] for name, entry in document["tasks"].items()
    }
    assert found["loaded"] == "48 records of 1 file; of another version, and left out: the classes of 1 tasks"


def test_a_sample_is_a_queue(traces: Path, tmp_path: Path) -> None:
    """Only the sampled episodes are in the report, with the order to judge them in."""
    settings = Settings(size=10, seed=7, strata=("outcome",), blind=True)
    found = index(write_report(traces, tmp_path / "r.html", settings).path)

    assert found["blind"]
    assert len(found["queue"]) == 10
    assert sorted(found["queue"]) == sorted(row["id"] for row in found["rows"])
    assert "a sample of 10 of 48 episodes, seed 7" in found["loaded"]
    with pytest.raises(InvalidArgument, match="grades are hidden for a sample only; give --sample N with --blind"):
        write_report(traces, tmp_path / "r.html", Settings(blind=True))


def test_a_report_of_voids_has_nothing_to_sample(tmp_path: Path) -> None:
    """There is no grade to judge."""
    records = [{**record, "reward": None} for record in rollouts.records(1, steps=(1, 2))]
    traces = rollouts.save(tmp_path / "t.jsonl", records)
    with pytest.raises(InvalidArgument, match="every episode is void, so there is no grade to judge; run them again"):
        write_report(traces, tmp_path / "r.html", Settings(size=3))


def test_a_trace_file_is_not_written_over(traces: Path) -> None:
    """The report is no place for its own records to be lost in."""
    before = traces.read_bytes()
    with pytest.raises(InvalidArgument, match=f"{traces} is or holds the trace file {traces}, which would be lost"):
        write_report(traces, traces)

    assert traces.read_bytes() == before
