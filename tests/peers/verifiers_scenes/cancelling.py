"""Rollouts that are cancelled: in a step, in the model, while they wait for a container, at any moment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import verifiers.v1 as vf

from .environment import config, context, environment
from .fleet import active, held, stats, until, wake


class Rollouts:
    """Rollouts that are under way in an environment, all of its first task."""

    def __init__(self, env: vf.Env, urls: list[str]) -> None:
        self.env, self.urls = env, urls
        self.task = next(iter(env.taskset))

    def start(self, model: str, count: int) -> list[asyncio.Task[vf.Episode]]:
        """Begin so many."""
        slots = self.env.slots(self.task, count)
        return [asyncio.create_task(self.env.run_slot(slot, context(model))) for slot in slots]

    async def cancelled(self, tasks: list[asyncio.Task[Any]], times: int = 1) -> dict[str, Any]:
        """Cancel them so often; how long until all have ended, and until nothing is leased."""
        before, began = held(self.urls), time.monotonic()
        for _ in range(times):
            for task in tasks:
                task.cancel()
            await asyncio.sleep(0)
        done = await asyncio.gather(*tasks, return_exceptions=True)
        ended_s = time.monotonic() - began
        freed_s = ended_s + await until(lambda: held(self.urls) == 0)
        return {"before": before, "ended_s": ended_s, "freed_s": freed_s, "kinds": _kinds(done)}


Scene = Callable[[Rollouts], Awaitable[dict[str, Any]]]


async def staged(scene: Scene, urls: list[str]) -> dict[str, Any]:
    """Play a scene in an environment of its own."""
    env = environment(config(urls))
    async with env.serving():
        return await scene(Rollouts(env, urls))


async def in_a_step(rollouts: Rollouts) -> dict[str, Any]:
    """Cancelled once and twice while a tool takes a minute."""
    report = {}
    for times in (1, 2):
        tasks = rollouts.start("sleep", 8)
        await until(lambda: held(rollouts.urls) == 8)
        await asyncio.sleep(0.7)
        report[str(times)] = await rollouts.cancelled(tasks, times)
        wake()
        await until(lambda: active(rollouts.urls) == 0)
    return report


async def in_the_model(rollouts: Rollouts) -> dict[str, Any]:
    """Cancelled while the model is silent."""
    tasks = rollouts.start("slow", 8)
    await until(lambda: held(rollouts.urls) == 8)
    await asyncio.sleep(0.5)
    report = await rollouts.cancelled(tasks)
    wake()
    return report


async def while_leasing(rollouts: Rollouts) -> dict[str, Any]:
    """One has the only container, three wait for it."""
    (first,) = rollouts.start("slow", 1)
    await until(lambda: held(rollouts.urls) == 1)
    waiting = rollouts.start("say", 3)
    await until(lambda: stats(rollouts.urls)["requests_waiting"] == 3)
    began = time.monotonic()
    for task in waiting:
        task.cancel()
    done = await asyncio.gather(*waiting, return_exceptions=True)
    report = {"ended_s": time.monotonic() - began, "kinds": _kinds(done)}
    report["gone_s"] = await until(lambda: stats(rollouts.urls)["requests_waiting"] == 0)
    report["held"] = held(rollouts.urls)
    report["first"] = await rollouts.cancelled([first])
    wake()
    return report


async def at_any_moment(rollouts: Rollouts) -> dict[str, Any]:
    """Five hundred rollouts, nine of ten cancelled, each at another moment of its life."""
    before = stats(rollouts.urls)
    tasks = []
    for number in range(500):
        tasks += rollouts.start("say", 1)
        if number % 10:
            asyncio.get_running_loop().call_later(0.013 * (number % 47), tasks[-1].cancel)
        await asyncio.sleep(0.01)
    done = await asyncio.gather(*tasks, return_exceptions=True)
    freed_s = await until(lambda: held(rollouts.urls) == 0)
    await until(lambda: active(rollouts.urls) == 0)
    after = stats(rollouts.urls)
    kinds = [type(one).__name__ for one in done]
    return {
        "kinds": {kind: kinds.count(kind) for kind in _kinds(done)},
        "ok": sum(isinstance(one, vf.Episode) and one.ok for one in done),
        "freed_s": freed_s,
        "leases": after["requests_num"] - before["requests_num"],
    }


def _kinds(done: list[Any]) -> list[str]:
    """The kinds of what came of rollouts, sorted."""
    return sorted({type(one).__name__ for one in done})
