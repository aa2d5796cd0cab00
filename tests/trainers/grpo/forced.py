"""A model whose words are written beforehand, in a trainer that learns from them as from its own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import torch

ENDED = "<|im_end|>"
Turn = Callable[[int, int], str]  # the words of a rollout that has had so many answers of tools


def say(rollout: int, call: tuple[str, dict[str, Any]] | None) -> str:
    """A turn: a tool call, or the last words. The rollout's number in it tells it from the others of its group."""
    if call is None:
        return f"I am {rollout}. Done.{ENDED}"
    name, arguments = call
    made = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"I am {rollout}.\n<tool_call>\n{made}\n</tool_call>{ENDED}"


def force(model: Any, words: Any, turn: Turn, first: int = 0) -> list[str]:
    """Have the model say `turn`, counting rollouts from `first`; a list to which prompts of first turns are added."""
    seen: list[str] = []

    def generate(input_ids: torch.Tensor, **_: Any) -> torch.Tensor:
        said = []
        for row, ids in enumerate(input_ids):
            prompt = words.decode(ids)
            told = prompt.rpartition("</tools>")[2]
            numbers = re.findall(r"I am (\d+)\.", told)
            if not numbers:
                seen.append(prompt)
            said.append(turn(int(numbers[-1]) if numbers else first + row, told.count("<tool_response>")))
        made = [words(text, add_special_tokens=False)["input_ids"] for text in said]
        longest = max(map(len, made))
        padded = [ids + [words.pad_token_id] * (longest - len(ids)) for ids in made]
        return torch.cat([input_ids, torch.tensor(padded, device=input_ids.device)], dim=1)

    model.generate = generate
    return seen


def offered(prompt: str) -> list[dict[str, Any]]:
    """The tools that a prompt shows the model."""
    block = prompt.rpartition("</tools>")[0].rpartition("<tools>")[2]
    return [json.loads(line)["function"] for line in block.strip().splitlines()]
