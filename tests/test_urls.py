"""URL files, base URLs, and the sources that are watched."""

from __future__ import annotations

import itertools
import logging
import os
import random
import socket
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from miroir.errors import InvalidArgument, UrlFileError
from miroir.urls import Source, base_url, endpoint, from_words, key, read_urls, write_urls


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Names:
    """A resolver that a test rewrites."""

    def __init__(self, *addresses: str) -> None:
        self.addresses: Iterable[str] = addresses
        self.error: Exception | None = None
        self.asked = 0

    def __call__(self, name: str, port: int) -> Iterable[str]:
        self.asked += 1
        if self.error:
            raise self.error
        return self.addresses


def write(path: Path, *lines: str) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))


def settled(source: Source, clock: Clock) -> list[str] | None:
    """What a source says once its file has kept still for longer than any wait."""
    found = source.changed()
    clock.now += 3.0
    return found or source.changed()


@pytest.mark.parametrize(
    "text",
    [
        "http://h",
        "https://h:443/",
        "http://10.0.0.1:8000/a/b",
        "http://[::1]:8000",
        "http://[fe80::1%eth0]:80",
        "http://a_b.c-d:1",
        "HTTP://H",
    ],
)
def test_base_urls_are_kept_as_given(text: str) -> None:
    """A base URL is http or https with a host, perhaps a port and a path."""
    assert base_url(text) == text


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("h:8000", "does not begin with http://"),
        ("", "does not begin with http://"),
        ("ftp://h", "does not begin with http://"),
        ("ws://h", "does not begin with http://"),
        ("http://", "host or port is malformed"),
        ("http:///x", "host or port is malformed"),
        ("http://h:0", "host or port is malformed"),
        ("http://h:65536", "host or port is malformed"),
        ("http://h:x", "host or port is malformed"),
        ("http://[::1", "host or port is malformed"),
        ("http://a,b", "host or port is malformed"),
        ("http://h/?a=1", "a query or a fragment"),
        ("http://h/#a", "a query or a fragment"),
        ("http://h/?", "a query or a fragment"),
        ("http://h /", "a space or a control character"),
        ("http://h\n", "a space or a control character"),
        ("http://h\x00", "a space or a control character"),
    ],
)
def test_what_is_no_base_url_is_refused(text: str, fault: str) -> None:
    """Each fault is named, and the message says what to write."""
    with pytest.raises(InvalidArgument, match=rf"is not a base URL: .*{fault}.*; write http://host:port"):
        base_url(text)


@pytest.mark.parametrize(
    "text",
    ["http://user:S3CRET@h", "http://S3CRET@h", "http://u:S3CRET/x@h", "user:S3CRET@h", "http://h/?token=S3CRET"],
)
def test_credentials_are_refused_and_never_shown(text: str, tmp_path: Path) -> None:
    """A URL with credentials is an error whose text holds none of them, as an argument and in a file."""
    write(tmp_path / "urls.txt", text)
    messages = []
    for attempt in (lambda: base_url(text), lambda: Source.of(text), lambda: read_urls(tmp_path / "urls.txt")):
        with pytest.raises((InvalidArgument, UrlFileError)) as caught:
            attempt()
        messages.append(str(caught.value))
    assert "S3CRET" not in " ".join(messages)


def test_two_spellings_of_a_server_have_one_key() -> None:
    """Case of scheme and host, the default port and one trailing slash make no difference; a path does."""
    assert key("HTTP://Host:80/") == key("http://host") == "http://host"
    assert key("https://h:443/a/") == "https://h/a"
    assert key("http://[::1]:8000/") == "http://[::1]:8000"
    assert key("http://h/A") != key("http://h/a")
    assert key("http://h:443") != key("http://h")


def test_an_endpoint_keeps_the_path_prefix() -> None:
    """One trailing slash of the base URL is not doubled."""
    assert endpoint("http://h/a/", "health") == endpoint("http://h/a", "health") == "http://h/a/health"


def test_a_url_file_is_read(tmp_path: Path) -> None:
    """Comments and blank lines are skipped; each server is listed once, in order, as first spelt."""
    path = tmp_path / "urls.txt"
    path.write_bytes(b"\xef\xbb\xbf# fleet\r\n\r\n http://b:80/ # one\r\nhttp://a\nHTTP://B\nhttp://c")
    assert read_urls(path) == ["http://b:80/", "http://a", "http://c"]


