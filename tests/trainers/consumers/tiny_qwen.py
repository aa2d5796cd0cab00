"""A tiny model and its tokenizer, made on the spot: nothing is fetched."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from trl.chat_template_utils import qwen3_chat_template

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
# Added, not special, as in Qwen3: decoding that skips special tokens keeps them.
ADDED = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"]


def tokenizer(corpus: Iterable[str], tools: Iterable[dict] = (), vocabulary: int = 2048) -> PreTrainedTokenizerFast:
    """A byte-level BPE trained on the corpus, digits apart; each of the tools' lines in the template is one token."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    bpe.decoder = decoders.ByteLevel()
    bpe.train_from_iterator(
        corpus,
        trainers.BpeTrainer(
            vocab_size=vocabulary,
            special_tokens=SPECIAL,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    made = PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        padding_side="left",
        model_max_length=1 << 16,
    )
    made.add_tokens(ADDED)
    made.add_tokens([json.dumps(tool) for tool in tools])
    made.chat_template = qwen3_chat_template
    return made


def model(words: PreTrainedTokenizerFast, hidden: int = 32, seed: int = 0) -> Qwen3ForCausalLM:
    """A model of two layers with random weights."""
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(words),
            hidden_size=hidden,
            intermediate_size=3 * hidden,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=4,
            head_dim=hidden // 4,
            rope_theta=1e4,
            max_position_embeddings=1 << 16,
            tie_word_embeddings=True,
            initializer_range=0.02,
            pad_token_id=words.pad_token_id,
            eos_token_id=words.eos_token_id,
            bos_token_id=None,
        )
    )


def texts(path: Path) -> list[str]:
    """Every text in the rows of a JSON lines file, to train a tokenizer on."""
    found: list[str] = []

    def walk(value: object) -> None:
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, dict):
            found.append(json.dumps(value))
        elif isinstance(value, list):
            for item in value:
                walk(item)

    for line in path.read_text().splitlines():
        for value in json.loads(line).values():
            walk(value)
    return found
