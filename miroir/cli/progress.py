"""How far a run is, on stderr: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..run import Progress

LINE_EVERY_S = 5.0


@contextlib.contextmanager
def shown() -> Iterator[Callable[[Progress], None]]:
    """A function that shows progress, until the block ends."""
    bar = _bar() if sys.stderr.isatty() else None
    if bar is None:
        yield _Lines()
        return
    with bar:
        yield lambda now: _move(bar, now)


def _bar() -> Any:
    try:
        tqdm = importlib.import_module("tqdm")
    except ImportError:  # the extra `cli`
        return None
    return tqdm.tqdm(unit="rollout", dynamic_ncols=True, file=sys.stderr)


def _move(bar: Any, now: Progress) -> None:
    bar.total, bar.n = now.total, now.done
    bar.set_postfix(success=now.successes, void=now.void, refresh=True)


class _Lines:
    """A line at most every five seconds, and one at the end; none where there is nothing to do."""

    def __init__(self) -> None:
        self._next_s = LINE_EVERY_S

    def __call__(self, now: Progress) -> None:
        if not now.total or (now.done < now.total and now.elapsed_s < self._next_s):
            return
        self._next_s = now.elapsed_s + LINE_EVERY_S
        left = f", {now.left_s:.0f} s left" if now.left_s else ""
        print(
            f"{now.done}/{now.total} rollouts, {now.successes} successful, {now.void} void, "
            f"{now.rate:.1f} a second{left}",
            file=sys.stderr,
        )
