"""An environment that does what a test tells it to, well or ill."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import Any

from miroir.serve import (
    Check,
    Environment,
    Grade,
    Harm,
    InvalidOption,
    ToolError,
    ToolResult,
    UnknownCoworker,
    UnknownTask,
)

ANYTHING = {"type": "object"}
NAN = float("nan")


class Puppet(Environment):
    """Each tool is a method; `alive` counts the instances that are not closed."""

    name = "puppet"
    version = "7"
    description = "does as it is told"
    surfaces = ("api", "mcp")
    alive = 0

    def __init__(self) -> None:
        type(self).alive += 1
        self.thread = threading.current_thread().name
        self.held: dict[str, Any] = {"moves": []}
        self.owed: list[str] = []
        self.verdict: Any = Grade(0.5, True, [Check("half", True, "seen")], [], {"moves": 2})

    def splits(self):
        return {"train": "train", "eval": "validation"}

    def tasks(self, split):
        if split == "eval":
            return [{"id": "held-out", "task_hash": "h9", "instruction": "Be told more."}]
        rows: list[dict[str, Any]] = [
            {"id": "plain"},
            {"id": "short", "max_steps": 2},
            {"id": "narrow", "tools": ["say"]},
            {"id": "gone"},
        ]
        return [{"task_hash": "h1", "instruction": "Do as you are told.", **row} for row in rows]

    def tools(self, surface):
        if surface == "mcp":
            return [{"name": "grouped", "description": "", "inputSchema": ANYTHING}]
        words = {"type": "object", "properties": {"text": {}, "loud": {}}, "required": ["text"]}
        names = (
            "end",
            "give",
            "object",
            "refuse",
            "boom",
            "leave",
            "sleep",
            "work",
            "where",
            "keep",
            "owe",
            "grade_as",
        )
        free = [{"name": name, "description": name, "inputSchema": ANYTHING} for name in names]
        return [{"name": "say", "description": "Say it.", "inputSchema": words}, *free]

    def reset(self, task, *, episode_id, seed, max_seconds, coworkers, surface, mood="good"):
        if task["id"] == "gone":
            raise UnknownTask("the task is gone")
        if mood == "bad":
            raise InvalidOption("mood must not be bad")
        if mood == "broken":
            raise RuntimeError("no world today")
        task["instruction"] = "changed"
        return {"seed": seed, "max_seconds": max_seconds, "coworkers": coworkers, "surface": surface, "mood": mood}

    def call(self, tool, arguments):
        return getattr(self, tool)(**arguments)

    def say(self, text, loud=None):
        return str(text)

    def end(self):
        return ToolResult("the end", done=True)

    def give(self, value=0.25, wrong=False):
        return ToolResult({"value": value}, reward=NAN if value == "nan" else value, is_error=wrong)

    def object(self, kind):
        return {"nan": {"v": NAN}, "set": {"v": {1}}, "list": [1], "none": None, "keys": {1: (2, 3)}}[kind]

    def refuse(self):
        raise ToolError("not today", "out_of_office")

    def boom(self):
        raise RuntimeError("a pipe burst")

    def leave(self):
        sys.exit("gone")

    def sleep(self, seconds):
        time.sleep(seconds)
        return "slept"

    def work(self, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            pass
        return "worked"

    def where(self):
        return {"made": self.thread, "called": threading.current_thread().name}

    def keep(self, moves):
        self.held["moves"].append(moves.pop())
        return self.held

    def owe(self, coworker):
        self.owed.append(coworker)
        return "noted"

    def grade_as(self, how):
        harmed = Grade(1.0, True, [], [Harm("mail", "sent to all")])
        self.verdict = {"nan": Grade(NAN, True), "none": Grade(None, True), "harm": harmed, "odd": 3}.get(how, how)
        return "noted"

    def coworker_turns(self):
        if "nobody" in self.owed:
            raise RuntimeError("the phone is dead")
        return [{"coworker": name, "messages": [{"role": "user", "content": "well?"}]} for name in self.owed]

    def coworker_reply(self, coworker, text):
        if coworker not in self.owed:
            raise UnknownCoworker(f"{coworker} owes nothing")
        self.owed.remove(coworker)
        return 200

    def grade(self):
        if self.verdict == "raise":
            raise RuntimeError("no grader today")
        return self.verdict

    def close(self):
        type(self).alive -= 1


class Slow(Puppet):
    """A puppet that takes a minute to be made, and says so on stdout."""

    def __init__(self) -> None:
        print("being made", flush=True)
        time.sleep(60)


class Parent(Puppet):
    """A puppet that starts a process of its own, and says on stdout which."""

    def __init__(self) -> None:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        print(child.pid, flush=True)
        super().__init__()
