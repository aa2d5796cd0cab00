"""One session's exchanges of frames: faults become errors, and the first that ends the session is there for good."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import Any

from .. import wire
from ..errors import ConnectionLost, EnvError, InvalidArgument, MiroirError, StepTimeout
from ..transport import LinkClosed, LinkTimeout, Transport


class Dialogue:
    """Asks and answers over one connection, one call at a time; further calls queue.

    `episode_id` and `step` say in errors where the episode was.
    """

    def __init__(self, transport: Transport) -> None:
        self.episode_id: str | None = None
        self.step = 0
        self._transport = transport
        self._url = transport.url
        self._calls = threading.Lock()  # held by the call that is running
        self._pid = os.getpid()
        self._end: MiroirError | None = None
        self._asked_at = time.monotonic()

    @property
    def inherited(self) -> bool:
        """Whether this is a forked child, to which the connection does not belong."""
        return self._pid != os.getpid()

    @property
    def ended(self) -> bool:
        """Whether no further call can succeed."""
        return self._end is not None

    def call(self) -> threading.Lock:
        """What a call of the session's user holds while it runs; ConnectionLost in a forked child."""
        if self._pid != os.getpid():
            raise ConnectionLost(
                f"the session on {self._url} belongs to the process that leased it; lease one in this process",
                url=self._url,
                episode_id=self.episode_id,
                step=self.step,
            )
        return self._calls

    def check(self) -> None:
        """Raise the error that ended the session, if one did."""
        if self._end is not None:
            raise self._end.with_traceback(None)

    @property
    def idle_s(self) -> float:
        """For how many seconds nothing has been asked; 0 while a call runs."""
        return 0.0 if self._calls.locked() else time.monotonic() - self._asked_at

    def ping(self, frame: dict[str, Any], expected: str, timeout_s: float) -> None:
        """Ask for the sake of asking, unless a call runs; what ends the session is raised by the next call."""
        if self._calls.acquire(blocking=False):
            try:
                with contextlib.suppress(MiroirError):
                    self.ask(frame, expected, timeout_s)
            finally:
                self._calls.release()

    def ask(self, frame: dict[str, Any], expected: str, timeout_s: float) -> dict[str, Any]:
        """The data of the reply of type `expected`; an error frame becomes an EnvError."""
        self.check()
        self._asked_at = time.monotonic()
        try:
            reply = self._transport.exchange(frame, timeout_s)
        except LinkTimeout as error:
            message = f"{self.where()}: {error}; the session is broken and its episode void, lease another"
            raise self._ended(StepTimeout(message, url=self._url, timeout_s=timeout_s)) from error
        except LinkClosed as error:
            raise self._ended(self._lost(str(error))) from error
        except InvalidArgument:
            raise  # found before anything was sent
        except BaseException:
            self._ended(self._lost("a call was interrupted while its reply was owed"))
            raise
        data = reply.get("data")
        if reply.get("type") == expected and isinstance(data, dict):
            return data
        raise self._fault(reply, expected)

    def close(self) -> tuple[bool, bool]:
        """End the dialogue, waking a call that is running; whether none was, and whether it had not ended before."""
        error = ConnectionLost(
            f"the session on {self._url} was closed; lease another",
            url=self._url,
            episode_id=self.episode_id,
            step=self.step,
        )
        sound = self._ended(error) is error
        idle = not self._calls.locked()  # and a call that begins now raises
        if not idle:
            self._transport.close()
        return idle, sound

    def lose(self, why: str) -> MiroirError:
        """End the session, whose server no longer has its world; the error to raise."""
        self._transport.abort(why)
        return self._ended(self._lost(why))

    def where(self) -> str:
        """The container, episode and number of steps done, for messages."""
        return f"{self._url}, episode {self.episode_id}, step {self.step}"

    def _fault(self, reply: dict[str, Any], expected: str) -> MiroirError:
        data = reply.get("data")
        if wire.ends_session(reply) and isinstance(data, dict):
            why = f"the server ended the session with {data['code']}: {data.get('message')}"
        elif reply.get("type") == "error" and isinstance(data, dict):
            return self._env_error(data)
        else:
            why = f"it answered a frame of type {reply.get('type')!r} where {expected!r} was owed"
        return self.lose(why)

    def _env_error(self, data: dict[str, Any]) -> EnvError:
        errors = data.get("errors")
        details = f" ({wire.encode(errors)[:2000]})" if errors else ""
        where = self._url if self.episode_id is None else self.where()
        return EnvError(
            str(data.get("code") or wire.SESSION_ERROR),
            f"{where}: {data.get('message') or 'no message'}{details}",
            errors=errors if isinstance(errors, list) else None,
            url=self._url,
        )

    def _ended(self, error: MiroirError) -> MiroirError:
        if self._end is None:
            self._end = error
        return self._end

    def _lost(self, why: str) -> ConnectionLost:
        return ConnectionLost(
            f"{self.where()}: {why}; the episode is void, lease another session",
            url=self._url,
            episode_id=self.episode_id,
            step=self.step,
        )
