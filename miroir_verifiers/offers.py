"""What a fleet offers: its tasks and tools, asked once for all rollouts of this process."""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable, Sequence
from concurrent.futures import Future
from functools import partial

from miroir import catalog
from miroir.calibrate import calibrated
from miroir.coworkers import answerable
from miroir.deadlines import Deadlines
from miroir.episode import Setting
from miroir.errors import InvalidArgument
from miroir.run.offer import Offer
from miroir.wire import Task, submits

from .settings import Settings

WAIT_S = 10.0  # for a first container that is alive

_offers: dict[Hashable, Future[Offer]] = {}
_lock = threading.Lock()  # guards the table


def _begin_anew() -> None:
    global _lock
    _lock = threading.Lock()
    _offers.clear()  # whoever was asking is in the parent


os.register_at_fork(after_in_child=_begin_anew)


def offer(settings: Settings) -> Offer:
    """The fleet's offer, for which one thread asks while the others wait; ConnectionFailed where no container is alive.

    What fails is asked again by whoever comes later.
    """
    key = (settings.source.key, settings.token_env, settings.surface)
    with _lock:
        mine = key not in _offers
        offered = _offers.setdefault(key, Future())
    if mine:
        try:
            url = catalog.first_alive(settings.source.read(), settings.token, wait_s=WAIT_S)
            offered.set_result(Offer.of(url, settings.token, settings.surface))
        except BaseException as error:
            with _lock:
                del _offers[key]
            offered.set_exception(error)
    return offered.result()


def setting(settings: Settings) -> Setting:
    """What the fleet's episodes have in common."""
    return offer(settings).setting(settings.surface, settings.max_seconds, settings.coworker_model, Deadlines())


def tasks(
    settings: Settings, calibration: str | os.PathLike[str] | None = None, keep: Sequence[str] = ("learnable",)
) -> list[Task]:
    """The split's tasks that can be played, of those classes where a calibration is given; InvalidArgument for none."""
    listed = offer(settings).tasks([settings.split])
    narrow = partial(calibrated, path=calibration, keep=keep) if calibration else list
    playable = answerable(narrow(listed), settings.coworker_model is not None)
    if not playable:
        raise InvalidArgument(
            f"the split {settings.split!r} has no task to play ({len(listed)} are listed); "
            "name another split or other classes, or a coworker model"
        )
    return playable


def instructions(settings: Settings, task: Task) -> str:
    """What a model is told of the task before its episode has begun: no date, so that it is the same tomorrow."""
    return catalog.instructions(task, submit=submits(offer(settings).tools))
