"""load_rows.py CARD OUT [FILE]: load rows as a card says, or FILE (Parquet), and write them as JSON lines."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from datasets import load_dataset

card, out, *parquet = map(Path, sys.argv[1:])

if parquet:
    rows = load_dataset("parquet", data_files=str(parquet[0]), split="train")
else:
    os.chdir(card.parent)
    names: dict = {}
    exec(card.read_text().split("## Loading")[1].split("```")[1].split("\nfrom trl")[0], names)
    rows = names["rows"]

with out.open("w") as file:
    file.writelines(json.dumps(row) + "\n" for row in rows)
