"""Every error that miroir raises: one base, a named kind for each thing that can be acted on.

MiroirError(code, message)
  InvalidArgument     a bad argument (also a ValueError)
  UrlFileError        URL_FILE
  NoFreeContainer     NO_FREE_CONTAINER (also a TimeoutError)
  ConnectionFailed    CONNECTION_FAILED (also a ConnectionError)
  ConnectionLost      CONNECTION_LOST (also a ConnectionError)
  DescriptorLimit     DESCRIPTOR_LIMIT: this process may not open the files that its sessions need
  StepTimeout         STEP_TIMEOUT (also a TimeoutError)
  NoEpisode           NO_EPISODE
  NotGraded           NOT_GRADED
  ToolsError          TOOLS
  CoworkerFailed      COWORKER_FAILED
  HttpError           HTTP_<status>
  EnvError            an error frame of the environment, with its own code
  ModelError          MODEL: the model's endpoint failed
  ContextFull         MODEL_CONTEXT (also a ModelError): the conversation has outgrown the model's context
  RecordError         RECORD (also a ValueError): a record or trace file that cannot be read or written
  ContainerPoolError  CONTAINER_POOL (also a RuntimeError): containers could not be started or kept
  AppWorldError       APPWORLD (also a RuntimeError): an AppWorld server failed, or answered what cannot be read
  AppWorldDataError   APPWORLD_DATA (also a FileNotFoundError): a data root that is missing or incomplete
  MissingExtra        MISSING_EXTRA (also an ImportError): a part of miroir that is not installed
"""

from __future__ import annotations

from typing import Any


class MiroirError(Exception):
    """What went wrong, as a constant `code` in capitals and a `message` that says what to do."""

    code: str
    message: str

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    def __reduce__(self) -> tuple[Any, ...]:
        # OSError, one of the bases of some kinds, would rebuild itself from args alone and lose the fields.
        return _restore, (type(self), self.args, dict(self.__dict__))


def _restore(kind: type[MiroirError], args: tuple[Any, ...], fields: dict[str, Any]) -> MiroirError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(fields)
    return error


class _Coded(MiroirError):
    """A kind whose code is fixed: it is made from its message alone."""

    CODE = ""

    def __init__(self, message: str) -> None:
        MiroirError.__init__(self, self.CODE, message)


class InvalidArgument(_Coded, ValueError):
    """An argument that cannot work, found before anything was sent."""

    CODE = "INVALID_ARGUMENT"


class UrlFileError(_Coded):
    """A URL file that is unreadable, holds a line that is no base URL, or holds none."""

    CODE = "URL_FILE"


class NoFreeContainer(_Coded, TimeoutError):
    """No container could be leased in time.

    `leased`, `unhealthy` and `refused` count the fleet's containers by state when the waiting ended.
    """

    CODE = "NO_FREE_CONTAINER"

    def __init__(self, message: str, *, leased: int = 0, unhealthy: int = 0, refused: int = 0) -> None:
        super().__init__(message)
        self.leased = leased
        self.unhealthy = unhealthy
        self.refused = refused


class ConnectionFailed(_Coded, ConnectionError):
    """A server could not be reached, or refused the connection (`url`, and `status` where it answered)."""

    CODE = "CONNECTION_FAILED"

    def __init__(self, message: str, *, url: str = "", status: int | None = None) -> None:
        super().__init__(message)
        self.url = url
        self.status = status


class ConnectionLost(_Coded, ConnectionError):
    """A session's connection ended; its episode (`url`, `episode_id`, `step`) is void."""

    CODE = "CONNECTION_LOST"

    def __init__(self, message: str, *, url: str = "", episode_id: str | None = None, step: int = 0) -> None:
        super().__init__(message)
        self.url = url
        self.episode_id = episode_id
        self.step = step


class DescriptorLimit(_Coded):
    """This process may not open as many files as its sessions need; the message says how to raise the limit."""

    CODE = "DESCRIPTOR_LIMIT"


class StepTimeout(_Coded, TimeoutError):
    """A reply did not come before its deadline (`timeout_s` seconds); the session is broken."""

    CODE = "STEP_TIMEOUT"

    def __init__(self, message: str, *, url: str = "", timeout_s: float = 0.0) -> None:
        super().__init__(message)
        self.url = url
        self.timeout_s = timeout_s


class NoEpisode(_Coded):
    """A call that needs an episode came before `reset`."""

    CODE = "NO_EPISODE"


class NotGraded(_Coded):
    """An episode could not be ended and graded."""

    CODE = "NOT_GRADED"


class ToolsError(_Coded):
    """The environment answered a JSON-RPC error where its tools were asked for."""

    CODE = "TOOLS"


class CoworkerFailed(_Coded):
    """The model that plays coworkers failed, or the environment took none of its answers."""

    CODE = "COWORKER_FAILED"


class ModelError(_Coded):
    """The agent's model endpoint failed (`status` where it answered; `retryable` when a later try may work)."""

    CODE = "MODEL"

    def __init__(self, message: str, *, status: int | None = None, retryable: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.retryable = retryable


class ContextFull(ModelError):
    """The conversation no longer fits the model's context; the episode is submitted and graded as it stands."""

    CODE = "MODEL_CONTEXT"


class RecordError(_Coded, ValueError):
    """A record or a trace file that cannot be trusted: not readable, not writable, or not a record."""

    CODE = "RECORD"


class ContainerPoolError(_Coded, RuntimeError):
    """Containers that could not be started or kept; `log` holds the last lines of the one that failed."""

    CODE = "CONTAINER_POOL"

    def __init__(self, message: str, *, log: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.log = log


class AppWorldError(_Coded, RuntimeError):
    """An AppWorld server that failed or answered what cannot be read; `log` holds its last lines, where they help."""

    CODE = "APPWORLD"

    def __init__(self, message: str, *, log: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.log = log


class AppWorldDataError(_Coded, FileNotFoundError):
    """An AppWorld data root, or a part of it, that is not there."""

    CODE = "APPWORLD_DATA"


class MissingExtra(_Coded, ImportError):
    """A part of miroir whose extra is not installed; the message names the extra."""

    CODE = "MISSING_EXTRA"


class HttpError(MiroirError):
    """A server answered an HTTP error status; the code is HTTP_<status> and the message holds the body."""

    def __init__(self, status: int, message: str, *, url: str = "") -> None:
        super().__init__(f"HTTP_{status}", message)
        self.status = status
        self.url = url


class EnvError(MiroirError):
    """An error frame of the environment: its `code`, its message, and the details it gave in `errors`."""

    def __init__(self, code: str, message: str, *, errors: list[Any] | None = None, url: str = "") -> None:
        super().__init__(code, message)
        self.errors = errors or []
        self.url = url
