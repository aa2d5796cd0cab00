"""What is written: whole or not at all, the same bytes for the same inputs, and what stands beside the rows."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from derive_records import LOOK, SUBMIT, called, derived, record, rows, saved

import miroir.derive.derivation
from miroir.derive import FORMATS, Options, derive
from miroir.derive.encoding import encoded, has_exponent
from miroir.errors import InvalidArgument, MissingExtra, RecordError


def files(folder: Path) -> dict[str, bytes]:
    """All files below a folder, by name."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def records() -> list[dict[str, Any]]:
    """A few records of three tasks."""
    return [
        record(f"task-{number % 3}", trial=number, calls=(*[LOOK] * number, SUBMIT), success=number % 2 == 0)
        for number in range(9)
    ]


@pytest.mark.parametrize("name", FORMATS)
def test_equal_inputs_give_equal_bytes(tmp_path: Path, name: str) -> None:
    """Whatever the order of the records in the files, every file written is the same, byte for byte."""
    made = records()
    suffix = "" if FORMATS[name].file_each else ".csv" if name == "rewards" else ".jsonl"
    for run, order in (("one", made), ("two", made[::-1])):
        (tmp_path / run).mkdir()
        (tmp_path / f"{run}-in").mkdir()
        traces = saved(tmp_path / f"{run}-in", order)
        derive([traces], name, tmp_path / run / f"rows{suffix}", Options(validation=0.3))

    one, two = files(tmp_path / "one"), files(tmp_path / "two")
    manifests = [json.loads(each.pop("rows.manifest.json")) for each in (one, two)]
    assert one == two
    assert [manifest.pop("inputs")[0]["file"] for manifest in manifests] == ["traces.jsonl"] * 2
    assert manifests[0] == manifests[1]


def test_the_same_without_orjson(tmp_path: Path) -> None:
    """What is installed makes no difference to the bytes: exponents, huge integers, lone surrogates."""
    odd = {"query": "\ud800 é\u2028\x7f", "page": 2**70, "small": 1e-7, "large": 1e16}
    made = [record(messages=[{"role": "user", "content": "Go"}, called(("look", odd))] * 1, steps=[])]
    made[0]["messages"].append(
        {"role": "tool", "tool_call_id": made[0]["messages"][1]["tool_calls"][0]["id"], "content": ""}
    )
    plain = record("b", calls=(("look", {"query": "plain", "page": 3}), SUBMIT))
    traces = saved(tmp_path, [*made, plain])
    script = (
        "import sys\n"
        "if sys.argv[3] == 'without': sys.modules['orjson'] = None\n"
        "from miroir.derive import Options, derive\n"
        "derive([sys.argv[1]], 'sft', sys.argv[2], Options(allow_invalid_calls=True))\n"
    )
    for how in ("with", "without"):
        (tmp_path / how).mkdir()
        subprocess.run(
            [sys.executable, "-c", script, traces, tmp_path / how / "rows.jsonl", how], check=True, timeout=60
        )

    assert files(tmp_path / "with") == files(tmp_path / "without")
    calls = [
        row["messages"][1]["tool_calls"][0]["function"]["arguments"] for row in rows(tmp_path / "with" / "rows.jsonl")
    ]
    assert odd in calls


def test_exponents_are_seen() -> None:
    """Numbers that writers spell differently are found; digits and letters in texts are not."""
    assert has_exponent(b'{"a":1e-7}')
    assert has_exponent(b"[1,-2.5e16]")
    assert not has_exponent(b'{"a":"3e5f","b":12,"e":1.5}')
    assert encoded({"a": 1e-7}) == b'{"a":1e-07}'


