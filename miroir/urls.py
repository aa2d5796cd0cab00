"""URL lists: what a base URL is, URL files read, written and watched, and `dns://` names."""

from __future__ import annotations

import logging
import os
import re
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from .disk import replace_file
from .errors import InvalidArgument, UrlFileError

HEADER = "# miroir pool: the base URLs of containers that are ready, one a line"
SETTLE_S = 0.5  # a file that changed is read once it has kept still for so long: whoever rewrites it has finished
UNENDED_SETTLE_S = 2.0  # the same, for a file whose last line has no end and so may be cut
RESOLVE_S = 5.0  # a name is resolved again at most this often

Urls = str | os.PathLike[str] | Sequence[str]
Clock = Callable[[], float]
Resolver = Callable[[str, int], Iterable[str]]

_log = logging.getLogger(__name__)
_HOST = re.compile(r"[\w.-]+|[0-9a-f:.]*:[0-9a-f:.]*(%[\w.-]+)?", re.IGNORECASE)
_HOST_PORT = re.compile(r"[\w.-]+:[0-9]+")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_SCHEMES = {"dns": "http", "dnss": "https"}


def base_url(text: str) -> str:
    """`text` itself when it is a base URL (http or https, a host, perhaps a port and a path), else InvalidArgument."""
    fault = _fault(text)
    if fault:
        raise InvalidArgument(f"{_shown(text)} is not a base URL: {fault}; write http://host:port")
    return text


def key(url: str) -> str:
    """The normal form of a base URL: two spellings of one server have the same."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = "" if parts.port in {None, _DEFAULT_PORTS[parts.scheme]} else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}{parts.path.removesuffix('/')}"


def endpoint(url: str, path: str) -> str:
    """The URL of `path` (without a leading slash) under a base URL."""
    return f"{url.removesuffix('/')}/{path}"


def read_urls(path: str | os.PathLike[str]) -> list[str]:
    """The base URLs of a URL file, each server once, as first spelt; UrlFileError if it cannot be used.

    One base URL a line; `#` starts a comment; blank lines are skipped.
    """
    return _parse(_text(path), path)


def write_urls(path: str | os.PathLike[str], urls: Iterable[str]) -> None:
    """Replace the URL file in one step that no reader sees half-done; UrlFileError when it cannot be written."""
    content = "".join(f"{line}\n" for line in (HEADER, *map(base_url, urls)))
    try:
        replace_file(path, [content.encode()])
    except OSError as error:
        raise UrlFileError(f"{path} cannot be written: {error.strerror}; name a file in a writable folder") from error


def from_words(words: Sequence[str]) -> Urls:
    """What a command line's URLS name: one URL file, one `dns://name:port`, or base URLs; as `Source.of` takes it.

    InvalidArgument for a host and port without a scheme.
    """
    if len(words) == 1 and "://" not in words[0]:
        path = Path(words[0])
        if _HOST_PORT.fullmatch(words[0]) and not path.exists():
            raise InvalidArgument(f"{words[0]} is neither a file nor a base URL; write http://{words[0]}")
        return path
    if len(words) == 1 and urlsplit(words[0]).scheme in _SCHEMES:
        return words[0]
    return list(words)


class Source(ABC):
    """Where a fleet's URLs come from; `key` is equal for two that name the same. Used from one thread at a time."""

    key: Hashable

    @staticmethod
    def of(urls: Urls, *, clock: Clock = time.monotonic, resolver: Resolver | None = None) -> Source:
        """The source that `urls` means: base URLs, a URL file (`os.PathLike`), or `dns://name:port`, `dnss://…`.

        InvalidArgument for anything else.
        """
        if isinstance(urls, str):
            return _DnsSource(urls, clock, resolver or _resolve)
        if isinstance(urls, os.PathLike):
            return _FileSource(Path(urls), clock)
        if not isinstance(urls, Sequence):
            raise InvalidArgument(
                f"urls is a {type(urls).__name__}; pass a list of base URLs, a pathlib.Path or dns://"
            )
        return _ListSource(urls)

    @abstractmethod
    def read(self) -> list[str]:
        """The first reading: at least one base URL, or UrlFileError."""

    @abstractmethod
    def changed(self) -> list[str] | None:
        """The new list when it is another than the last one, else None; a bad moment changes nothing."""

    def caught_up(self) -> list[str] | None:
        """The same for who has not watched it lately: a file is believed as it stands, a name is not waited for."""
        return self.changed()


