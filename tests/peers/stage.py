"""An environment and a model for rollouts that are cut short: what a rollout does is in the name of its model.

`say`: says it and submits. `sleep`: calls a tool that takes a minute. `nap`: one that takes a second, and submits.
`slow`: is silent for a minute. `waste`: calls a tool that there is not, for ever. `down`: answers HTTP 500.
`talk`: never calls a tool. `wake`: ends whatever sleeps. `mend`: lets the graders work that fail. `friend`: says yes.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import requests
from modelserver import ModelServer, Reply, answer, serving
from troubled import Troubled

from miroir.serve import Grade, running

LONG_S = 60.0
TRICKY = {
    "type": "object",
    "properties": {
        "who": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "a": {"$ref": "#/$defs/Ä", "description": "the first – really"},
    },
    "required": ["a"],
    "$defs": {"Ä": {"enum": [1, 1.5, "x"]}},
    "additionalProperties": False,
}
_asleep = threading.Condition()
_nights = 0


def wake() -> None:
    """End whatever sleeps."""
    global _nights
    with _asleep:
        _nights += 1
        _asleep.notify_all()


def sleep(seconds: float) -> None:
    """Sleep so long, unless woken."""
    with _asleep:
        night = _nights
        _asleep.wait_for(lambda: _nights != night, seconds)


class Stage(Troubled):
    """Troubled, with graders that can be mended and a tool whose schema is easily spoilt."""

    mended = False

    def splits(self):
        return {"train": "train", "one": "train", "empty": "train", "asked": "train"}

    def tasks(self, split):
        ids = {"train": ["a", "b", "c", "d", "bad-grade"], "one": ["a"], "empty": [], "asked": ["ask-first"]}[split]
        people = {"coworkers": ["Ann"]} if split == "asked" else {}
        return [{"id": i, "task_hash": f"hash-{i}", "instruction": f"Do {i}.", "max_steps": 50, **people} for i in ids]

    def tools(self, surface):
        tricky = {"name": "tricky", "description": "„Tricky“", "inputSchema": TRICKY}
        return [tricky, *super().tools(surface)]

    def sleep(self, seconds):
        sleep(seconds)
        return "slept"

    def grade(self):
        return Grade(1.0, True) if Stage.mended else super().grade()


def script(body: dict[str, Any]) -> Reply:
    """What the model says."""
    model, turns = body["model"], sum(message["role"] == "tool" for message in body["messages"])
    if model == "wake":
        wake()
    if model == "mend":
        Stage.mended = True
    if model == "slow":
        sleep(LONG_S)
    if model in ("friend", "talk"):
        return Reply(answer("Yes."))
    if model == "down":
        return Reply({"error": {"message": "no model today"}}, 500)
    calls = {
        "sleep": ("sleep", {"seconds": LONG_S}),
        "nap": ("sleep", {"seconds": 1.0}),
        "waste": ("fly", {}),
    }
    first = calls.get(model, ("say", {"text": "hi"}))
    call = first if turns == 0 or model == "waste" else ("submit", {})
    return Reply(answer(calls=[call]))


@contextlib.contextmanager
def staged(containers: int, sessions: int) -> Iterator[tuple[list[str], ModelServer]]:
    """So many containers of so many sessions, one more of a single session, and the model."""
    Stage.mended = False
    with contextlib.ExitStack() as stack:
        slots = [*[sessions] * containers, 1]
        urls = [stack.enter_context(running(Stage, max_sessions=count)) for count in slots]
        model = stack.enter_context(serving(script))
        stack.callback(wake)
        yield urls, model


def active(urls: list[str]) -> int:
    """How many sessions the containers have now, calls that outlive theirs included."""
    return sum(requests.get(f"{url}/health", timeout=5).json()["sessions"]["active"] for url in urls)
