"""Teaching a tiny model rows of the `sft` format with TRL's SFTTrainer."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from datasets import Dataset, Features, Json, List, Value, load_dataset
from on_cpu import ON_CPU
from transformers import TrainerCallback
from trl import SFTConfig, SFTTrainer

RIGHT = 0.9999  # the share of tokens that are predicted, of which greedy decoding needs all
LASTING = 20  # steps
# Arguments stay as they are, where Arrow would give each call every key of any.
FEATURES = Features(
    {"messages": List(Json()), **{name: Value("string") for name in ("tools", "task_id", "episode_id")}}
)


class UntilLearnt(TrainerCallback):
    """Ends the training when all tokens have been predicted for a while."""

    def __init__(self) -> None:
        self.right = 0

    def on_log(self, _args: Any, _state: Any, control: Any, logs: dict[str, Any], **_: Any) -> None:
        """Count the steps in a row on which every token was right."""
        self.right = self.right + 1 if logs.get("mean_token_accuracy", 0) >= RIGHT else 0
        control.should_training_stop = self.right >= LASTING


def loaded(file: Path) -> Dataset:
    """The rows of a JSON lines file."""
    return load_dataset("json", data_files=str(file), features=FEATURES, split="train")


def teach(model: Any, words: Any, rows: Dataset, steps: int, **options: Any) -> None:
    """Train the model on the rows, for so many steps or until it has learnt every token."""
    with tempfile.TemporaryDirectory() as folder:
        config = SFTConfig(
            output_dir=folder,
            assistant_only_loss=True,
            max_length=None,
            max_steps=steps,
            lr_scheduler_type="cosine",
            warmup_steps=20,
            adam_beta2=0.95,
            max_grad_norm=1.0,
            logging_steps=1,
            **ON_CPU,
            **options,
        )
        SFTTrainer(
            model=model, args=config, train_dataset=rows, processing_class=words, callbacks=[UntilLearnt()]
        ).train()
