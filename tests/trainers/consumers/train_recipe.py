"""train_recipe.py CARD ROWS OUT: run the recipe of a dataset card for a step on a tiny model; tell what it trained.

OUT becomes a JSON object: the step's loss, whether any weight changed, and of the first rows the text of the tokens
that carry loss and of those that do not.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import tiny_qwen
import torch
import transformers
import trl
from on_cpu import ON_CPU

STEP = {
    "max_steps": 1,
    "per_device_train_batch_size": 1,
    "learning_rate": 1e-2,
    **ON_CPU,
}
TOLD = 3  # rows whose labels are told

card, rows_file, out = map(Path, sys.argv[1:])
made: list[Any] = []


def recipe() -> str:
    """The code of the card."""
    return card.read_text().split("## Loading")[1].split("```")[1].strip()


def remembering(kind: type) -> type:
    """The trainer's class, whose objects are kept."""

    class Remembering(kind):  # type: ignore[misc]
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            made.append(self)

    return Remembering


def labels(trainer: Any, words: Any) -> list[dict[str, str]]:
    """What of the first rows carries loss, and what does not."""
    told = []
    for row in list(trainer.train_dataset)[:TOLD]:
        batch = trainer.data_collator([row])
        ids, marked = batch["input_ids"][0], batch["labels"][0]
        told.append({"trained": words.decode(ids[marked != -100]), "context": words.decode(ids[marked == -100])})
    return told


def main() -> None:
    """Train one step."""
    with tempfile.TemporaryDirectory() as folder:
        words = tiny_qwen.tokenizer(tiny_qwen.texts(rows_file))
        tiny_qwen.model(words).save_pretrained(folder)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder)
        before = [weight.detach().clone() for weight in model.parameters()]
        for name in ("SFT", "DPO", "KTO"):
            config = functools.partial(getattr(trl, f"{name}Config"), output_dir=folder, **STEP)
            setattr(trl, f"{name}Config", config)
            setattr(trl, f"{name}Trainer", remembering(getattr(trl, f"{name}Trainer")))
        os.chdir(card.parent)
        exec(recipe(), {"model": model, "tokenizer": words})
        (trainer,) = made
        changed = any(not torch.equal(one, other) for one, other in zip(before, model.parameters(), strict=True))
        told = labels(trainer, words) if isinstance(trainer, trl.SFTTrainer) else []
        losses = [entry["train_loss"] for entry in trainer.state.log_history if "train_loss" in entry]
    out.write_text(json.dumps({"loss": losses[-1], "changed": changed, "rows": told}))


if __name__ == "__main__":
    main()
