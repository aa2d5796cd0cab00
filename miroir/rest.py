"""The one place for HTTP: bearer tokens, proxies, deadlines, and faults mapped to miroir's errors."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import requests

from .deadlines import Deadlines
from .errors import ConnectionFailed, HttpError, InvalidArgument

HEALTH_TIMEOUT_S = Deadlines.health_s
HTTP_TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 10.0
BODY_SHOWN = 2000  # characters of an error's body that a message repeats
_CHUNK = 65536
_DIRECT = {"http": "", "https": ""}


def is_private(url: str) -> bool:
    """Whether the URL's host is a loopback or private address, to which no proxy is ever asked."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host.split("%")[0])
    except ValueError:
        return False
    return address.is_private or address.is_loopback or address.is_link_local


def secret_from(variable: str | None) -> str | None:
    """The token or key that an environment variable holds, None when none is named; InvalidArgument when it is empty.

    The line break of the file that it came from is no part of it.
    """
    if variable is None:
        return None
    secret = os.environ.get(variable, "").strip()
    if not secret:
        raise InvalidArgument(f"{named(variable)} is empty or not set; put the secret into it")
    return secret


def named(variable: str) -> str:
    """The environment variable, in words. A name that is not in capitals stays unsaid: it may be the secret itself."""
    usual = variable.isascii() and variable.isidentifier() and variable.isupper()
    return f"the environment variable {variable}" if usual else "the environment variable that was named"


def bearer(token: str | None) -> dict[str, str]:
    """The header that carries the token, none without one; InvalidArgument for a token that no header can hold."""
    if not token:
        return {}
    if not (token.isascii() and token.isprintable()):
        raise InvalidArgument("the token holds a line break or another character that no header can; check its source")
    return {"Authorization": f"Bearer {token}"}


def get(url: str, *, token: str | None = None, timeout_s: float = HTTP_TIMEOUT_S) -> Any:
    """The JSON that a GET of `url` answers; HttpError or ConnectionFailed."""
    return parse(url, *fetch("GET", url, token=token, timeout_s=timeout_s))


def post(url: str, body: Any, *, token: str | None = None, timeout_s: float = HTTP_TIMEOUT_S) -> Any:
    """The JSON that a POST of the JSON `body` answers; HttpError or ConnectionFailed."""
    return parse(url, *fetch("POST", url, body=body, token=token, timeout_s=timeout_s))


def fetch(
    method: str,
    url: str,
    *,
    body: Any = None,
    token: str | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = HTTP_TIMEOUT_S,
    session: requests.Session | None = None,
) -> tuple[int, Mapping[str, str], bytes]:
    """One request: status, headers and body within `timeout_s` seconds; ConnectionFailed when none comes."""
    deadline = time.monotonic() + timeout_s
    with send(method, url, body=body, token=token, headers=headers, timeout_s=timeout_s, session=session) as response:
        content = b"".join(chunks(response, url, deadline))
        return response.status_code, response.headers, content


@contextlib.contextmanager
def send(
    method: str,
    url: str,
    *,
    body: Any = None,
    token: str | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = HTTP_TIMEOUT_S,
    session: requests.Session | None = None,
) -> Iterator[requests.Response]:
    """A response whose body is still to be read; with a `session` of the caller's, its connections are used again."""
    authorization = bearer(token)
    opened = session or requests.Session()
    try:
        response = opened.request(
            method,
            url,
            data=None if body is None else json.dumps(body, allow_nan=False).encode(),
            headers={**({} if body is None else {"Content-Type": "application/json"}), **(headers or {})},
            auth=_Bearer(authorization),
            timeout=(min(timeout_s, CONNECT_TIMEOUT_S), timeout_s),
            allow_redirects=False,
            stream=True,
            proxies=_DIRECT if is_private(url) else None,
        )
    except requests.RequestException as error:
        if session is None:
            opened.close()
        raise ConnectionFailed(f"{url}: {reason(error)}; is the server running?", url=url) from error
    try:
        yield response
    finally:
        response.close()
        if session is None:
            opened.close()


def chunks(
    response: requests.Response, url: str, deadline: float, *, silence_s: float = float("inf")
) -> Iterator[bytes]:
    """The body's bytes as they arrive; ConnectionFailed after `deadline` on the monotonic clock, or `silence_s` seconds
    without any.
    """
    read1 = getattr(response.raw, "read1", None)
    sock = getattr(getattr(response.raw, "connection", None), "sock", None)
    try:
        while True:
            if sock is not None:
                sock.settimeout(max(0.001, min(silence_s, deadline - time.monotonic())))
            chunk = read1(_CHUNK, decode_content=True) if read1 else response.raw.read(_CHUNK, decode_content=True)
            if not chunk:
                return
            yield chunk
            if time.monotonic() > deadline:
                raise TimeoutError
    except Exception as error:
        if not isinstance(error, OSError) and type(error).__module__.partition(".")[0] != "urllib3":
            raise
        why = reason(error)
        said = "the answer did not end in time" if why == "timed out" else f"{why} while the answer was read"
        raise ConnectionFailed(f"{url}: {said}; is the server overloaded?", url=url) from error


def reason(error: BaseException) -> str:
    """The cause of a network error in a few words, without addresses of objects or URLs."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, TimeoutError | requests.Timeout) or "Timeout" in type(seen).__name__:
            return "timed out"
        if isinstance(seen, OSError) and seen.strerror and seen.errno:
            return seen.strerror.lower()
        inner = seen.__cause__ or seen.__context__ or getattr(seen, "reason", None)
        if inner is None and seen.args and isinstance(seen.args[0], BaseException):
            inner = seen.args[0]
        if inner is None or inner is seen or isinstance(inner, str):
            break
        seen = inner
    return f"{type(seen).__name__}: {seen}" if str(seen) else type(seen).__name__


def raise_for_status(url: str, status: int, content: bytes) -> None:
    """HttpError with the body, cut, unless the status is 2xx."""
    if not 200 <= status < 300:
        shown = content.decode(errors="replace").strip()[:BODY_SHOWN] or "(no body)"
        raise HttpError(status, f"{url} answered {shown}", url=url)


def parse(url: str, status: int, headers: Mapping[str, str], content: bytes) -> Any:
    """The JSON of an answer; HttpError for an error status, ConnectionFailed for what is not JSON."""
    raise_for_status(url, status, content)
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        kind = headers.get("content-type", "an unnamed type")
        raise ConnectionFailed(
            f"{url}: the answer is not JSON ({kind}); is this an environment server?", url=url, status=status
        ) from error


class _Bearer(requests.auth.AuthBase):
    """Sets the token, or nothing; being there at all keeps requests from asking .netrc for another one."""

    def __init__(self, authorization: Mapping[str, str]) -> None:
        self._authorization = authorization

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers.update(self._authorization)
        return request
