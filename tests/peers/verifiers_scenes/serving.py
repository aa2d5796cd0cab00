"""Rollouts for others: verifiers' own environment, a trainer's client, an evaluation and its next day, many at once."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import verifiers.v1 as vf
from verifiers.v1.cli.eval.runner import run_eval
from verifiers.v1.configs.cli.eval import EvalConfig
from verifiers.v1.serve.client import EnvClient
from verifiers.v1.serve.pool import env_config_data
from verifiers.v1.serve.server import EnvServer

from miroir import catalog
from miroir_verifiers.cancelling import waited
from miroir_verifiers.rollout import Rollout

from .environment import CLIENT, config, context, environment, run, told
from .fleet import MODEL, OUT, URLS, held, say, until, wake


async def foreign() -> dict[str, Any]:
    """Rollouts of one task object in verifiers' own environment, and a check of tasks without a model."""
    env = environment({**config(URLS, "train"), "id": "single-agent"})
    async with env.serving():
        tasks = {task.data.id: task for task in env.taskset}
        slots = env.slots(tasks["a"], 8)
        episodes = await asyncio.gather(*(env.run_slot(slot, context("say")) for slot in slots))
        valid = {name: await tasks[name].validate(None) for name in ("a", "bad-grade")}
    return {"env": type(env).__name__, "ok": [episode.ok for episode in episodes], "valid": valid, "held": held(URLS)}


async def served() -> dict[str, Any]:
    """The way of prime-rl: a server, a client that sends tasks, a cancellation, a wrong configuration."""
    good = vf.resolve_env_config(config(URLS))
    wrong = vf.resolve_env_config(config(["http://127.0.0.1:9"]))
    task = next(iter(vf.load_taskset(good.taskset))).data.model_dump()
    report: dict[str, Any] = {}
    for name, settings in {"good": good, "wrong": wrong}.items():
        server = EnvServer(vf.resolve_env_config(env_config_data(settings)), "tcp://127.0.0.1:0")  # as a pool sends it
        serving = asyncio.create_task(server.run())
        client = EnvClient(server.address)
        await client.wait_for_server_startup(interval=0.1)
        episodes = await asyncio.gather(*(_asked(client, task, "say") for _ in range(3)))
        report[name] = [told(episode) for episode in episodes]
        if name == "good":
            again = (await _asked(client, task, "say")).task.data.model_dump(exclude_unset=True)
            report |= {"same": again["row"] == task["row"], "freed_s": await _cancelled(client, task)}
        await client.close()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
    return report


async def _asked(client: EnvClient, task: dict[str, Any], model: str) -> Any:
    """An episode of the task, played by a server."""
    return await client.run(vf.EvalClientConfig(**CLIENT), model, vf.SamplingConfig(), task)


async def _cancelled(client: EnvClient, task: dict[str, Any]) -> float:
    """How many seconds a rollout that is cancelled in a step keeps its lease."""
    running = asyncio.create_task(_asked(client, task, "sleep"))
    await until(lambda: held(URLS) == 1)
    await asyncio.sleep(0.7)
    running.cancel()
    freed_s = await until(lambda: held(URLS) == 0)
    wake()
    return freed_s


async def befriended() -> dict[str, Any]:
    """A rollout whose coworkers are played by a model."""
    friends = {"coworker_model": "friend", "coworker_base_url": MODEL, "coworker_api_key_env": "FRIENDS_KEY"}
    return await run(config(URLS, "asked", **friends), "say", URLS)


class Tomorrow(datetime):
    """A clock that is a day ahead."""

    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        """This moment, a day later."""
        return datetime.now(tz) + timedelta(days=1)


async def evaluated() -> dict[str, Any]:
    """`run_eval` of twenty rollouts of five tasks, one of them void; then what it owes, on the next day."""
    data = {
        "env": config(URLS, split="train", traces=OUT / "records"),
        "run": {"name": "evaluated"},
        "model": "say",
        "client": CLIENT,
        "num_rollouts": 4,
        "push": False,
        "rich": None,
        "output_dir": OUT / "evals",
    }
    first = await run_eval(EvalConfig.model_validate(data))
    report = {
        "ok": sum(episode.ok for episode in first),
        "errors": [told(one)["errors"] for one in first if not one.ok],
    }
    say("mend")
    catalog.datetime = Tomorrow  # type: ignore[misc]
    again = await run_eval(EvalConfig.model_validate({**data, "resume": True}))
    catalog.datetime = datetime  # type: ignore[misc]
    kept = {episode.id for episode in first} & {episode.id for episode in again}
    return {**report, "again_ok": sum(episode.ok for episode in again), "kept": len(kept)}


async def napping() -> dict[str, Any]:
    """Two hundred steps of a second at once, and how late the event loop is meanwhile (in seconds)."""
    env = environment(config(URLS))
    settings, task = env.config.taskset.task.settings(), next(iter(env.taskset))
    rollouts = [Rollout(task.row, settings) for _ in range(200)]
    await asyncio.gather(*(waited(rollout, rollout.begin) for rollout in rollouts))
    lags: list[float] = []

    async def watch() -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.005)
            lags.append(time.monotonic() - began - 0.005)

    watching = asyncio.create_task(watch())
    began = time.monotonic()
    nap = {"seconds": 1.0}
    await asyncio.gather(*(waited(rollout, partial(rollout.step, "sleep", nap)) for rollout in rollouts))
    took_s = time.monotonic() - began
    watching.cancel()
    await asyncio.gather(*(waited(rollout, rollout.close) for rollout in rollouts))
    return {"took_s": took_s, "lag_p99_s": sorted(lags)[int(0.99 * len(lags))], "held": held(URLS)}
