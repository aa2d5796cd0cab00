"""A fleet as an environment of verifiers 0.4, and one rollout in it."""

from __future__ import annotations

from typing import Any

import verifiers.v1 as vf
from verifiers.v1.clients import ModelContext

from .fleet import MODEL, active, held, until, wake

CLIENT = {"type": "eval", "base_url": MODEL, "api_key_var": "STUB_KEY"}


def config(urls: list[str], split: str = "one", agent: dict[str, Any] | None = None, **task: Any) -> dict[str, Any]:
    """The configuration of an environment."""
    taskset = {"id": "miroir_verifiers", "split": split, "task": {"urls": urls, **task}}
    return {"taskset": taskset, "agent": {"runtime": {"type": "subprocess"}, **(agent or {})}}


def context(model: str) -> ModelContext:
    """The model of a rollout, whose name says what it does."""
    return ModelContext(client=vf.EvalClientConfig(**CLIENT), model=model, sampling=vf.SamplingConfig())


def environment(data: dict[str, Any]) -> vf.Env:
    """The environment of a configuration."""
    return vf.load_environment(vf.resolve_env_config(data))


def told(episode: vf.Episode) -> dict[str, Any]:
    """What a rollout came to, as JSON holds it."""
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
    """What one rollout of the split's first task came to; TimeoutError where a lease of it is left."""
    env = environment(data)
    async with env.serving():
        (slot,) = env.slots(next(iter(env.taskset)))
        episode = await env.run_slot(slot, context(model))
        await until(lambda: held(urls) == 0, 2.0)
    wake()
    await until(lambda: active(urls) == 0)
    return told(episode)
