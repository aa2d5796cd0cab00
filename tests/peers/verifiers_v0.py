"""Rollouts under the verifiers before 0.4 that are cut short, in one process; prints what came of them as JSON.

`python verifiers_v0.py URLS MODEL FOLDER`: URLS is a JSON list of a stage's containers, the last of which has a single
session, and MODEL its model's base URL.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import verifiers as vf
from verifiers_scenes.fleet import ALONE, MODEL, OUT, URLS, held, until, wake

import miroir_verifiers

CLIENT = vf.ClientConfig(api_key_var="STUB_KEY", api_base_url=MODEL, max_retries=0)


def loaded(urls: list[str], split: str = "one", **options: Any) -> vf.Environment:
    """The environment of a fleet."""
    return vf.load_environment("miroir_verifiers", urls=urls, split=split, **options)


async def rollout(env: vf.Environment, model: str, index: int = 0) -> dict[str, Any]:
    """What a rollout of one of the environment's tasks came to."""
    row = env.get_dataset()[index]
    output = await env.run_rollout(row, CLIENT, model, {"temperature": 0.5})
    error = output["error"]
    return {
        "reward": output["reward"],
        "error": [error["error"], error["error_chain_repr"]] if error else None,
        "stop": output["stop_condition"],
        "metrics": output["metrics"],
        "info": output["info"]["miroir"],
        "completion": [message["role"] for message in output["completion"] or []],
    }


async def cancelled(env: vf.Environment, urls: list[str], model: str, count: int, leased: int) -> dict[str, Any]:
    """Cancel rollouts once so many of them have leases; how long until they have ended, and until nothing is leased."""
    tasks = [asyncio.create_task(rollout(env, model)) for _ in range(count)]
    await until(lambda: held(urls) == leased)
    await asyncio.sleep(0.7)
    began = time.monotonic()
    for _ in range(2):
        for task in tasks:
            task.cancel()
        await asyncio.sleep(0)
    done = await asyncio.gather(*tasks, return_exceptions=True)
    ended_s = time.monotonic() - began
    freed_s = ended_s + await until(lambda: held(urls) == 0)
    wake()
    return {"ended_s": ended_s, "freed_s": freed_s, "kinds": sorted({type(one).__name__ for one in done})}


def faults() -> dict[str, str]:
    """What is said of settings that cannot work."""
    said = {}
    for name, options in {
        "taskset": {"urls": URLS, "taskset": {"split": "train"}},
        "empty": {"urls": URLS, "split": "empty"},
        "preset": {"preset": "nope"},
    }.items():
        try:
            vf.load_environment("miroir_verifiers", **options)
        except RuntimeError as error:
            said[name] = str(error)
    try:
        miroir_verifiers.MiroirTaskset  # noqa: B018
    except ImportError as error:
        said["v1"] = str(error)
    return said


async def main() -> dict[str, Any]:
    """Every scene, one after the other."""
    env = loaded(URLS, traces=str(OUT / "records"))
    report = {model: await rollout(env, model) for model in ("say", "talk", "down")}
    report["turns"] = await rollout(loaded(URLS, max_turns=3), "waste")
    report["void"] = await rollout(loaded(URLS, "train", traces=str(OUT / "void")), "say", 4)
    short = loaded(URLS, timeout_seconds=1.0)
    report["late"] = await rollout(short, "slow")
    report["late in a step"] = await rollout(short, "sleep")
    wake()
    report["in a step"] = await cancelled(env, URLS, "sleep", 8, 8)
    report["leasing"] = await cancelled(loaded([ALONE]), [ALONE], "slow", 3, 1)
    report["held"] = {"count": held(URLS) + held([ALONE])}
    return report


told = asyncio.run(main())
print(json.dumps({**told, "faults": faults()}))
