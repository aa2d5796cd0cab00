"""reinforce.py PLANS OUT SEED URL…: teach a tiny model demonstrations by SFT, then have TRL's GRPOTrainer improve it.

PLANS holds the demonstrations of each task as JSON: `{task_id: [[[tool, arguments], …], …]}`. They are played in the
fleet, so that the model learns what the trainer will show it, to the byte. OUT becomes a JSON object: the mean rewards
`before` and `after` the reinforcement of `samples` episodes each, drawn at the temperature of the training; the
rewards of the `demonstrations` and of the `steps`; the share of `void` episodes; and `seconds`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import supervised
import tiny_qwen
import torch
from datasets import concatenate_datasets
from on_cpu import ON_CPU
from transformers import TrainerCallback
from transformers.utils import get_json_schema
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import qwen3_chat_template

from miroir.trl import Spec

Plan = Sequence[tuple[str, dict[str, Any]]]

SFT_STEPS = 200
GRPO_STEPS = 16
GROUP = 8  # episodes of a task
SAMPLES = 4  # groups of each task, before and after
ENOUGH = 0.95  # a policy that has learnt drifts away again
TEMPERATURE = 0.7


class UntilGood(TrainerCallback):
    """Ends the training at the first batch that is good enough."""

    def on_log(self, _args: Any, _state: Any, control: Any, logs: dict[str, Any], **_: Any) -> None:
        """Look at the batch's mean reward."""
        control.should_training_stop = logs.get("reward", 0.0) >= ENOUGH


def shown(environment: Any) -> list[dict[str, Any]]:
    """The environment's tools as the trainer shows them to the model."""
    return [get_json_schema(getattr(environment, name)) for name in dir(environment) if name.startswith("tool_")]


def played(environment: Any, row: dict[str, Any], plan: Plan) -> tuple[dict[str, Any], float | None]:
    """A row of the `sft` format that says what the plan's calls answered, and the reward of the episode."""
    asked = row["prompt"][0]["content"] + (environment.reset(**row) or "")
    messages: list[dict[str, Any]] = [{"role": "user", "content": asked}]
    for tool, arguments in plan:
        call = {"type": "function", "function": {"name": tool, "arguments": arguments}}
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        messages.append({"role": "tool", "name": tool, "content": getattr(environment, tool)(**arguments)})
    messages.append({"role": "assistant", "content": "Done."})
    told = {"messages": messages, "tools": json.dumps(shown(environment)), "task_id": row["task_id"]}
    return told, environment.get_reward()


def taught(rows: list[dict[str, Any]], folder: Path, seed: int) -> tuple[Any, Any]:
    """A tiny model that has learnt the rows, right and flawed ones alike, and its tokenizer."""
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps({**row, "episode_id": str(at)}) + "\n" for at, row in enumerate(rows)))
    words = tiny_qwen.tokenizer([*tiny_qwen.texts(file), qwen3_chat_template], json.loads(rows[0]["tools"]))
    model = tiny_qwen.model(words, hidden=128, seed=seed)
    taken = {"per_device_train_batch_size": 4, "learning_rate": 3e-3, "seed": seed}
    supervised.teach(model, words, supervised.loaded(file), SFT_STEPS, **taken)
    return model, words


def reinforcement(spec: Spec, model: Any, words: Any, folder: Path, seed: int) -> GRPOTrainer:
    """A trainer whose steps are of one group of episodes for each task."""
    tasks = spec.train_dataset
    config = GRPOConfig(
        output_dir=str(folder),
        per_device_train_batch_size=GROUP * len(tasks),
        per_device_eval_batch_size=GROUP * len(tasks),
        num_generations=GROUP,
        max_steps=GRPO_STEPS,
        learning_rate=5e-5,
        lr_scheduler_type="linear",
        adam_beta2=0.95,
        max_grad_norm=1.0,
        temperature=TEMPERATURE,
        max_completion_length=600,
        max_tool_calling_iterations=10,
        logging_steps=1,
        seed=seed,
        **ON_CPU,
    )
    return GRPOTrainer(
        model=model,
        args=config,
        reward_funcs=spec.reward,
        environment_factory=spec.environment_factory,
        train_dataset=tasks,
        eval_dataset=concatenate_datasets([tasks] * SAMPLES),
        processing_class=words,
        callbacks=[UntilGood()],
    )


def sampled(trainer: GRPOTrainer) -> dict[str, float]:
    """What the trainer logs of episodes that it does not train on."""
    trainer.evaluate()
    found: dict[str, float] = next(entry for entry in reversed(trainer.state.log_history) if "eval_reward" in entry)
    return found


def main(plans_file: str, out: str, seed: int, urls: list[str]) -> None:
    """Teach, sample, reinforce, sample again."""
    began = time.monotonic()
    torch.set_num_threads(1)  # a step is too small to share
    plans: dict[str, list[Plan]] = json.loads(Path(plans_file).read_text())
    with Spec(urls, tasks=list(plans), eval_split=None) as spec, tempfile.TemporaryDirectory() as folder:
        environment = spec.async_environment_factory()
        rows, rewards = zip(
            *(played(environment, row, plan) for row in spec.train_dataset for plan in plans[row["task_id"]]),
            strict=True,
        )
        model, words = taught(list(rows), Path(folder), seed)
        taught_at = time.monotonic()
        trainer = reinforcement(spec, model, words, Path(folder), seed)
        before = sampled(trainer)
        trainer.train()
        after = sampled(trainer)
    steps = [entry for entry in trainer.state.log_history if "reward" in entry]
    told = {
        "before": before["eval_reward"],
        "after": after["eval_reward"],
        "samples": len(trainer.eval_dataset) * GROUP,
        "demonstrations": rewards,
        "steps": [step["reward"] for step in steps],
        "void": max(before["eval_void"], after["eval_void"], *(step["void"] for step in steps)),
        "seconds": {"sft": taught_at - began, "all": time.monotonic() - began},
    }
    Path(out).write_text(json.dumps(told))


main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:])
