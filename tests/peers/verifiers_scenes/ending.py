"""Rollouts that end otherwise than by their model: by limits, by failures, by settings that cannot work."""

from __future__ import annotations

import asyncio
from typing import Any

from miroir.errors import MiroirError
from miroir_verifiers import load_environment

from .cancelling import Rollouts
from .environment import config, context, environment, run, told
from .fleet import ALONE, OUT, URLS, held, until, wake


async def by_limits() -> dict[str, Any]:
    """An agent's timeout in a step and in the model, a limit of turns, a setup's timeout, a model that is down."""
    short = {"timeout": {"rollout": 1.0}}
    return {
        "step": await run(config(URLS, agent=short), "sleep", URLS),
        "model": await run(config(URLS, agent=short, traces=OUT / "timeout"), "slow", URLS),
        "turns": await run(config(URLS, agent={"max_turns": 3}), "waste", URLS),
        "down": await run(config(URLS, traces=OUT / "down"), "down", URLS),
        "said": await run(config(URLS), "say", URLS),
        "setup": await _late(),
    }


async def _late() -> dict[str, Any]:
    """What a rollout came to whose setup timed out while another one had the only container."""
    env = environment(config([ALONE]))
    async with env.serving():
        rollouts = Rollouts(env, [ALONE])
        (first,) = rollouts.start("slow", 1)
        await until(lambda: held([ALONE]) == 1)
        late = environment(config([ALONE], agent={"timeout": {"setup": 0.5}}))
        async with late.serving():
            (slot,) = late.slots(rollouts.task)
            report = told(await late.run_slot(slot, context("say")))
        await rollouts.cancelled([first])
    wake()
    return report


async def retried() -> dict[str, Any]:
    """A void episode is played again."""
    rules = {"retries": {"max_retries": 2, "rules": [{"type": "SandboxError", "message": "^VOID", "max_retries": 2}]}}
    env = environment(config(URLS, split="train", agent=rules, traces=OUT / "retried"))
    async with env.serving():
        task = next(task for task in env.taskset if task.data.id == "bad-grade")
        (slot,) = env.slots(task)
        episode = await env.run_slot(slot, context("say"))
        await until(lambda: held(URLS) == 0, 2.0)
    return told(episode)


async def faults() -> dict[str, str]:
    """What is said of settings that cannot work."""
    said = {}
    for name, options in {
        "nothing": {},
        "unknown": {"urls": URLS, "max_turns": 3},
        "preset": {"preset": "nope"},
        "half": {"urls": URLS, "coworker_model": "m"},
        "variable": {"urls": URLS, "token_env": "NOT_THERE"},
        "empty": {"urls": URLS, "split": "empty"},
        "unreachable": {"urls": ["http://127.0.0.1:9"]},
    }.items():
        try:
            await asyncio.to_thread(lambda options=options: list(load_environment(**options).taskset))
        except MiroirError as error:
            said[name] = str(error)
    return said
