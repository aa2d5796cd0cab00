"""train.py ROWS OUT STEPS: train a tiny model on rows of the `sft` format with TRL's SFTTrainer, and save it in OUT.

Each tool's line in the chat template is one token, since 86 % of a prompt would be schemas otherwise: the model learns
to call these tools in these worlds, and cannot read a schema. Training ends early once every token is predicted.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import supervised
import tiny_qwen

rows_file, out, steps = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
rows = supervised.loaded(rows_file)
words = tiny_qwen.tokenizer(tiny_qwen.texts(rows_file), json.loads(rows[0]["tools"]))
model = tiny_qwen.model(words, hidden=128)
if steps:
    supervised.teach(model, words, rows, steps, per_device_train_batch_size=1, learning_rate=2e-3, seed=0)
model.save_pretrained(out)
words.save_pretrained(out)