class _ListSource(Source):
    """Base URLs given outright; they never change."""

    def __init__(self, urls: Sequence[str]) -> None:
        if not urls:
            raise InvalidArgument("urls is empty; pass at least one base URL, such as http://host:port")
        self._urls = _unique(map(base_url, urls))
        self.key = ("list", frozenset(self._urls))

    def read(self) -> list[str]:
        return list(self._urls)

    def changed(self) -> list[str] | None:
        return None


class _Watched(Source):
    """A source that changes: the last good list, and one warning for each spell in which it cannot be read."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._urls: list[str] = []
        self._warned = False

    def _good(self, urls: list[str]) -> list[str] | None:
        self._warned = False
        if urls == self._urls:
            return None
        self._urls = urls
        return list(urls)

    def _bad(self, error: UrlFileError) -> None:
        if not self._warned:
            _log.warning("%s (the last good list of %d stays in use)", error.message, len(self._urls))
        self._warned = True


_Signature = tuple[int, int, int] | None


class _FileSource(_Watched):
    """A URL file. Anyone may rewrite it in any way: only what has kept still for a while is believed."""

    def __init__(self, path: Path, clock: Clock) -> None:
        super().__init__(clock)
        self._path = path.absolute()
        self.key = ("file", os.path.abspath(path))  # noqa: PTH100 - Path has no counterpart that keeps symlinks
        self._settled: _Signature = None
        self._moving: _Signature = None
        self._since = clock()

    def read(self) -> list[str]:
        # Not settled yet: a second change within one tick of the file's clock would leave the signature as it is.
        self._moving, self._since, self._settled = _signature(self._path), self._clock(), None
        self._urls = read_urls(self._path)
        return list(self._urls)

    def caught_up(self) -> list[str] | None:
        if self._settled is not None and _signature(self._path) == self._settled:
            return None
        try:
            return self.read()
        except UrlFileError as error:
            self._bad(error)
            return None

    def changed(self) -> list[str] | None:
        signature, now = _signature(self._path), self._clock()
        if signature is not None and signature == self._settled:
            return None
        if signature != self._moving:
            self._moving, self._since = signature, now
        if now - self._since < SETTLE_S:
            return None
        try:
            text = _text(self._path)
            urls = _parse(text, self._path)
        except UrlFileError as error:
            self._since = now
            self._bad(error)
            return None
        if _signature(self._path) != signature or (now - self._since < UNENDED_SETTLE_S and not text.endswith("\n")):
            return None
        self._settled = signature
        return self._good(urls)


class _DnsSource(_Watched):
    """A DNS name with one container behind each address."""

    def __init__(self, text: str, clock: Clock, resolver: Resolver) -> None:
        super().__init__(clock)
        self._scheme, self._name, self._port = _dns_parts(text)
        self.key = ("dns", self._scheme, self._name, self._port)
        self._text = text
        self._resolver = resolver
        self._asked = clock()
        self._asking: threading.Thread | None = None
        self._answer: list[str] | UrlFileError | None = None

    def read(self) -> list[str]:
        self._asked = self._clock()
        self._urls = self._resolved()
        return list(self._urls)

    def changed(self) -> list[str] | None:
        # A resolver may block for half a minute; whoever asks here has leases to hand out meanwhile.
        if self._asking is None and self._clock() - self._asked >= RESOLVE_S:
            self._asked = self._clock()
            self._asking = threading.Thread(target=self._ask, name="miroir-dns", daemon=True)
            self._asking.start()
        if self._asking is None or self._asking.is_alive():
            return None
        answer, self._asking, self._answer = self._answer, None, None
        if isinstance(answer, UrlFileError):
            self._bad(answer)
            return None
        return self._good(answer) if answer else None

    def _ask(self) -> None:
        try:
            self._answer = self._resolved()
        except UrlFileError as error:
            self._answer = error

    def _resolved(self) -> list[str]:
        try:
            hosts = {
                f"[{address}]" if ":" in address else address for address in self._resolver(self._name, self._port)
            }
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or "not a host name"
            raise UrlFileError(
                f"{self._text} does not resolve: {why}; is the name right, and its service up?"
            ) from error
        if not hosts:
            raise UrlFileError(f"{self._text} has no address; is its service up?")
        return sorted(f"{self._scheme}://{host}:{self._port}" for host in hosts)


def _dns_parts(text: str) -> tuple[str, str, int]:
    """Scheme of the URLs, name and port of `dns://name:port`; InvalidArgument that says what to write instead."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        parts, port = urlsplit("dns:"), None
    if parts.scheme in {"http", "https"}:
        raise InvalidArgument(f"urls is one text; pass a list of base URLs: [{_shown(text)}]")
    if parts.scheme not in _SCHEMES:
        raise InvalidArgument(
            f"urls is the text {_shown(text)}; pass pathlib.Path(…) for a URL file, or a list of URLs"
        )
    if (
        not port
        or "@" in text
        or not _HOST.fullmatch(parts.hostname or "")
        or parts.path + parts.query + parts.fragment
    ):
        raise InvalidArgument(
            f"{_shown(text)} is not a DNS source; write dns://name:port (http) or dnss://name:port (https)"
        )
    return _SCHEMES[parts.scheme], parts.hostname or "", port


