"""Loading records: where from, what is left out and what is refused, the same with orjson as without it."""

from __future__ import annotations

import gzip
import io
import json
import logging
import multiprocessing
import os
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import zstandard
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from miroir.errors import MissingExtra, RecordError
from miroir.records import Report, load, parser, reader, required, save_record, sources
from miroir.records import writer as saving

KEYS = ("task_id", "reward", "metadata.task_hash", "metadata.success", "metadata.harm")
READERS = ("json", "orjson")


def record(episode_id: str, **changes: Any) -> dict[str, Any]:
    return {
        "schema": 1,
        "episode_id": episode_id,
        "task_id": "t1",
        "reward": 1.0,
        "metadata": {"task_hash": "h1", "success": True, "harm": False},
        **changes,
    }


def lines(*records: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in records)


def ids(traces: Any, **options: Any) -> list[str]:
    return [row["episode_id"] for row in load(traces, **options)]


@pytest.fixture(params=READERS)
def mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each test runs with orjson and without it."""
    if request.param == "json":
        monkeypatch.setitem(sys.modules, "orjson", None)
    return str(request.param)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes bytes to a file of the test's folder."""

    def write(data: bytes, name: str = "a.jsonl") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    return write


# Where records are read from


def test_folders_are_read_recursively_in_order(write: Callable[..., Path], tmp_path: Path) -> None:
    """Plain, gzip and Zstandard files at every depth, sorted by name; other files are not traces."""
    write(lines(record("b")), "b.jsonl")
    write(gzip.compress(lines(record("a"))), "a.jsonl.gz")
    write(zstandard.compress(lines(record("c"))), "deep/er/c.jsonl.zst")
    write(b"not a trace", "notes.txt")
    report = Report()
    assert ids(tmp_path, report=report) == ["a", "b", "c"]
    assert [Path(name).name for name in report.files] == ["a.jsonl.gz", "b.jsonl", "c.jsonl.zst"]
    assert str(report) == "3 records of 3 files"


def test_files_patterns_and_lists_may_be_mixed_and_each_file_is_read_once(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    """A file that is named twice, by its folder and a pattern, is read once."""
    one = write(lines(record("a")), "x/a.jsonl")
    write(lines(record("b")), "x/b.jsonl")
    report = Report()
    assert ids([one, str(tmp_path / "x" / "*.jsonl"), tmp_path], report=report) == ["a", "b"]
    assert report.duplicates == 0
    assert ids(str(tmp_path / "**" / "b.jsonl")) == ["b"]


def test_a_file_name_with_pattern_characters_is_a_file(write: Callable[..., Path]) -> None:
    """A file that exists is never taken for a pattern."""
    assert ids(write(lines(record("a")), "run[1].jsonl")) == ["a"]


def test_linked_folders_are_followed_but_not_in_circles(write: Callable[..., Path], tmp_path: Path) -> None:
    """A link to another folder of traces counts; one back up ends."""
    write(lines(record("a")), "other/a.jsonl")
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "linked").symlink_to(tmp_path / "other")
    (tmp_path / "other" / "up").symlink_to(tmp_path / "other")
    assert ids(tmp_path / "traces") == ["a"]


