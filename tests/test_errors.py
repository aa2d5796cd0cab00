"""Every kind of error: its code, its bases, its text, and that it survives pickling."""

from __future__ import annotations

import copy
import pickle

import pytest

from miroir import errors
from miroir.errors import (
    ConnectionFailed,
    ConnectionLost,
    EnvError,
    HttpError,
    InvalidArgument,
    MiroirError,
    MissingExtra,
    ModelError,
    NoFreeContainer,
    RecordError,
    StepTimeout,
)

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, MiroirError) and not kind.__name__.startswith("_")
]
FULL = [
    MiroirError("SOME_CODE", "what happened; what to do"),
    NoFreeContainer("none", leased=3, unhealthy=2, refused=1),
    ConnectionFailed("no", url="http://h:1", status=403),
    ConnectionLost("gone", url="http://h:1", episode_id="e", step=7),
    StepTimeout("late", url="http://h:1", timeout_s=2.5),
    HttpError(503, "busy", url="http://h:1"),
    EnvError("VALIDATION_ERROR", "bad", errors=[{"loc": ["x"]}], url="http://h:1"),
    ModelError("down", status=500, retryable=True),
]


def made(kind: type[MiroirError]) -> MiroirError:
    """One of the kind, by its shortest constructor."""
    if kind is HttpError:
        return HttpError(404, "m")
    return kind("CODE", "m") if kind in (MiroirError, EnvError) else kind("m")  # type: ignore[call-arg]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_kind_pickles(kind: type[MiroirError], protocol: int) -> None:
    """An error crosses processes whole: kind, code, message and fields."""
    error = made(kind)
    back = pickle.loads(pickle.dumps(error, protocol))

    assert type(back) is kind
    assert (back.code, back.message, str(back), vars(back)) == (error.code, error.message, str(error), vars(error))


@pytest.mark.parametrize("error", FULL, ids=lambda error: type(error).__name__)
def test_fields_survive(error: MiroirError) -> None:
    """What an error carries beside its text is there after pickling and copying."""
    for back in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert vars(back) == vars(error)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_text_is_code_and_message(kind: type[MiroirError]) -> None:
    """An error reads `CODE: message`, and its code is in capitals."""
    error = made(kind)

    assert str(error) == f"{error.code}: {error.message}"
    assert error.code == error.code.upper()


@pytest.mark.parametrize(
    ("kind", "base"),
    [
        (InvalidArgument, ValueError),
        (RecordError, ValueError),
        (NoFreeContainer, TimeoutError),
        (StepTimeout, TimeoutError),
        (ConnectionFailed, ConnectionError),
        (ConnectionLost, ConnectionError),
        (MissingExtra, ImportError),
    ],
)
def test_kinds_are_builtins_too(kind: type[MiroirError], base: type[Exception]) -> None:
    """Code that knows only Python's own errors can catch them."""
    assert issubclass(kind, base)


def test_the_docstring_lists_every_kind() -> None:
    """The table at the top of the module is complete."""
    assert errors.__doc__ is not None
    assert [kind.__name__ for kind in KINDS if kind.__name__ not in errors.__doc__] == []
