"""train.py JOB OUT: train with GRPOTrainer on a fleet, in each process that torchrun starts; OUT tells what came of it.

JOB is JSON: `urls`, `task`, `plays` (of each rollout of a group: its calls, as [tool, arguments]), `records`; `kill`
[rollout, answers, {url: pid}] kills a rollout's container in the last step; `raise_at` answers ends the training.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import tiny_qwen
import torch
from forced import force, offered, say
from on_cpu import ON_CPU
from transformers.utils import get_json_schema
from trl import GRPOConfig, GRPOTrainer

from miroir.trl import Spec

STEPS = 2
job = json.loads(Path(sys.argv[1]).read_text())
rank, processes = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def config(folder: str) -> GRPOConfig:
    """Two steps of one group."""
    return GRPOConfig(
        output_dir=folder,
        max_steps=STEPS,
        per_device_train_batch_size=len(job["plays"]) // processes,
        num_generations=len(job["plays"]),
        max_completion_length=8192,
        learning_rate=1e-2,
        logging_steps=1,
        **ON_CPU,
    )


def tokenizer(spec: Spec) -> Any:
    """One to which each tool is a token."""
    environment = spec.environment_factory()
    methods = [getattr(environment, name) for name in dir(environment) if name.startswith("tool_")]
    return tiny_qwen.tokenizer(map(str, job["plays"]), [get_json_schema(method) for method in methods])


def killed(trainer: GRPOTrainer, rollout: int, answers: int) -> None:
    """Kill the rollout's container when its time has come."""
    at = job.get("kill")
    if at is not None and trainer.state.global_step == STEPS - 1 and [rollout, answers] == at[:2]:
        os.kill(at[2].pop(trainer.environments[rollout]._rollout._episode.url), signal.SIGKILL)


def main() -> None:
    """Train, and tell."""
    options = {"tasks": [job["task"]], "eval_split": None, "records": job["records"], "max_chars": 300}
    with tempfile.TemporaryDirectory() as folder, Spec(job["urls"], **options) as spec:
        args, words = config(folder), tokenizer(spec)
        demand = spec.check(args, words)
        trainer = GRPOTrainer(
            model=tiny_qwen.model(words),
            args=args,
            processing_class=words,
            train_dataset=spec.train_dataset,
            environment_factory=spec.environment_factory,
            reward_funcs=spec.reward,
        )

        def turn(rollout: int, answers: int) -> str:
            killed(trainer, rollout, answers)
            if job.get("raise_at") == answers:
                raise LookupError("no such drawer")
            calls = job["plays"][rollout]
            return say(rollout, calls[answers] if answers < len(calls) else None)

        prompts = force(trainer.model, words, turn, rank * args.per_device_train_batch_size)
        before = [weight.detach().clone() for weight in trainer.model.parameters()]
        trainer.train()
        after = [*trainer.model.parameters()]
        told = {
            "demand": demand._asdict(),
            "tools": offered(prompts[0]),
            "prompt": prompts[0].rpartition("</tools>")[2],
            "changed": any(not torch.equal(one, other) for one, other in zip(before, after, strict=True)),
            "rewards": list(trainer._logs["rewards"]["miroir"]),
            "advantages": list(trainer._logs["advantages"]),
            "log": [entry for entry in trainer.state.log_history if "reward" in entry],
        }
    Path(f"{sys.argv[2]}.{rank}").write_text(json.dumps(told))


if __name__ == "__main__":
    main()