def test_standard_input_is_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` reads what is piped in, and leaves it open."""
    stdin = io.TextIOWrapper(io.BytesIO(lines(record("a"), record("b"))))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert ids("-") == ["a", "b"]
    assert not stdin.buffer.closed


def test_a_pipe_is_read(tmp_path: Path) -> None:
    """A named pipe, as shells make them, has no size and is read to its end."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(lines(record("a"), record("b")),))
    writer.start()
    assert ids(pipe) == ["a", "b"]
    writer.join(10)


def test_what_does_not_exist_is_named_at_once(tmp_path: Path) -> None:
    """The call itself refuses a name that is no file, folder or matching pattern."""
    with pytest.raises(
        RecordError, match=r"none\.jsonl does not exist, and as a pattern it matches nothing; name trace"
    ):
        load(tmp_path / "none.jsonl")


def test_an_empty_folder_has_no_records(tmp_path: Path) -> None:
    """A run that has saved nothing yet can be loaded."""
    assert list(load(tmp_path)) == []


def test_members_and_frames_are_read_through(write: Callable[..., Path], tmp_path: Path) -> None:
    """Compressed files that were appended to hold several members or frames."""
    write(gzip.compress(lines(record("a"))) + gzip.compress(lines(record("b"))), "a.jsonl.gz")
    write(zstandard.compress(lines(record("c"))) + zstandard.compress(lines(record("d"))), "b.jsonl.zst")
    assert ids(tmp_path) == ["a", "b", "c", "d"]


def test_a_frame_larger_than_the_buffer_is_read_through(write: Callable[..., Path]) -> None:
    """Megabytes of well-compressed records come out whole."""
    rows = [record(f"e{i}", prompt="x" * 300_000) for i in range(10)]
    assert ids(write(zstandard.compress(lines(*rows)), "a.jsonl.zst")) == [row["episode_id"] for row in rows]


def test_zstandard_files_need_the_extra(write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the error names the file and what to install."""
    path = write(zstandard.compress(lines(record("a"))), "a.jsonl.zst")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(MissingExtra, match=r"a\.jsonl\.zst needs zstandard; .*pip install 'miroir\[zstd\]'"):
        ids(path)


def test_what_is_appended_after_the_call_is_not_read(write: Callable[..., Path]) -> None:
    """A loading sees each file as it was when it began, so that counts and hashes describe the same bytes."""
    path = write(lines(record("a"), record("b")))
    records = load(path)
    with path.open("ab") as file:
        file.write(lines(record("c")))
    assert [row["episode_id"] for row in records] == ["a", "b"]


def test_records_are_dicts_with_every_key_kept(write: Callable[..., Path], mode: str) -> None:
    """Unknown keys come through, in order."""
    row = record("a", later={"x": [1, None, "ü\u2028"]}, another=1.5)
    (loaded,) = load(write(lines(row)))
    assert loaded == row
    assert list(loaded) == list(row)


# Torn tails


def test_a_file_cut_at_every_byte_gives_its_whole_records(
    write: Callable[..., Path], mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Exactly the complete records, never an exception, and one warning where the cut is inside a record."""
    data = lines(record("a", prompt="ü\\"), record("b", steps=[{"seconds": 1.5}]), record("c"))
    ends = [i for i, byte in enumerate(data) if byte == ord("\n")]
    for cut in range(len(data) + 1):
        caplog.clear()
        path = write(data[:cut])
        assert ids(path) == ["a", "b", "c"][: sum(end <= cut for end in ends)]
        whole = cut == 0 or cut in ends or cut - 1 in ends
        assert [entry.levelno for entry in caplog.records] == ([] if whole else [logging.WARNING])
    assert f"{path}:1" not in caplog.text


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".zst", zstandard.compress)])
def test_a_compressed_file_cut_at_every_byte_gives_a_beginning(
    write: Callable[..., Path], suffix: str, compress: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    """A cut stream is noticed, whatever it still yields, and is one torn tail."""
    name = f"a.jsonl{suffix}"
    data = compress(lines(record("a", prompt=os.urandom(40).hex()))) + compress(lines(record("b")))
    first = len(compress(lines(record("b"))))
    for cut in range(1, len(data)):
        report = Report()
        got = ids(write(data[:cut], name), report=report)
        assert got == ["a", "b"][: len(got)]
        assert len(report.torn) == (cut != len(data) - first)
    assert "the last line is half written" in caplog.text


def test_a_cut_gzip_file_gives_each_record_that_is_whole_in_it(write: Callable[..., Path]) -> None:
    """Whatever of its data can be unpacked counts, up to the last line that ends."""
    data = gzip.compress(lines(*(record(f"e{i}", prompt=os.urandom(3_000).hex()) for i in range(40))))
    for cut in range(1000, len(data), 3001):
        whole = zlib.decompressobj(wbits=31).decompress(data[:cut]).count(b"\n")
        report = Report()
        assert len(ids(write(data[:cut], "a.jsonl.gz"), report=report)) == whole
        assert len(report.torn) == 1


def test_a_tail_of_nothing_but_nul_is_torn(write: Callable[..., Path], mode: str) -> None:
    """What some filesystems leave after a crash is no record and no fault."""
    report = Report()
    path = write(lines(record("a")) + b"\0" * 4096)
    assert ids(path, report=report) == ["a"]
    assert report.torn == [f"{path}:2"]


def test_a_last_record_without_its_newline_counts(write: Callable[..., Path], mode: str) -> None:
    """A whole record is a record."""
    assert ids(write(lines(record("a"), record("b"))[:-1])) == ["a", "b"]


# Lines that are no records: the same complaints with orjson and without


BAD = [
    (b'{"schema": 1, "episode_id": "torn", "prom{"schema": 1}', "not JSON at character 44: Expecting ':' delimiter"),
    (b'{"episode_id": NaN}', "episode_id is not a finite number"),
    (b'{"steps": [{"at_s": -Infinity}]}', r"steps\[0\].at_s is not a finite number"),
    (b'{"steps": [1.0, 1e999]}', r"steps\[1\] is not a finite number"),
    (b'{"steps": [' + b"9" * 400 + b".5]}", r"steps\[0\] is not a finite number"),
    (b'{"steps": ' + b"9" * 5000 + b"}", "Exceeds the limit"),
    (b'{"prompt": "\xff"}', "not UTF-8 at byte 13"),
    (b'{"prompt": "\xed\xa0\x80"}', "not UTF-8 at byte 13"),
    (b"\0" * 20, "not JSON at character 1: Expecting value"),
    (b'[{"task_id": "t1"}]', "a JSON list, not an object"),
    (b'"text"', "a JSON str, not an object"),
    (b'{"a": 1} {"b": 2}', "not JSON at character 10: Extra data"),
    (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
    (b'{"prompt": "a\tb"}', "not JSON at character 14: Invalid control character at"),
    (b"{'a': 1}", "not JSON at character 2: Expecting property name enclosed in double quotes"),
    (b'{"schema": "rewards/1"}', "not a record: its schema is 'rewards/1'"),
    (b'{"schema": true}', "not a record: its schema is True"),
    (b'{"metadata": []}', "not a record: its metadata is no object"),
]


@pytest.mark.parametrize(("line", "reason"), BAD, ids=[reason[:40] for _, reason in BAD])
def test_a_bad_line_is_refused_with_its_place(write: Callable[..., Path], mode: str, line: bytes, reason: str) -> None:
    """File, line, reason and what to do; with `skip_bad` it is counted, and the others are read."""
    path = write(lines(record("a")) + line + b"\n" + lines(record("b")))
    with pytest.raises(RecordError, match=rf"a\.jsonl:2: {reason}.*; repair or remove the line, or skip bad lines"):
        ids(path)
    report = Report()
    assert ids(path, skip_bad=True, report=report) == ["a", "b"]
    assert (report.lines, report.records, report.bad) == (3, 2, 1)
    assert report.bad_lines[0].startswith(f"{path}:2: ")
    assert str(report) == "2 records of 1 file; 1 bad line skipped"


def test_a_foreign_file_without_newline_is_refused(write: Callable[..., Path], mode: str) -> None:
    """What is no beginning of a record is not taken for a torn one."""
    with pytest.raises(RecordError, match=r"a\.json:1: a JSON list, not an object"):
        ids(write(b"[1, 2]", "a.json"))
    with pytest.raises(RecordError, match=r"a\.csv:1: not JSON at character 1"):
        ids(write(b"task,reward", "a.csv"))


GOOD = [
    (b'{"x": %d}' % 2**70, {"x": 2**70}),
    (b'{"x": [1, %d]}' % (-(2**63) - 1), {"x": [1, -(2**63) - 1]}),
    (b'{"x": %d}' % (2**64 - 1), {"x": 2**64 - 1}),
    (b'{"x": ' + b"9" * 400 + b"}", {"x": 10**400 - 1}),
    (b'{"x": 1, "x": 2}', {"x": 2}),
    (b'\xef\xbb\xbf{"x": 1}', {"x": 1}),
    (b'{"x": "\\ud800"}', {"x": "\ud800"}),
    (b'{"x": "\\ud83d\\ude00\\u0000"}', {"x": "\U0001f600\0"}),
    ('{"x": "a\u2028\x85\x7f"}'.encode(), {"x": "a\u2028\x85\x7f"}),
    (b'{"x": -0}', {"x": 0}),
    (b'{"x": 1e-999}', {"x": 0.0}),
    (b' {"x": 1.0 }\r', {"x": 1.0}),
    (b'{"x": "NaN 1e999 12345678901234567890"}', {"x": "NaN 1e999 12345678901234567890"}),
]


@pytest.mark.parametrize(("line", "expected"), GOOD)
def test_odd_but_good_lines_are_read_exactly(
    write: Callable[..., Path], mode: str, line: bytes, expected: dict[str, Any]
) -> None:
    """Large integers stay integers, the last of two equal keys counts, a byte order mark is no fault."""
    (loaded,) = load(write(line + b"\n"))
    assert loaded == expected
    assert repr(loaded) == repr(expected)


def test_nesting_is_read_alike(write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too deep for the one reader is left to the other, so that both agree."""
    path = write(b'{"a": ' + b"[" * 2000 + b"]" * 2000 + b"}\n")
    outcomes = []
    for module in (orjson, None):
        monkeypatch.setitem(sys.modules, "orjson", module)
        outcomes.append(len(list(load(path, skip_bad=True))))
    assert outcomes[0] == outcomes[1]


def _outcome(line: bytes, module: Any) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "orjson", module)
        try:
            return repr(parser.parser()(line))
        except ValueError as error:
            return f"{type(error).__name__}: {error}"


numbers = st.one_of(
    st.integers(),
    st.integers(-(2**80), 2**80),
    st.floats(),
    st.from_regex(r"-?[0-9]{1,25}(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
)
documents = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, st.text(max_size=9)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(st.text(max_size=9), documents, max_size=4),
    st.booleans(),
    st.integers(0, 10**6),
    st.binary(max_size=2),
)
@example({"x": 2**64}, True, 0, b"")
def test_both_readers_agree_on_anything(document: Any, ascii_only: bool, at: int, noise: bytes) -> None:
    """Whatever JSON it is, and whatever bytes have damaged it: the same object or the same complaint."""
    line = json.dumps(document, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    at %= len(line) + 1
    for candidate in (line, line.replace(b'"', b""), line[:at] + noise + line[at + 1 :]):
        assert _outcome(candidate, orjson) == _outcome(candidate, None)


@given(st.lists(st.tuples(st.binary(max_size=12), st.from_regex(rb"[0-9]{0,22}", fullmatch=True)), max_size=8))
def test_huge_integers_are_always_noticed(pieces: list[tuple[bytes, bytes]]) -> None:
    """Nineteen digits in a row are seen wherever they begin."""
    line = b"".join(text + digits for text, digits in pieces)
    assert parser._may_hold_huge_integer(line) or not parser._HUGE.search(line)


def test_inexact_reading_differs_in_huge_integers_only(write: Callable[..., Path], mode: str) -> None:
    """What `exact=False` gives up is the exactness of integers beyond 64 bits; complaints stay."""
    (loaded,) = load(write(b'{"x": %d, "y": 7}\n' % 2**70), exact=False)
    assert loaded == {"x": 2**70, "y": 7}
    with pytest.raises(RecordError, match="y is not a finite number"):
        ids(write(b'{"y": 1e999}\n'), exact=False)


def test_a_line_too_long_is_bad_and_the_next_is_read(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rest is skipped without being held in memory."""
    monkeypatch.setattr(reader, "MAX_LINE", 1 << 20)
    monkeypatch.setattr(sources, "MAX_LINE", 1 << 20)
    long = record("long", prompt="x" * 3_500_000)
    path = write(lines(record("a"), long, record("b"), long)[:-1])
    with pytest.raises(RecordError, match=r"a\.jsonl:2: a line of more than 1 MiB; "):
        ids(path)
    report = Report()
    assert ids(path, skip_bad=True, report=report) == ["a", "b"]
    assert (report.bad, report.torn) == (2, [])


def test_damaged_compression_is_a_bad_place(write: Callable[..., Path]) -> None:
    """Damage inside a compressed file is refused, or with `skip_bad` counted; the other files are read."""
    rows = [record(f"e{i}", prompt=os.urandom(50_000).hex()) for i in range(40)]
    members = [gzip.compress(lines(row), 1) for row in rows]  # or damage might make one record another's twin
    at = len(members[30]) // 2
    members[30] = members[30][:at] + b"\xff" * 200 + members[30][at + 200 :]
    path = write(b"".join(members), "a.jsonl.gz")
    report = Report()
    assert 0 < len(ids(path, skip_bad=True, report=report)) < 40
    assert report.bad >= 1
    with pytest.raises(RecordError, match="; repair or remove the line"):
        ids(path)
    with pytest.raises(RecordError, match=r"a\.jsonl\.gz:1: damaged gzip data \(Not a gzipped file"):
        ids(write(b"plain text\n", "a.jsonl.gz"))
    with pytest.raises(RecordError, match=r"a\.jsonl\.zst:1: damaged Zstandard data"):
        ids(write(b"plain text\n", "a.jsonl.zst"))


def test_blank_lines_are_counted_and_skipped(write: Callable[..., Path]) -> None:
    """An empty line is neither a record nor a fault."""
    report = Report()
    assert ids(write(b"\n" + lines(record("a")) + b"  \r\n"), report=report) == ["a"]
    assert (report.lines, report.blank) == (3, 2)


def _python(number: str) -> float | int:
    return int(number) if number.isdigit() else float(number)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999", "9" * 400])
def test_a_reward_that_is_no_number_makes_the_record_void(write: Callable[..., Path], mode: str, value: str) -> None:
    """It is null, with a void_reason, no success, and counted."""
    report = Report()
    line = json.dumps(record("a", reward="R")).replace('"R"', value)
    (row,) = load(write(line.encode() + b"\n"), require=KEYS, report=report)
    assert row["reward"] is None
    assert row["metadata"]["success"] is False
    assert row["metadata"]["void_reason"] == f"the reward was {_python(value)}, which is not a finite number"
    assert str(report) == "1 record of 1 file; 1 reward made void, being no finite number"


# Duplicates


def test_equal_records_of_an_episode_are_dropped(write: Callable[..., Path], tmp_path: Path, mode: str) -> None:
    """Copies count once: in the same file, in a compressed one, and with other spaces or order of keys."""
    row = record("a")
    write(lines(row, row), "a.jsonl")
    write(gzip.compress(lines(row)), "b.jsonl.gz")
    write(gzip.compress(lines(row)), "c.jsonl.gz")
    other = json.dumps(dict(reversed(row.items())), separators=(",", ":")).encode()
    write(other, "d.jsonl")
    report = Report()
    assert ids(tmp_path, report=report) == ["a"]
    assert report.duplicates == 4
    assert str(report) == "1 record of 4 files; 4 duplicates dropped"


def test_an_equal_record_after_a_compressed_one_is_dropped(write: Callable[..., Path]) -> None:
    """The first is read again out of its compressed file, where only the form differs."""
    first = write(gzip.compress(lines(record("z"), record("a"))), "first.jsonl.gz")
    second = write(json.dumps(record("a"), indent=None, separators=(",", ":")).encode() + b"\n", "second.jsonl")
    assert ids([first, second]) == ["z", "a"]


@pytest.mark.parametrize("skip_bad", [False, True])
def test_different_records_of_an_episode_are_refused(
    write: Callable[..., Path], tmp_path: Path, mode: str, skip_bad: bool
) -> None:
    """Both places are named; one of the two lies, and no one can know which."""
    write(lines(record("x"), record("a")), "a.jsonl")
    write(lines(record("a", reward=0.0)), "b.jsonl")
    with pytest.raises(RecordError, match=r"b\.jsonl:1: episode a has another record at .*/a\.jsonl:2; keep the right"):
        ids(tmp_path, skip_bad=skip_bad)


def test_a_pipe_can_only_tell_equal_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal lines of a pipe are dropped, others are refused."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines(record("a"), record("a")))))
    assert ids("-") == ["a"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines(record("a"), record("a", reward=0)))))
    with pytest.raises(RecordError, match="-:2: episode a has another record at -:1"):
        ids("-")


def test_records_without_an_episode_id_are_all_kept(write: Callable[..., Path]) -> None:
    """Nothing tells whether two of them are one."""
    row = record("a")
    del row["episode_id"]
    assert len(list(load(write(lines(row, row))))) == 2


# What a record must have


def test_a_newer_schema_is_refused(write: Callable[..., Path]) -> None:
    """No skipping: the rest of the file would be misread too."""
    path = write(lines(record("a"), record("b", schema=2)))
    with pytest.raises(
        RecordError, match=r"a\.jsonl:2: a record of schema 2, where this miroir reads up to 1; upgrade"
    ):
        ids(path, skip_bad=True)


def test_a_missing_schema_is_the_first(write: Callable[..., Path]) -> None:
    """Traces of 0.0.1 have none."""
    row = record("a")
    del row["schema"]
    assert ids(write(lines(row)), require=KEYS) == ["a"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"metadata": {"success": True, "harm": False}}, "it has no metadata.task_hash"),
        ({"reward": "1.0"}, "its reward is '1.0'"),
        ({"reward": True}, "its reward is True"),
        ({"task_id": 7}, "its task_id is 7"),
        ({"metadata": {"task_hash": "h", "success": "yes", "harm": False}}, "its metadata.success is 'yes'"),
    ],
)
def test_required_keys_are_checked_where_a_tool_needs_them(
    write: Callable[..., Path], changes: dict[str, Any], reason: str
) -> None:
    """A record without them loads, unless they are asked for."""
    row = record("a", **changes)
    path = write(lines(row))
    assert ids(path) == ["a"]
    with pytest.raises(RecordError, match=rf"a\.jsonl:1: not a record: {reason}; "):
        ids(path, require=KEYS)
    with pytest.raises(RecordError, match=rf"RECORD: here: not a record: {reason}; is it a record of another tool"):
        required(row, "here", KEYS)
    assert required(record("a"), "here", KEYS) is None


def test_bad_lines_are_counted_and_the_first_ones_named(write: Callable[..., Path]) -> None:
    """A file full of rubbish does not fill the memory."""
    report = Report()
    assert ids(write(b"x\n" * 1000), skip_bad=True, report=report) == []
    assert report.bad == 1000
    assert len(report.bad_lines) == reader.BAD_LINES_NAMED


# While others write


def _append(directory: Path, who: int, count: int, name: str) -> None:
    saving._own.name = name
    for i in range(count):
        save_record(directory, record(f"{who}-{i}", prompt=f"{who}" * 2_000_000))
        time.sleep(0.02)


@pytest.mark.parametrize("shared", [False, True], ids=["a file each", "one file"])
def test_four_processes_append_while_a_reader_follows(tmp_path: Path, shared: bool) -> None:
    """2-MB records of four processes: at every moment the reader sees whole records only, and in the end all."""
    context = multiprocessing.get_context("fork")
    name = "shared.jsonl" if shared else ""
    writers = [context.Process(target=_append, args=(tmp_path, who, 10, name)) for who in range(4)]
    for writer in writers:
        writer.start()
    seen: set[str] = set()
    while any(writer.is_alive() for writer in writers):
        now = {row["episode_id"] for row in load(tmp_path) if row["prompt"] == row["episode_id"][0] * 2_000_000}
        assert now >= seen
        seen = now
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
        writer.close()
    report = Report()
    assert set(ids(tmp_path, report=report)) == {f"{who}-{i}" for who in range(4) for i in range(10)}
    assert (report.torn, report.bad, len(report.files)) == ([], 0, 1 if shared else 4)


def test_the_stream_is_lazy(write: Callable[..., Path]) -> None:
    """Records before a fault are yielded before it is raised."""
    stream: Iterator[dict[str, Any]] = load(write(lines(record("a")) + b"x\n"))
    assert next(stream)["episode_id"] == "a"
    with pytest.raises(RecordError):
        next(stream)


def test_a_name_that_is_none_is_refused(tmp_path: Path) -> None:
    """With the system's reason, and cut to a length that fits a line."""
    with pytest.raises(RecordError, match=r"a{200} cannot be read: File name too long; name a readable file"):
        ids("a" * 5000)


def test_a_folder_below_that_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its records would else be missing from every number, with no word of it."""
    (tmp_path / "locked").mkdir()
    scandir = os.scandir

    def refusing(path: Any) -> Any:
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(RecordError, match="locked cannot be read: Permission denied; name a readable file"):
        ids(tmp_path)
