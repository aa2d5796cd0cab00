"""One client for OpenAI-compatible chat endpoints, for agents and coworkers: retries, deadlines, faults by kind."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import random
import time
from collections.abc import Mapping, Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from http.cookiejar import DefaultCookiePolicy
from types import TracebackType
from typing import Any, Self

import requests

from .. import rest, sse
from ..errors import ConnectionFailed, ContextFull, InvalidArgument, ModelError
from ..urls import base_url as checked
from ..urls import endpoint
from .completion import Completion, Fault, refused, streamed, whole

TIMEOUT_S = 600.0  # for one answer, whole
TOTAL_S = 900.0  # for all attempts at one answer
RETRIES = 6
FIRST_PAUSE_S = 0.5  # doubled with each attempt
LONGEST_PAUSE_S = 30.0
JITTER = 0.25  # a pause is longer by up to this share, so that clients refused together do not come back together

_KEY_REFUSED = frozenset({401, 403})
_AGAIN = frozenset({408, 409, 425, 429})
_DOUBTFUL = frozenset({200, 500})  # a broken answer and what many servers say to a bad request: worth two retries
_DOUBTFUL_RETRIES = 2
_HOPELESS_KINDS = frozenset({"insufficient_quota"})
_REFUSED = frozenset({400, 413, 422})
_CONTEXT_KINDS = frozenset({"context_length_exceeded", "exceed_context_size_error"})
_CONTEXT_WORDS = ("context length", "context size", "context window", "maximum model length", "prompt is too long")
_OWN_FIELDS = frozenset({"model", "messages", "tools"})
_CONNECTIONS = 1024  # kept alive at most; each thread that waits for an answer holds one


class Clock:
    """Time and chance as a client sees them; a test passes its own."""

    def monotonic(self) -> float:
        """Seconds that only ever grow."""
        return time.monotonic()

    def wall(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Let so much time pass."""
        time.sleep(seconds)

    def random(self) -> float:
        """A number from 0 to 1."""
        return random.random()


_REAL = Clock()