def test_what_exists_is_not_replaced(tmp_path: Path) -> None:
    """Rows, manifest or card in the way: nothing is read, nothing is written; `force` replaces all."""
    traces = saved(tmp_path, [record()])
    out = tmp_path / "rows.jsonl"
    for name in ("rows.jsonl", "rows.manifest.json", "rows.card.md", "rows.validation.jsonl"):
        (tmp_path / name).write_text("old")
        with pytest.raises(InvalidArgument, match=rf"{name} exists; name another file, or replace it with --force"):
            derive([traces], "sft", out)
        assert (tmp_path / name).read_text() == "old"
        (tmp_path / name).unlink()
    out.write_text("old")

    derive([traces], "sft", out, force=True)

    assert len(rows(out)) == 1


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.manifest.json"])
def test_what_another_process_wrote_meanwhile_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Of two derivations to one place the first to end has it; the other leaves nothing of its own."""
    traces = saved(tmp_path, [record()])
    other = tmp_path / name
    load = miroir.derive.derivation.load

    def slowly(*args: Any, **options: Any) -> Iterator[dict[str, Any]]:
        yield from load(*args, **options)
        other.write_text("theirs")

    monkeypatch.setattr(miroir.derive.derivation, "load", slowly)
    with pytest.raises(InvalidArgument, match=rf"{name} exists; name another file, or replace it with --force"):
        derive([traces], "sft", tmp_path / "rows.jsonl")

    assert other.read_text() == "theirs"
    assert set(files(tmp_path)) == {name, traces.name}


def test_an_old_validation_file_does_not_outlive_its_split(tmp_path: Path) -> None:
    """Rows that were held out before, and are trained on now, do not stand beside the new ones."""
    traces = saved(tmp_path, records())
    derive([traces], "sft", tmp_path / "rows.jsonl", Options(validation=0.3))
    assert (tmp_path / "rows.validation.jsonl").exists()

    derive([traces], "sft", tmp_path / "rows.jsonl", force=True)

    assert not (tmp_path / "rows.validation.jsonl").exists()


def test_a_folder_is_replaced_only_where_it_is_ours(tmp_path: Path) -> None:
    """A folder that holds anything but JSON lines files is never replaced."""
    traces = saved(tmp_path, [record()])
    out = tmp_path / "sessions"
    derive([traces], "hub", out)
    derive([traces], "hub", out, force=True)
    (out / "thesis.doc").write_text("mine")

    with pytest.raises(InvalidArgument, match="sessions is a folder that holds other files; name a new one"):
        derive([traces], "hub", out, force=True)

    assert (out / "thesis.doc").read_text() == "mine"


def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where writing fails in the middle, the old files stay and no other file remains."""
    traces = saved(tmp_path, [record()])
    out = tmp_path / "rows.jsonl"
    derive([traces], "sft", out)
    before = files(tmp_path)

    def full(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(miroir.derive.derivation, "card", full)
    with pytest.raises(RecordError, match=r"the output was not written: .*No space left on device; free or name"):
        derive([traces], "sft", out, force=True)

    assert files(tmp_path) == before


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is tried before any record is read."""

    def refused(**_: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("miroir.derive.spill.tempfile.TemporaryFile", refused)
    with pytest.raises(RecordError, match=r"nothing can be written to .* \(Permission denied\); name a file in"):
        derive([saved(tmp_path, [record()])], "sft", tmp_path / "rows.jsonl")


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    """The funnel, the lengths and the pairs are told, and no file is made."""
    traces = saved(tmp_path, records())
    for name in ("sft", "dpo", "turns"):
        dry = derive([traces], name, tmp_path / "new" / "rows.jsonl", dry_run=True)
        wet = derive([traces], name, tmp_path / f"{name}.jsonl")

        assert (dry.rows, dry.lengths, dry.tasks) == (wet.rows, wet.lengths, wet.tasks)
        assert dry.files == {}
        assert f"{dry.rows} rows would be written" in dry.lines()
    assert not (tmp_path / "new").exists()


def test_the_manifest_says_what_was_done(tmp_path: Path) -> None:
    """Inputs with their hashes, options, counts at every stage, tasks, lengths and files."""
    traces = saved(tmp_path, records())
    out = tmp_path / "rows.jsonl"

    report = derive([traces], "sft", out, Options(seed=7))

    manifest = json.loads((tmp_path / "rows.manifest.json").read_text())
    assert manifest == json.loads(json.dumps(report.named().manifest()))
    assert manifest["inputs"] == [{"file": "traces.jsonl", "sha256": hashlib.sha256(traces.read_bytes()).hexdigest()}]
    assert manifest["options"]["seed"] == 7
    assert manifest["files"] == {"rows.jsonl": 5}
    funnel = manifest["funnels"]["records read"]
    assert funnel["read"] == 9
    assert funnel["stages"]["successful"] == {"left": 5, "left_out": {"failed": 4}}
    assert funnel["stages"]["picked"]["left"] == 5
    assert manifest["tasks"]["task-0"] == {"graded": 3, "successful": 2, "rows": 2, "side": "train"}


def test_the_funnel_is_a_table(tmp_path: Path) -> None:
    """A line for each stage that left something out, with what it left out and why."""
    report, _ = derived(tmp_path, [record("a"), record("a"), record("b", success=False)])

    assert report.lines()[:3] == [
        "records read           3",
        "successful             2  left out: 1 failed",
        "unique                 1  left out: 1 with the calls of another",
    ]


def test_the_card_says_how_to_load(tmp_path: Path) -> None:
    """The card has the Hub's header, the source, the funnel and a recipe that names the file."""
    derive([saved(tmp_path, records())], "sft", tmp_path / "rows.jsonl", Options(validation=0.4))

    card = (tmp_path / "rows.card.md").read_text()
    assert card.startswith("---\n")
    assert '{"split": "validation", "path": "rows.validation.jsonl"}' in card
    assert "- 5 of environment office, played by small" in card
    assert "successful             5  left out: 4 failed" in card
    assert 'load_dataset("json", data_files="rows.jsonl", features=features' in card
    assert "assistant_only_loss=True" in card
    assert str(tmp_path) not in card


@pytest.mark.parametrize(
    ("format_name", "name", "message"),
    [
        ("hub", "rows.jsonl", "hub writes a folder of files, not .*rows.jsonl; name a folder"),
        ("sft", "rows.csv", r"rows of sft do not fit into CSV; name a .jsonl or .parquet file"),
        ("sfd", "rows.jsonl", "there is no format 'sfd'; the formats are sft, prompt-completion, "),
    ],
)
def test_a_place_that_does_not_fit_the_format(tmp_path: Path, format_name: str, name: str, message: str) -> None:
    """The kind of file follows from its name, and must be one that the format has."""
    with pytest.raises(InvalidArgument, match=message):
        derive([saved(tmp_path, [record()])], format_name, tmp_path / name)


def test_rewards_are_csv(tmp_path: Path) -> None:
    """The table has a header, and a line for each record."""
    derive([saved(tmp_path, [record()])], "rewards", tmp_path / "rewards.csv")

    header, line = (tmp_path / "rewards.csv").read_text().splitlines()
    assert header.startswith("task_id,task_hash,split,env,agent,model,trial,episode_id,reward,success,harm")
    assert line.startswith("task-1,hash of task-1,train,office,chat,small,0,")


def test_parquet_needs_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pyarrow the error names the extra, before anything is read."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)

    with pytest.raises(MissingExtra, match=r"Parquet needs pyarrow; install it with: pip install 'miroir\[parquet\]'"):
        derive([tmp_path / "not read"], "sft", tmp_path / "rows.parquet")


def test_traces_are_read_from_standard_input(tmp_path: Path) -> None:
    """A pipe is read once; its hash is not known."""
    done = subprocess.run(
        [sys.executable, "-m", "miroir", "derive", "-", "--format", "sft", "--out", tmp_path / "rows.jsonl"],
        input=saved(tmp_path, [record()]).read_bytes(),
        capture_output=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "rows.manifest.json").read_text())["inputs"] == [{"file": "-", "sha256": None}]


