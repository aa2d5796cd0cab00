"""Rollouts under verifiers 0.4 that are cut short in every way, in one process; prints what came of them as JSON.

`python verifiers_v1.py URLS MODEL FOLDER [SCENE…]`: URLS is a JSON list of a stage's containers, the last of which has
a single session, and MODEL its model's base URL.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import requests
import verifiers.v1 as vf
from verifiers.v1.cli.eval.runner import run_eval
from verifiers.v1.clients import ModelContext
from verifiers.v1.configs.cli.eval import EvalConfig
from verifiers.v1.serve.client import EnvClient
from verifiers.v1.serve.pool import env_config_data
from verifiers.v1.serve.server import EnvServer

from miroir import catalog
from miroir.broker import shared
from miroir.deadlines import Deadlines
from miroir.errors import MiroirError
from miroir_verifiers import load_environment, offers
from miroir_verifiers.cancelling import waited
from miroir_verifiers.rollout import Rollout

*URLS, ALONE = json.loads(sys.argv[1])
MODEL, OUT = sys.argv[2], Path(sys.argv[3])
CLIENT = {"type": "eval", "base_url": MODEL, "api_key_var": "STUB_KEY"}
offers.WAIT_S = 1.0  # for a fleet that is not there


def config(urls: list[str], split: str = "one", agent: dict[str, Any] | None = None, **task: Any) -> dict[str, Any]:
    """The configuration of an environment."""
    taskset = {"id": "miroir_verifiers", "split": split, "task": {"urls": urls, **task}}
    return {"taskset": taskset, "agent": {"runtime": {"type": "subprocess"}, **(agent or {})}}


def context(model: str) -> ModelContext:
    return ModelContext(client=vf.EvalClientConfig(**CLIENT), model=model, sampling=vf.SamplingConfig())


def environment(data: dict[str, Any]) -> vf.Env:
    return vf.load_environment(vf.resolve_env_config(data))


def say(word: str) -> None:
    """Tell the stage to wake, or to mend."""
    requests.post(f"{MODEL}/chat/completions", json={"model": word, "messages": []}, timeout=10)


def wake() -> None:
    say("wake")


def stats(urls: list[str]) -> dict[str, Any]:
    return shared(list(urls), None, Deadlines()).stats()


def held(urls: list[str]) -> int:
    """How many leases this process has."""
    return sum(node["held"] for node in stats(urls)["urls"].values())


def active(urls: list[str]) -> int:
    return sum(requests.get(f"{url}/health", timeout=5).json()["sessions"]["active"] for url in urls)


async def until(condition: Callable[[], bool], within_s: float = 30.0) -> float:
    """How many seconds it took to become so."""
    began = time.monotonic()
    while not await asyncio.to_thread(condition):
        if time.monotonic() - began > within_s:
            raise TimeoutError("it did not become so")
        await asyncio.sleep(0.01)
    return time.monotonic() - began


class Under:
    """Rollouts that are under way in an environment."""

    def __init__(self, env: vf.Env, urls: list[str]) -> None:
        self.env, self.urls = env, urls
        self.task = next(iter(env.taskset))

    def start(self, model: str, count: int) -> list[asyncio.Task[vf.Episode]]:
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
        kinds = sorted({type(one).__name__ for one in done})
        return {"before": before, "ended_s": ended_s, "freed_s": freed_s, "kinds": kinds}


async def cancelled_in_a_step(under: Under) -> dict[str, Any]:
    """Cancelled once and twice while a tool takes a minute."""
    report = {}
    for times in (1, 2):
        tasks = under.start("sleep", 8)
        await until(lambda: held(under.urls) == 8)
        await asyncio.sleep(0.7)
        report[str(times)] = await under.cancelled(tasks, times)
        wake()
        await until(lambda: active(under.urls) == 0)
    return report


async def cancelled_in_the_model(under: Under) -> dict[str, Any]:
    tasks = under.start("slow", 8)
    await until(lambda: held(under.urls) == 8)
    await asyncio.sleep(0.5)
    report = await under.cancelled(tasks)
    wake()
    return report


async def cancelled_while_leasing(under: Under) -> dict[str, Any]:
    """One has the only container, three wait for it."""
    (first,) = under.start("slow", 1)
    await until(lambda: held(under.urls) == 1)
    waiting = under.start("say", 3)
    await until(lambda: stats(under.urls)["requests_waiting"] == 3)
    began = time.monotonic()
    for task in waiting:
        task.cancel()
    done = await asyncio.gather(*waiting, return_exceptions=True)
    report = {"ended_s": time.monotonic() - began, "kinds": sorted({type(one).__name__ for one in done})}
    report["gone_s"] = await until(lambda: stats(under.urls)["requests_waiting"] == 0)
    report["held"] = held(under.urls)
    report["first"] = await under.cancelled([first])
    wake()
    return report


async def cut_at_random(under: Under) -> dict[str, Any]:
    """Five hundred rollouts, most of them cancelled at some moment of their lives."""
    before = stats(under.urls)
    tasks = []
    for number in range(500):
        tasks += under.start("say", 1)
        if number % 10:
            asyncio.get_running_loop().call_later(0.013 * (number % 47), tasks[-1].cancel)
        await asyncio.sleep(0.01)
    done = await asyncio.gather(*tasks, return_exceptions=True)
    freed_s = await until(lambda: held(under.urls) == 0)
    await until(lambda: active(under.urls) == 0)
    after = stats(under.urls)
    kinds = [type(one).__name__ for one in done]
    return {
        "kinds": {kind: kinds.count(kind) for kind in sorted(set(kinds))},
        "ok": sum(isinstance(one, vf.Episode) and one.ok for one in done),
        "freed_s": freed_s,
        "leases": after["requests_num"] - before["requests_num"],
    }


def told(episode: vf.Episode) -> dict[str, Any]:
    trace = episode.traces[-1]
    return {
        "ok": trace.ok,
        "timeout": trace.is_timeout,
        "stop": trace.stop_condition,
        "errors": [[error.type, error.message] for error in trace.errors],
        "rewards": {name: reward.score for name, reward in trace.rewards.items() if reward},
        "info": trace.info.get("miroir"),
        "branches": len(trace.branches),
        "extra": [usage.model_dump(exclude_none=True) for usage in trace.extra_usage],
    }


async def run(data: dict[str, Any], model: str, urls: list[str]) -> dict[str, Any]:
    """One rollout of the split's first task; what it came to, and how many leases are left."""
    env = environment(data)
    async with env.serving():
        (slot,) = env.slots(next(iter(env.taskset)))
        episode = await env.run_slot(slot, context(model))
        await until(lambda: held(urls) == 0, 2.0)
    wake()
    await until(lambda: active(urls) == 0)
    return told(episode)