class ChatClient:
    """A model behind `{base_url}/chat/completions`; any number of threads may use one client.

    `params` are further fields of every request, sent and kept as given (temperature, max_tokens or
    max_completion_tokens, stream, …); None leaves a field out that would be sent otherwise.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: str | None = None,
        *,
        params: Mapping[str, Any] | None = None,
        timeout_s: float = TIMEOUT_S,
        total_s: float = TOTAL_S,
        retries: int = RETRIES,
        clock: Clock = _REAL,
    ) -> None:
        self.base_url = checked(base_url)
        self.model = model
        self.params = _params(params or {})
        self.answered = False  # whether any completion has ever succeeded
        self._api_key = _key(api_key)
        self._timeout_s = timeout_s
        self._total_s = total_s
        self._retries = retries
        self._clock = clock
        self._url = endpoint(base_url, "chat/completions")
        self._connect()

    def __repr__(self) -> str:
        return f"ChatClient({self.base_url!r}, {self.model!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connections": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._connect()

    def close(self) -> None:
        """Close the connections that are kept alive; a later call opens new ones."""
        if self._pid == os.getpid():
            self._connections.close()

    def check(self) -> None:
        """Ask for the models: ModelError when nothing answers or the key is refused, whatever else the answer says."""
        url = endpoint(self.base_url, "models")
        try:
            status, _, content = rest.fetch("GET", url, token=self._api_key, session=self._session())
        except ConnectionFailed as error:
            raise self._error(Fault(error.message.removeprefix(f"{url}: ")), 1) from None
        if status in _KEY_REFUSED:
            raise self._error(refused(status, content), 1) from None

    def complete(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = ()) -> Completion:
        """The model's next message; ContextFull when the conversation is too long for it, else ModelError.

        Rate limits, server errors and connection faults are tried again, as Retry-After says or with exponential
        back-off, until the retries or the total time are used up.
        """
        body = self._body(messages, tools)
        end = self._clock.monotonic() + self._total_s
        for attempt in itertools.count(1):
            try:
                completion = self._ask(body, min(self._timeout_s, end - self._clock.monotonic()))
                break
            except Fault as fault:
                pause = self._pause(fault, attempt)
                if attempt > _allowed(fault, self._retries) or self._clock.monotonic() + pause >= end:
                    raise self._error(fault, attempt) from None  # the fault's own words may hold the key
            self._clock.sleep(pause)
        self.answered = True
        return completion

    def _body(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        fields: dict[str, Any] = {"model": self.model, "messages": list(messages)}
        if tools:
            fields |= {"tools": list(tools), "tool_choice": "auto"}  # some servers ignore tools without it
        if self.params.get("stream"):
            fields["stream_options"] = {"include_usage": True}
        return {name: value for name, value in {**fields, **self.params}.items() if value is not None}

    def _ask(self, body: Mapping[str, Any], timeout_s: float) -> Completion:
        deadline = time.monotonic() + timeout_s
        token, session = self._api_key, self._session()
        try:
            with rest.send("POST", self._url, body=body, token=token, timeout_s=timeout_s, session=session) as response:
                pieces = rest.chunks(response, self._url, deadline)
                if not 200 <= response.status_code < 300:
                    fault = refused(response.status_code, b"".join(pieces))
                    fault.wait_s = retry_after(response.headers, self._clock.wall())
                    raise fault
                if response.headers.get("content-type", "").startswith("text/event-stream"):
                    return streamed(sse.events(pieces))
                return whole(b"".join(pieces))
        except ConnectionFailed as error:
            raise Fault(error.message.removeprefix(f"{self._url}: ")) from error

    def _session(self) -> requests.Session:
        """This process's connections: a forked child must not write into its parent's."""
        if self._pid != os.getpid():
            self._connect()
        return self._connections

    def _connect(self) -> None:
        session = requests.Session()
        session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))  # one would pin all threads together
        for scheme in ("http://", "https://"):
            session.mount(scheme, requests.adapters.HTTPAdapter(pool_maxsize=_CONNECTIONS))
        self._connections, self._pid = session, os.getpid()

    def _pause(self, fault: Fault, attempt: int) -> float:
        backoff = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** (attempt - 1))
        return max(fault.wait_s or 0.0, backoff) * (1 + JITTER * self._clock.random())

    def _error(self, fault: Fault, attempts: int) -> ModelError:
        tried = f", {attempts} attempts" if attempts > 1 else ""
        status = f"HTTP {fault.status}: " if fault.status not in {None, 200} else ""
        advice = f"; {_advice(fault, keyed=self._api_key is not None)}" if fault.status else ""
        message = f"{self._url} (model {self.model}{tried}): {status}{fault.why.rstrip('.')}{advice}"
        if self._api_key:
            message = message.replace(self._api_key, "[api key]")  # some servers repeat the key they refuse
        kind = ContextFull if _is_context_full(fault) else ModelError
        return kind(message, status=fault.status, retryable=_allowed(fault, 1) > 0)


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """How many seconds a server asks to wait: `retry-after-ms`, or `Retry-After` by count or date (RFC 9110, 10.2.3).

    `now` is the wall clock's time, in seconds since the epoch; None where the server asks for nothing.
    """
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        with contextlib.suppress(ValueError):
            seconds = float(headers.get(name, "")) * unit_s
            if math.isfinite(seconds):
                return max(0.0, seconds)
    with contextlib.suppress(ValueError):
        date = parsedate_to_datetime(headers.get("retry-after", ""))
        return max(0.0, date.replace(tzinfo=date.tzinfo or UTC).timestamp() - now)
    return None


def _allowed(fault: Fault, retries: int) -> int:
    """How many retries the fault is worth, of at most `retries`."""
    if _is_context_full(fault) or fault.kinds & _HOPELESS_KINDS:
        return 0
    if fault.status in _DOUBTFUL:
        return min(retries, _DOUBTFUL_RETRIES)
    return retries if fault.status is None or fault.status in _AGAIN or fault.status > 500 else 0


def _is_context_full(fault: Fault) -> bool:
    if fault.kinds & _CONTEXT_KINDS:
        return True
    return fault.status in _REFUSED and any(words in fault.why.lower() for words in _CONTEXT_WORDS)


def _advice(fault: Fault, *, keyed: bool) -> str:
    if _is_context_full(fault):
        return "the conversation is longer than the model's context"
    if fault.status in _KEY_REFUSED:
        return "check the API key and what it may use" if keyed else "pass an API key"
    if fault.status == 404:
        return "check the model's name and the base URL, which often ends in /v1"
    if fault.status == 429:
        asked = f"it asks to wait {fault.wait_s:.0f} s; " if fault.wait_s else ""
        return f"{asked}run fewer episodes at once or raise the limit"
    if fault.status == 200:
        return "is this an OpenAI-compatible endpoint?"
    if fault.status is not None and fault.status >= 500:
        return "see the endpoint's own log"
    return "change what it names in the model's parameters, or the base URL"


def _params(given: Mapping[str, Any]) -> dict[str, Any]:
    taken = sorted(_OWN_FIELDS & given.keys())
    if taken:
        raise InvalidArgument(f"{', '.join(taken)} cannot be a parameter of the model; the agent fills it in")
    try:
        json.dumps(given, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"the model's parameters are not JSON ({error}); pass finite numbers and text") from error
    return dict(given)


def _key(api_key: str | None) -> str | None:
    """The key without the newline of the file it came from; never shown, not even to say what is wrong with it."""
    key = (api_key or "").strip()
    if not (key.isascii() and key.isprintable()):
        raise InvalidArgument("the API key holds characters that no HTTP header can carry; copy it again")
    return key or None