def test_a_bad_url_file_says_what_to_do(tmp_path: Path) -> None:
    """Missing, a folder, not text, junk and empty are each one clear URL_FILE."""
    path = tmp_path / "urls.txt"
    with pytest.raises(UrlFileError, match=r"cannot be read: no such file.*`miroir pool --urls .*urls.txt` makes it"):
        read_urls(path)
    with pytest.raises(UrlFileError, match="is a folder; name the URL file that `miroir pool --urls FILE` keeps"):
        read_urls(tmp_path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UrlFileError, match="is not UTF-8 text"):
        read_urls(path)
    write(path, "# fleet", "http://a", "junk")
    with pytest.raises(UrlFileError, match=r"urls.txt, line 3, is not a base URL: .*; write http://host:port"):
        read_urls(path)
    write(path, "# fleet", "")
    with pytest.raises(UrlFileError, match="holds no URL; has `miroir pool` stopped"):
        read_urls(path)


def test_a_url_file_is_replaced_whole(tmp_path: Path) -> None:
    """Writing goes through a new file, keeps a symlink a symlink, and leaves nothing else."""
    path, link = tmp_path / "urls.txt", tmp_path / "link.txt"
    link.symlink_to(path)
    write_urls(link, ["http://a:1"])
    inode = path.stat().st_ino
    write_urls(link, ["http://a:1", "http://b:2/x"])
    assert read_urls(path) == ["http://a:1", "http://b:2/x"]
    assert path.read_text().startswith("#")
    assert link.is_symlink()
    assert path.stat().st_ino != inode
    assert path.stat().st_mode & 0o444
    assert sorted(tmp_path.iterdir()) == [link, path]


def test_a_url_file_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    """A missing folder and a URL that is none are refused; the old file stays."""
    with pytest.raises(UrlFileError, match=r"cannot be written: No such file.*; name a file in a writable folder"):
        write_urls(tmp_path / "none" / "urls.txt", ["http://a"])
    write_urls(tmp_path / "urls.txt", ["http://a"])
    with pytest.raises(InvalidArgument):
        write_urls(tmp_path / "urls.txt", ["junk"])
    assert read_urls(tmp_path / "urls.txt") == ["http://a"]
    assert list(tmp_path.iterdir()) == [tmp_path / "urls.txt"]


def test_words_of_a_command_line() -> None:
    """One word without a scheme is a file; dns:// is itself; all else are base URLs."""
    assert from_words(["urls.txt"]) == Path("urls.txt")
    assert from_words(["dns://fleet:8000"]) == "dns://fleet:8000"
    assert from_words(["http://a"]) == ["http://a"]
    assert from_words(["http://a", "http://b"]) == ["http://a", "http://b"]


def test_a_host_and_port_on_a_command_line_lack_their_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`localhost:8000` is told what to write, unless there is a file of that name."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArgument, match=r"is neither a file nor a base URL; write http://localhost:8000$"):
        from_words(["localhost:8000"])
    write_urls("localhost:8000", ["http://a"])
    assert from_words(["localhost:8000"]) == Path("localhost:8000")


@pytest.mark.parametrize(
    ("urls", "advice"),
    [
        ([], "urls is empty; pass at least one base URL"),
        ((), "urls is empty"),
        ("http://a", r"pass a list of base URLs: \['http://a'\]"),
        ("urls.txt", r"pass pathlib.Path\(…\) for a URL file"),
        ("", r"pass pathlib.Path\(…\)"),
        ("dns://fleet", "write dns://name:port"),
        ("dns://fleet:0", "write dns://name:port"),
        ("dnss://fleet:1/x", "write dns://name:port"),
        ("dns://:1", "write dns://name:port"),
        ("dns://u@fleet:1", "write dns://name:port"),
        (["http://a", "b"], "'b' is not a base URL"),
        ([Path("urls.txt")], "it is not text"),
        (b"http://a", "it is not text"),
        ({"http://a"}, "urls is a set; pass a list of base URLs"),
        (None, "urls is a NoneType"),
    ],
)
def test_a_source_that_means_nothing_is_refused(urls: object, advice: str) -> None:
    """InvalidArgument tells what to write instead."""
    with pytest.raises(InvalidArgument, match=advice):
        Source.of(urls)  # type: ignore[arg-type]