async def cut_by_limits() -> dict[str, Any]:
    """An agent's timeout in a step and in the model, a limit of turns, a setup's timeout, a model that is down."""
    short = {"timeout": {"rollout": 1.0}}
    report = {
        "step": await run(config(URLS, agent=short), "sleep", URLS),
        "model": await run(config(URLS, agent=short, traces=OUT / "timeout"), "slow", URLS),
        "turns": await run(config(URLS, agent={"max_turns": 3}), "waste", URLS),
        "down": await run(config(URLS, traces=OUT / "down"), "down", URLS),
        "said": await run(config(URLS), "say", URLS),
    }
    env = environment(config([ALONE]))
    async with env.serving():
        under = Under(env, [ALONE])
        (first,) = under.start("slow", 1)
        await until(lambda: held(under.urls) == 1)
        late = environment(config([ALONE], agent={"timeout": {"setup": 0.5}}))
        async with late.serving():
            (slot,) = late.slots(under.task)
            report["setup"] = told(await late.run_slot(slot, context("say")))
        await under.cancelled([first])
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
    report: dict[str, Any] = {}
    good = vf.resolve_env_config(config(URLS))
    tasks = [task.data.model_dump() for task in vf.load_taskset(good.taskset)]
    for name, settings in {"good": good, "wrong": vf.resolve_env_config(config(["http://127.0.0.1:9"]))}.items():
        sent = env_config_data(settings)  # as it goes to the processes of a pool
        server = EnvServer(vf.resolve_env_config(sent), "tcp://127.0.0.1:0")
        serving = asyncio.create_task(server.run())
        client = EnvClient(server.address)
        await client.wait_for_server_startup(interval=0.1)

        async def asked(model: str, client: EnvClient = client) -> Any:
            return await client.run(vf.EvalClientConfig(**CLIENT), model, vf.SamplingConfig(), tasks[0])

        report[name] = [told(episode) for episode in await asyncio.gather(*(asked("say") for _ in range(3)))]
        if name == "good":
            report["same"] = (await asked("say")).task.data.model_dump(exclude_unset=True)["row"] == tasks[0]["row"]
            running = asyncio.create_task(asked("sleep"))
            await until(lambda: held(URLS) == 1)
            await asyncio.sleep(0.7)
            running.cancel()
            report["freed_s"] = await until(lambda: held(URLS) == 0)
            wake()
        await client.close()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
    return report


async def befriended() -> dict[str, Any]:
    """A rollout whose coworkers are played by a model."""
    friends = {"coworker_model": "friend", "coworker_base_url": MODEL, "coworker_api_key_env": "FRIENDS_KEY"}
    return await run(config(URLS, "asked", **friends), "say", URLS)


class Tomorrow(datetime):
    """A clock that is a day ahead."""

    @classmethod
    def now(cls, tz: Any = None) -> datetime:
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


async def under(scene: Callable[[Under], Awaitable[dict[str, Any]]], urls: list[str]) -> dict[str, Any]:
    """A scene of rollouts in one environment."""
    env = environment(config(urls))
    async with env.serving():
        return await scene(Under(env, urls))


SCENES: dict[str, Callable[[], Awaitable[dict[str, Any]]]] = {
    "step": lambda: under(cancelled_in_a_step, URLS),
    "model": lambda: under(cancelled_in_the_model, URLS),
    "random": lambda: under(cut_at_random, URLS),
    "leasing": lambda: under(cancelled_while_leasing, [ALONE]),
    "limits": cut_by_limits,
    "retried": retried,
    "foreign": foreign,
    "served": served,
    "befriended": befriended,
    "evaluated": evaluated,
    "napping": napping,
    "faults": faults,
}


async def main() -> dict[str, Any]:
    """The scenes that are asked for, one after the other; how long each took, on stderr."""
    report: dict[str, Any] = {}
    for name in sys.argv[4:] or SCENES:
        began = time.monotonic()
        report[name] = await SCENES[name]()
        print(f"{name}: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
    return report


print(json.dumps(asyncio.run(main())))
