"""The way of prime-rl: environment servers in processes of their own, and a client here that sends them tasks.

`python verifiers_pool.py URLS MODEL`: URLS is a JSON list of a stage's containers. Prints the ids of two workers, then
does what its input says: `cancel` ends what is under way; any other word is the model of twelve rollouts, of which it
prints how many were graded.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sys
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import verifiers.v1 as vf
from verifiers.v1.serve import EnvClient, env_config_data, serve_env

WORKERS, ROLLOUTS = 2, 12
START_S, STOP_S = 60.0, 20.0


def started(config: vf.EnvConfig, ended: Connection) -> tuple[BaseProcess, str]:
    """The process of a pool, which stops once the other end of `ended` is closed, and its address."""
    spawn = multiprocessing.get_context("spawn")
    addresses = spawn.Queue()
    served = {"address": "tcp://127.0.0.1:0", "address_queue": addresses, "config_data": env_config_data(config)}
    size = {"max_workers": WORKERS, "elastic": False}
    pool = spawn.Process(target=serve_env, kwargs={**size, **served, "death_pipe": ended})
    pool.start()
    return pool, addresses.get(timeout=START_S)


def workers(pool: BaseProcess) -> list[int]:
    """The ids of the pool's servers."""
    children = Path(f"/proc/{pool.pid}/task/{pool.pid}/children").read_text().split()
    return [int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


async def obey(client: EnvClient, task: dict[str, Any], model_url: str) -> None:
    """Do what the input says, until it ends."""
    seat = vf.EvalClientConfig(base_url=model_url, api_key_var="STUB_KEY")
    running: list[asyncio.Task[vf.Episode]] = []
    reports = []

    async def report(episodes: list[asyncio.Task[vf.Episode]]) -> None:
        done = await asyncio.gather(*episodes, return_exceptions=True)
        print(sum(isinstance(one, vf.Episode) and one.ok for one in done), flush=True)

    while word := (await asyncio.to_thread(sys.stdin.readline)).strip():
        if word == "cancel":
            for one in running:
                one.cancel()
        else:
            running = [asyncio.create_task(client.run(seat, word, vf.SamplingConfig(), task)) for _ in range(ROLLOUTS)]
            reports.append(asyncio.create_task(report(running)))
    for one in running:
        one.cancel()
    await asyncio.gather(*reports)


async def main(urls: list[str], model_url: str) -> None:
    """Serve the split's first task, and stop the pool at the end."""
    config = vf.resolve_env_config({"taskset": {"id": "miroir_verifiers", "split": "one", "task": {"urls": urls}}})
    task = next(iter(vf.load_taskset(config.taskset))).data.model_dump()
    _held, ended = multiprocessing.Pipe()
    pool, address = started(config, ended)
    try:
        client = EnvClient(address)
        await client.wait_for_server_startup(interval=0.1)
        print(json.dumps(workers(pool)), flush=True)
        await obey(client, task, model_url)
        await client.close()
    finally:
        pool.terminate()
        pool.join(STOP_S)
    sys.exit(pool.exitcode)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1]), sys.argv[2]))
