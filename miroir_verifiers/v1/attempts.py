"""A rollout's attempts at its task, as the bridge serves them to harnesses that speak MCP."""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial
from typing import Any

import verifiers.v1 as vf

from miroir.wire import Tool

from ..threads import threads
from .task import rollout_of


class Attempts:
    """The traces of a rollout's attempts; what is served is the episode of the last."""

    def __init__(self) -> None:
        self.traces: list[vf.Trace] = []

    def tools(self) -> list[Tool]:
        """The tools of the episode."""
        return list(rollout_of(self.traces[-1]).tools)

    def call(self, name: str, arguments: dict[str, Any]) -> Future[str]:
        """Call a tool in a thread: the text that it gives."""
        return threads.submit(partial(rollout_of(self.traces[-1]).answer, name, arguments))

    def turn(self) -> tuple[str, int]:
        """The attempt, and how often its model has spoken."""
        trace = self.traces[-1]
        return trace.id, trace.num_turns

    def redact(self, key: str) -> None:
        """Take the key of the tools' server out of the errors, where a harness may have written its address."""
        for error in (error for trace in self.traces for error in trace.errors):
            error.message = error.message.replace(key, "…")
            error.traceback = error.traceback and error.traceback.replace(key, "…")