@pytest.mark.parametrize("spoil", [lambda text: text.replace("\n", "x\n", 1), lambda text: "[1]\n" + text])
def test_a_damaged_trace_file_is_refused(tmp_path: Path, spoil: Callable[[str], str]) -> None:
    """A bad line stops the run and names its place; it can be skipped."""
    traces = saved(tmp_path, [record("a"), record("b")])
    traces.write_text(spoil(traces.read_text()))

    with pytest.raises(RecordError, match=r"traces.jsonl:1: "):
        derive([traces], "sft", tmp_path / "rows.jsonl")
    report = derive([traces], "sft", tmp_path / "rows.jsonl", Options(skip_bad=True))
    assert report.rows >= 1
    assert any("1 bad line skipped" in note for note in report.notes)


@pytest.mark.parametrize(("format_name", "out"), [("sft", "traces/a.jsonl"), ("hub", "traces")])
def test_traces_are_not_replaced(tmp_path: Path, format_name: str, out: str) -> None:
    """Not with --force either: neither a trace file nor the folder that holds it."""
    (tmp_path / "traces").mkdir()
    saved(tmp_path / "traces", records(), "a.jsonl")
    before = files(tmp_path)
    with pytest.raises(InvalidArgument, match=f"{out} is or holds the trace file .*a.jsonl, which would be lost"):
        derive([tmp_path / "traces"], format_name, tmp_path / out, force=True)

    assert files(tmp_path) == before
