"""An environment in which everything can go wrong: what does, is in the task's name or in the tool that is called."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from miroir.serve import Check, Environment, Grade, ToolError, UnknownCoworker, running

TASKS: dict[str, dict[str, Any]] = {
    "plain": {},
    "short": {"max_steps": 2},
    "narrow": {"tools": ["say"]},
    "bad-reset": {},
    "bad-grade": {},
    "no-reward": {},
    "ask": {"coworkers": ["Ann"]},
    "ask-first": {"coworkers": ["Ann"]},
    "bad-phone": {"coworkers": ["Ann"]},
    "scripted": {"coworkers": ["Ann"], "coworkers_scripted": True},
}


class Troubled(Environment):
    """`say` counts towards the grade: one is success."""

    name = "troubled"
    version = "3"
    surfaces = ("api", "mcp")

    def splits(self):
        return {"train": "train", "eval": "validation"}

    def tasks(self, split):
        rows = TASKS if split == "train" else {"held-out": {}}
        return [{"id": i, "task_hash": f"hash-{i}", "instruction": f"Do {i}.", **row} for i, row in rows.items()]

    def tools(self, surface):
        names = ("say", "ask", "refuse", "boom", "sleep", "where")
        return [{"name": name, "description": name, "inputSchema": {"type": "object"}} for name in names]

    def reset(self, task, *, episode_id, seed, max_seconds, coworkers, surface, mood="good"):
        if task["id"] == "bad-reset":
            raise RuntimeError("no world today")
        self.task, self.said, self.mood = task["id"], 0, mood
        self.modelled = coworkers
        self.owed = ["Ann"] if task["id"] in ("ask-first", "bad-phone") else []
        return {"hello": "there", "mood": mood}

    def call(self, tool, arguments):
        return getattr(self, tool)(**arguments)

    def say(self, text="yes"):
        self.said += 1
        return {"said": text}

    def ask(self):
        self.owed = ["Ann"] if self.modelled else []
        return "asked" if self.modelled else "Ann says 42"

    def refuse(self):
        raise ToolError("not today")

    def boom(self):
        raise RuntimeError("a pipe burst")

    def sleep(self, seconds, mark=None):
        time.sleep(seconds)
        if mark is not None:
            Path(mark).write_text(str(time.time()))
        return "slept"

    def where(self):
        return {"pid": os.getpid()}

    def coworker_turns(self):
        if self.task == "bad-phone":
            raise RuntimeError("the phone is dead")
        return [{"coworker": name, "messages": [{"role": "user", "content": "the code?"}]} for name in self.owed]

    def coworker_reply(self, coworker, text):
        if coworker not in self.owed:
            raise UnknownCoworker(f"{coworker} owes nothing")
        self.owed.remove(coworker)
        return 200

    def grade(self):
        if self.task == "bad-grade":
            raise RuntimeError("no grader today")
        if self.task == "no-reward":
            return Grade(None, False)
        return Grade(float(self.said == 1), self.said == 1, [Check("said", self.said == 1, f"{self.said} times")])


class Closed(Troubled):
    """Its resets fail, whatever the task."""

    def reset(self, task, *, episode_id, seed, max_seconds, coworkers, surface, mood="good"):
        raise RuntimeError("the disk is full")


class Broken(Troubled):
    """Its resets work and its tools do not."""

    def call(self, tool, arguments):
        raise RuntimeError("the disk is full")


@contextlib.contextmanager
def served(*environments: Callable[[], Environment], token: str | None = None) -> Iterator[list[str]]:
    """A server of each environment: their base URLs."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(running(environment, token=token)) for environment in environments]
