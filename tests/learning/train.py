"""train.py ROWS OUT STEPS: train a tiny model on rows of the `sft` format with TRL's SFTTrainer, and save it in OUT.

Each tool's line in the chat template is one token, since 86 % of a prompt would be schemas otherwise: the model learns
to call these tools in these worlds, and cannot read a schema. Training ends early once every token is predicted.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import tiny_qwen
from datasets import Features, Json, List, Value, load_dataset
from transformers import TrainerCallback
from trl import SFTConfig, SFTTrainer

RIGHT = 0.9999  # the share of tokens that are predicted, of which greedy decoding needs all
LASTING = 20  # steps

rows_file, out, steps = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])


class UntilLearnt(TrainerCallback):
    """Ends the training when all tokens have been predicted for a while."""

    def __init__(self) -> None:
        self.right = 0

    def on_log(self, _args: Any, _state: Any, control: Any, logs: dict[str, Any], **_: Any) -> None:
        """Count the steps in a row on which every token was right."""
        self.right = self.right + 1 if logs.get("mean_token_accuracy", 0) >= RIGHT else 0
        control.should_training_stop = self.right >= LASTING


features = Features(
    {"messages": List(Json()), **{name: Value("string") for name in ("tools", "task_id", "episode_id")}}
)
rows = load_dataset("json", data_files=str(rows_file), features=features, split="train")
tools = json.loads(rows[0]["tools"])
words = tiny_qwen.tokenizer(tiny_qwen.texts(rows_file), tools)
model = tiny_qwen.model(words, hidden=128)
with tempfile.TemporaryDirectory() as folder:
    config = SFTConfig(
        output_dir=folder,
        assistant_only_loss=True,
        max_length=None,
        max_steps=steps,
        per_device_train_batch_size=1,
        learning_rate=2e-3,
        lr_scheduler_type="cosine",
        warmup_steps=20,
        adam_beta2=0.95,
        max_grad_norm=1.0,
        logging_steps=1,
        seed=0,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
    )
    trainer = SFTTrainer(
        model=model, args=config, train_dataset=rows, processing_class=words, callbacks=[UntilLearnt()]
    )
    if steps:
        trainer.train()
model.save_pretrained(out)
words.save_pretrained(out)