def _resolve(name: str, port: int) -> set[str]:
    return {str(info[4][0]) for info in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)}


def _fault(text: object) -> str | None:
    """Why the text is no base URL, without repeating any of it."""
    if not isinstance(text, str):
        return "it is not text"
    if not text.isprintable() or " " in text:
        return "it holds a space or a control character"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return "its host or port is malformed"
    if parts.scheme not in _DEFAULT_PORTS:
        return "it does not begin with http:// or https://"
    if "@" in parts.netloc:
        return "it holds credentials (a token is passed beside it)"
    if "?" in text or "#" in text:
        return "it holds a query or a fragment"
    if port == 0 or not _HOST.fullmatch(parts.hostname or ""):
        return "its host or port is malformed"
    return None


def _shown(text: object) -> str:
    """The text for a message, without what may be a secret: anything beside an @, in a query or a fragment."""
    shown = repr(text)
    if "@" in shown:
        return "a text with an @"
    return repr(re.split(r"[?#]", text)[0][:100]) if isinstance(text, str) else shown[:100]


def _unique(urls: Iterable[str]) -> list[str]:
    """One URL for each server, the first spelling kept."""
    first: dict[str, str] = {}
    for url in urls:
        first.setdefault(key(url), url)
    return list(first.values())


def _text(path: str | os.PathLike[str]) -> str:
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except IsADirectoryError as error:
        raise UrlFileError(f"{path} is a folder; name the URL file that `miroir pool --urls FILE` keeps") from error
    except OSError as error:
        why = (error.strerror or type(error).__name__).lower()
        raise UrlFileError(f"{path} cannot be read: {why}; `miroir pool --urls {path}` makes it") from error
    except UnicodeDecodeError as error:
        raise UrlFileError(f"{path} is not UTF-8 text; `miroir pool --urls FILE` makes a URL file") from error


def _parse(text: str, path: str | os.PathLike[str]) -> list[str]:
    urls = []
    for number, line in enumerate(text.split("\n"), 1):
        url = line.partition("#")[0].strip()
        if not url:
            continue
        fault = _fault(url)
        if fault:
            raise UrlFileError(f"{path}, line {number}, is not a base URL: {fault}; write http://host:port")
        urls.append(url)
    if not urls:
        raise UrlFileError(f"{path} holds no URL; has `miroir pool` stopped, or is it still starting?")
    return _unique(urls)


def _signature(path: Path) -> _Signature:
    """What changes when a file does; None when there is none to be seen."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
