"""TRL's conversational formats, with `tools` as JSON text and `arguments` as objects.

https://huggingface.co/docs/trl/dataset_formats
"""

from __future__ import annotations

from collections.abc import Mapping

from ..conversation import Message
from .form import Column, Example, Format, Kind, Row

_IDS = {"task_id": Column.TEXT, "episode_id": Column.TEXT}

_LOADING = """\
from datasets import Features, Json, List, Value, load_dataset

features = Features({{features}})  # keeps arguments as they are, in files of any size
rows = load_dataset("json", data_files="{file}", features=features, split="train")
"""
_SFT = """
from trl import SFTConfig, SFTTrainer

# Loss on the assistant's tokens alone, tool results masked; without max_length TRL cuts rows at 1,024 tokens.
config = SFTConfig(assistant_only_loss=True, max_length=None)
SFTTrainer(model=model, args=config, train_dataset=rows, processing_class=tokenizer).train()
"""
_COMPLETION = """
from trl import SFTConfig, SFTTrainer

config = SFTConfig({masking}max_length=None)  # without max_length TRL cuts rows at 1,024 tokens
SFTTrainer(model=model, args=config, train_dataset=rows, processing_class=tokenizer).train()
"""
_DPO = """
from trl import DPOConfig, DPOTrainer

config = DPOConfig(max_length=None)  # without it TRL cuts rows at 1,024 tokens
DPOTrainer(model=model, args=config, train_dataset=rows, processing_class=tokenizer).train()
"""
_KTO = """
from trl import KTOConfig, KTOTrainer

config = KTOConfig(per_device_train_batch_size=2, max_length=None)  # batches of one have no KL term
KTOTrainer(model=model, args=config, train_dataset=rows, processing_class=tokenizer).train()
"""


def _sft(example: Example) -> list[Row]:
    return [{"messages": example.messages, "tools": example.spoken.tools.text, **example.ids}]


def _prompt_completion(example: Example) -> list[Row]:
    return [{**_halves(example), "tools": example.spoken.tools.text, **example.ids}]


def _turns(example: Example) -> list[Row]:
    messages, tools = example.spoken.messages, example.spoken.tools.text
    turns = [at + 1 for at, message in enumerate(messages) if message["role"] == "assistant"]
    return [
        {
            "prompt": messages[: end - 1],
            "completion": messages[end - 1 : end],
            "tools": tools,
            **example.ids,
            "turn": turn,
        }
        for turn, end in enumerate(turns)
        if end in example.ends
    ]


def _preference(chosen: Row, rejected: Row, shared: int) -> Row:
    start = _turn_start(chosen["messages"], rejected["messages"], shared)
    return {
        "prompt": chosen["messages"][:start],
        "chosen": chosen["messages"][start:],
        "rejected": rejected["messages"][start:],
        "tools": chosen["tools"],
        "task_id": chosen["task_id"],
        "chosen_id": chosen["episode_id"],
        "rejected_id": rejected["episode_id"],
    }


def _turn_start(one: list[Message], other: list[Message], shared: int) -> int:
    """The last place up to `shared` from which both go on with a message of the assistant."""
    last = min(shared, len(one) - 1, len(other) - 1)
    return next(at for at in range(last, -1, -1) if one[at]["role"] == other[at]["role"] == "assistant")


def _unpaired(example: Example) -> list[Row]:
    row = {**_halves(example), "label": example.succeeded, "tools": example.spoken.tools.text}
    return [{**row, **example.ids}]


def _prompts(example: Example) -> list[Row]:
    record = example.record
    return [
        {"prompt": example.told, "task_id": record["task_id"], "task_hash": record["metadata"]["task_hash"]},
    ]


def _halves(example: Example) -> Row:
    return {"prompt": example.told, "completion": example.messages[example.spoken.opening :]}


def _loading(columns: Mapping[str, Column]) -> str:
    types = {
        Column.MESSAGES: "List(Json())",
        Column.TEXT: 'Value("string")',
        Column.BOOLEAN: 'Value("bool")',
        Column.INTEGER: 'Value("int64")',
    }
    return _LOADING.replace("{features}", ", ".join(f'"{name}": {types[column]}' for name, column in columns.items()))


_SFT_COLUMNS = {"messages": Column.MESSAGES, "tools": Column.TEXT, **_IDS}
_COMPLETION_COLUMNS = {"prompt": Column.MESSAGES, "completion": Column.MESSAGES, "tools": Column.TEXT, **_IDS}
_TURN_COLUMNS = {**_COMPLETION_COLUMNS, "turn": Column.INTEGER}
_PAIR_COLUMNS = {
    "prompt": Column.MESSAGES,
    "chosen": Column.MESSAGES,
    "rejected": Column.MESSAGES,
    "tools": Column.TEXT,
    "task_id": Column.TEXT,
    "chosen_id": Column.TEXT,
    "rejected_id": Column.TEXT,
}
_UNPAIRED_COLUMNS = {
    "prompt": Column.MESSAGES,
    "completion": Column.MESSAGES,
    "label": Column.BOOLEAN,
    "tools": Column.TEXT,
    **_IDS,
}
_PROMPT_COLUMNS = {"prompt": Column.MESSAGES, "task_id": Column.TEXT, "task_hash": Column.TEXT}

SFT = Format(
    name="sft",
    about="messages and tools of whole episodes (TRL's SFTTrainer)",
    kind=Kind.EPISODES,
    columns=_SFT_COLUMNS,
    rows=_sft,
    cuts=True,
    recipe=_loading(_SFT_COLUMNS) + _SFT,
)
PROMPT_COMPLETION = Format(
    name="prompt-completion",
    about="the opening, and all that followed (TRL's SFTTrainer)",
    kind=Kind.EPISODES,
    columns=_COMPLETION_COLUMNS,
    rows=_prompt_completion,
    cuts=True,
    recipe=_loading(_COMPLETION_COLUMNS) + _COMPLETION.replace("{masking}", "assistant_only_loss=True, "),
)
TURNS = Format(
    name="turns",
    about="a row for each message of the assistant, with all that came before (TRL's SFTTrainer)",
    kind=Kind.TURNS,
    columns=_TURN_COLUMNS,
    rows=_turns,
    masks=True,
    recipe=_loading(_TURN_COLUMNS) + _COMPLETION.replace("{masking}", ""),
)
DPO = Format(
    name="dpo",
    about="pairs of a better and a worse episode with one prompt (TRL's DPOTrainer)",
    kind=Kind.PAIRS,
    columns=_PAIR_COLUMNS,
    rows=_sft,
    pair=_preference,
    any_outcome=True,
    recipe=_loading(_PAIR_COLUMNS) + _DPO,
)
KTO = Format(
    name="kto",
    about="episodes labelled good or bad (TRL's KTOTrainer)",
    kind=Kind.EPISODES,
    columns=_UNPAIRED_COLUMNS,
    rows=_unpaired,
    any_outcome=True,
    recipe=_loading(_UNPAIRED_COLUMNS) + _KTO,
)
PROMPTS = Format(
    name="prompts",
    about="the prompt of each task, for reinforcement learning (TRL's GRPOTrainer)",
    kind=Kind.TASKS,
    columns=_PROMPT_COLUMNS,
    rows=_prompts,
    any_outcome=True,
    recipe=_loading(_PROMPT_COLUMNS),
)