def test_a_list_never_changes() -> None:
    """A list is read as given, each server once; its key does not depend on order."""
    source = Source.of(["http://a/", "http://b", "http://A"])
    assert source.read() == ["http://a/", "http://b"]
    assert source.changed() is None
    assert source.key == Source.of(("http://b", "http://a/")).key
    assert hash(source.key) != hash(Source.of(["http://b"]).key)


def test_a_file_has_one_key_however_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path and the absolute one are one source, also after the working folder has changed."""
    write(tmp_path / "urls.txt", "http://a")
    monkeypatch.chdir(tmp_path)
    relative = Source.of(Path("urls.txt"))
    assert relative.key == Source.of(tmp_path / "x" / ".." / "urls.txt").key
    monkeypatch.chdir("/")
    assert relative.read() == ["http://a"]


def test_the_first_reading_of_a_bad_file_raises(tmp_path: Path) -> None:
    """A later bad moment is forgiven, the first is not."""
    with pytest.raises(UrlFileError):
        Source.of(tmp_path / "urls.txt").read()


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    """The new list comes once the file has kept still, and comes once."""
    path, clock = tmp_path / "urls.txt", Clock()
    write_urls(path, ["http://a"])
    source = Source.of(path, clock=clock)
    assert source.read() == ["http://a"]
    write_urls(path, ["http://a", "http://b"])
    assert source.changed() is None
    clock.now += 0.6
    assert source.changed() == ["http://a", "http://b"]
    clock.now += 0.6
    assert source.changed() is None


def test_a_change_that_leaves_size_and_time_alone_is_seen(tmp_path: Path) -> None:
    """A file written twice within one tick of its clock around the first reading is read once more."""
    path, clock = tmp_path / "urls.txt", Clock()
    write(path, "http://a")
    source = Source.of(path, clock=clock)
    source.read()
    times = path.stat()
    write(path, "http://b")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert settled(source, clock) == ["http://b"]


def test_a_file_without_a_last_line_end_is_believed_later(tmp_path: Path) -> None:
    """A cut last line could be half a port; after two seconds it is taken for a hand-written file."""
    path, clock = tmp_path / "urls.txt", Clock()
    write(path, "http://a:8000")
    source = Source.of(path, clock=clock)
    source.read()
    path.write_text("http://a:8000\nhttp://b:80")
    assert source.changed() is None
    clock.now += 1.0
    assert source.changed() is None
    clock.now += 1.5
    assert source.changed() == ["http://a:8000", "http://b:80"]


@pytest.mark.parametrize("bad", ["", "# none\n", "junk\n", None])
def test_a_bad_moment_keeps_the_last_list_and_warns_once(
    bad: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Empty, junk and gone: nothing changes, one warning a spell, and the next good list is taken."""
    path, clock = tmp_path / "urls.txt", Clock()
    write(path, "http://a")
    source = Source.of(path, clock=clock)
    source.read()
    for spell in (1, 2):
        if bad is None:
            path.unlink()
        else:
            path.write_text(bad)
        with caplog.at_level(logging.WARNING, "miroir.urls"):
            for _ in range(5):
                assert settled(source, clock) is None
        assert len(caplog.records) == spell
        assert "the last good list of 1 stays in use" in caplog.text
        write(path, f"http://b{spell}")
        assert settled(source, clock) == [f"http://b{spell}"]


def test_a_short_bad_moment_warns_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A file that is truncated and then filled is no fault."""
    path, clock = tmp_path / "urls.txt", Clock()
    write(path, "http://a")
    source = Source.of(path, clock=clock)
    source.read()
    path.write_text("")
    assert source.changed() is None
    clock.now += 0.3
    write(path, "http://b")
    assert settled(source, clock) == ["http://b"]
    assert not caplog.records


def test_random_rewrites_lose_no_url_and_make_none_up(tmp_path: Path) -> None:
    """1,000 rewrites, atomic or torn, of a polled file: every list that is seen was written whole."""
    path, clock, dice = tmp_path / "urls.txt", Clock(), random.Random(7)
    lists = [[f"http://host{n}:{8000 + n}" for n in range(size)] for size in (1, 2, 3, 40)]
    write_urls(path, lists[0])
    source = Source.of(path, clock=clock)
    seen = [source.read()]

    def poll() -> None:
        clock.now += dice.uniform(0.0, 0.3)
        found = source.changed()
        if found is not None:
            seen.append(found)

    for _ in range(1000):
        urls = dice.choice(lists)
        if dice.random() < 0.5:
            write_urls(path, urls)
        else:
            content = "".join(f"{url}\n" for url in urls)
            cuts = sorted(dice.sample(range(len(content)), k=min(3, len(content))))
            if dice.random() < 0.3:
                path.unlink()
            with path.open("w") as file:
                for start, end in itertools.pairwise([0, *cuts, len(content)]):
                    file.write(content[start:end])
                    file.flush()
                    if dice.random() < 0.5:
                        clock.now += 0.01
                        source.changed()
        for _ in range(dice.randrange(6)):
            poll()
    assert all(found in lists for found in seen)
    assert len(seen) > 100


def test_a_name_is_one_url_for_each_address() -> None:
    """Addresses are sorted, each once, IPv6 in brackets; dnss:// gives https."""
    names = Names("10.0.0.2", "::1", "10.0.0.1", "10.0.0.2")
    assert Source.of("dns://fleet:8000", resolver=names).read() == [
        "http://10.0.0.1:8000",
        "http://10.0.0.2:8000",
        "http://[::1]:8000",
    ]
    assert Source.of("dnss://fleet:8000", resolver=Names("10.0.0.1")).read() == ["https://10.0.0.1:8000"]
    assert Source.of("dns://Fleet:1").key == Source.of("dns://fleet:1").key != Source.of("dnss://fleet:1").key


