"""A task staged: its world, its situation, its state at the start, and its row in the list of tasks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from ...wire import Task
from . import background, clock, grading
from .draw import Draw
from .stage import Stage
from .tasks import TEMPLATES
from .tasks.template import Situation, Template
from .world import Snapshot, World

SEEDS = {"train": (1, 2, 3), "eval": (4,)}

_STEPS_PER_CALL = 3  # how many tool calls an agent has for each of the reference solution


@dataclass(frozen=True)
class Scene:
    """One task, ready to be played: `start` is its world before anything happens, `me` whom the agent acts as."""

    template: Template
    situation: Situation
    task: Task
    me: str
    now: datetime
    start: Snapshot

    def world(self) -> World:
        """A fresh copy of the world."""
        world = World(self.now, Draw("new ids", self.task["id"]))
        world.load(self.start)
        return world


@cache
def scenes() -> Mapping[str, Scene]:
    """Every task's scene by the task's id."""
    built = [_build(template, seed, split) for split in SEEDS for template in TEMPLATES for seed in SEEDS[split]]
    return {scene.task["id"]: scene for scene in built}


def _build(template: Template, seed: int, split: str) -> Scene:
    stage = Stage(template.name, seed, template.team)
    background.fill(stage)
    situation = template.stage(stage)
    start = stage.world.snapshot()
    stage.world.close()
    persona = stage.me
    where = f"{persona['title']} at {stage.company.name}, {persona['office']} (UTC{persona['utc_offset']})"
    today = f"In the office it is {clock.spoken(stage.now.date())}, 09:00 UTC."
    task: Task = {
        "id": f"{template.name}-{seed}",
        "task_hash": "",
        "instruction": f"{situation.instruction}\n\n{today}",
        "persona": {"name": persona["name"], "description": f"{where}, e-mail {persona['id']}"},
        "coworkers": [coworker.name for coworker in situation.coworkers],
        "coworkers_scripted": True,
        "max_steps": template.calls * _STEPS_PER_CALL,
        "split": split,
        "tags": [f"level-{template.level}", template.name],
    }
    task["task_hash"] = _hash(task, situation, start)
    return Scene(template, situation, task, persona["id"], stage.now, start)


def _hash(task: Task, situation: Situation, start: Snapshot) -> str:
    """SHA-256 over all that decides the episode: the task's row, the world, who answers what, and the grading."""
    judged = repr((situation.goals, situation.allowed, situation.coworkers, grading.VERSION))
    everything = json.dumps([task, start, judged])
    return hashlib.sha256(everything.encode()).hexdigest()
