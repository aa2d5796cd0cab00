"""A trivial environment: it adds two integers, as a peer of OpenEnv's does in the measurements."""

from __future__ import annotations

from miroir.serve import Environment, Grade

NUMBER = {"type": "integer"}


class Adder(Environment):
    """One tool."""

    name = "adder"

    def tasks(self, split):
        return [{"id": "sum", "task_hash": "1", "instruction": "Add.", "max_steps": 1_000_000}]

    def tools(self, surface):
        schema = {"type": "object", "properties": {"a": NUMBER, "b": NUMBER}, "required": ["a", "b"]}
        return [{"name": "add", "description": "Add two integers.", "inputSchema": schema}]

    def reset(self, task, *, episode_id, seed, max_seconds, coworkers, surface):
        return {"task": task["id"]}

    def call(self, tool, arguments):
        return {"result": arguments["a"] + arguments["b"]}

    def grade(self):
        return Grade(1.0, True)