def test_a_real_resolver_knows_loopback() -> None:
    """Without a resolver of the caller's the system's is asked."""
    assert "http://127.0.0.1:8000" in Source.of("dns://127.0.0.1:8000").read()


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (UnicodeError("x"), "not a host"),
    ],
)
def test_a_name_that_does_not_resolve_at_first_raises(error: Exception, why: str) -> None:
    """UrlFileError names the name."""
    names = Names()
    with pytest.raises(UrlFileError, match="dns://fleet:1 has no address; is its service up"):
        Source.of("dns://fleet:1", resolver=names).read()
    names.error = error
    with pytest.raises(UrlFileError, match=f"dns://fleet:1 does not resolve: {why}.*; is the name right"):
        Source.of("dns://fleet:1", resolver=names).read()


def polled(source: Source, names: Names, asked: int) -> list[str] | None:
    """What a source says once its resolver has been asked so often."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        found = source.changed()
        if found is not None:
            return found
        if names.asked >= asked and source._asking is None:  # type: ignore[attr-defined]
            return None
        time.sleep(0.002)
    pytest.fail("no answer")


def test_a_name_is_resolved_again_every_five_seconds(caplog: pytest.LogCaptureFixture) -> None:
    """New addresses are taken, a failing resolver keeps the last ones and warns once a spell."""
    clock, names = Clock(), Names("10.0.0.1")
    source = Source.of("dns://fleet:1", clock=clock, resolver=names)
    source.read()
    names.addresses = ("10.0.0.2",)
    clock.now += 4.9
    assert source.changed() is None
    assert names.asked == 1
    clock.now += 0.2
    assert polled(source, names, 2) == ["http://10.0.0.2:1"]
    names.error = socket.gaierror(-3, "Temporary failure")
    for asked in (3, 4):
        clock.now += 5
        assert polled(source, names, asked) is None
    assert len(caplog.records) == 1
    names.error, names.addresses = None, ("10.0.0.2", "10.0.0.3")
    clock.now += 5
    assert polled(source, names, 5) == ["http://10.0.0.2:1", "http://10.0.0.3:1"]


def test_a_slow_resolver_holds_nobody_up() -> None:
    """`changed` answers at once while a name is being resolved."""
    clock, resolved = Clock(), threading.Event()

    def slow(name: str, port: int) -> list[str]:
        return ["10.0.0.1"] if clock.now < 101 or resolved.wait(10) else []

    source = Source.of("dns://fleet:1", clock=clock, resolver=slow)
    source.read()
    clock.now += 6
    began = time.monotonic()
    assert source.changed() is None
    assert time.monotonic() - began < 5
    resolved.set()


def test_a_file_is_believed_as_it_stands_by_who_did_not_watch_it(tmp_path: Path) -> None:
    """After a pause its list is there at once; a bad moment changes nothing, and no change is none."""
    path, clock = tmp_path / "urls.txt", Clock()
    write_urls(path, ["http://a:1"])
    source = Source.of(path, clock=clock)
    source.read()
    write_urls(path, ["http://b:1"])

    assert source.caught_up() == ["http://b:1"]

    path.write_text("")

    assert source.caught_up() is None
    assert Source.of(["http://a:1"]).caught_up() is None
