"""What a training run can be known to lack before it begins: containers, tokens, versions, a template."""

from __future__ import annotations

import importlib.metadata
import logging
import re
import warnings
from collections.abc import Iterable
from importlib import import_module
from typing import Any, NamedTuple

from .. import catalog
from ..errors import InvalidArgument
from ..urls import Source
from ..wire import Task
from .plan import Plan

# Older ones take the reward None for 0, or have no environments, and say nothing of it.
FLOORS = {"trl": (1, 16), "transformers": (5, 13), "datasets": (5, 0)}
CALL_TOKENS = 60  # a call and its answer take more than that

_log = logging.getLogger("miroir.trl")


class Demand(NamedTuple):
    """How many containers a training run can want at once, over all its processes, and how many there are."""

    wanted: int
    group: int
    containers: int

    def __str__(self) -> str:
        batch = f"this training plays {self.wanted} episodes at once, in groups of {self.group}"
        return f"{batch}, on {self.containers} containers"

    def require(self) -> None:
        """InvalidArgument for fewer containers than a group needs."""
        if self.containers < self.group:
            raise InvalidArgument(f"{self}; start at least {self.group} (`miroir pool -n {self.wanted}`)")

    def tell(self) -> None:
        """Log the numbers, and warn of fewer containers than are wanted."""
        _log.info("%s", self)
        if self.containers < self.wanted:
            warnings.warn(
                f"{self}: {self.wanted - self.containers} of each batch may wait in vain and be void; "
                f"start {self.wanted}, or play fewer at once (generation_batch_size, per_device_eval_batch_size, "
                "max_inflight_tasks)",
                stacklevel=3,
            )


def demand(args: Any, plan: Plan) -> Demand:
    """What a GRPOConfig or AsyncGRPOConfig can want, and what there is."""
    flying = hasattr(args, "max_inflight_tasks")  # there each episode ends by itself, and frees its container
    group = 1 if flying else getattr(args, "num_generations", None) or 1
    return Demand(_wanted(args), group, containers(plan))


def containers(plan: Plan) -> int:
    """How many sessions the healthy containers of the fleet have room for."""
    return catalog.capacity(Source.of(plan.urls).read(), plan.token)


def _wanted(args: Any) -> int:
    processes = getattr(args, "world_size", None) or 1
    size = getattr(args, "per_device_train_batch_size", None) or 1
    if (flying := getattr(args, "max_inflight_tasks", None)) is not None:
        accumulated = getattr(args, "gradient_accumulation_steps", None) or 1
        staleness = getattr(args, "max_staleness", None) or 1
        return int(flying) if flying > 0 else staleness * size * accumulated * processes
    steps = getattr(args, "steps_per_generation", None) or getattr(args, "gradient_accumulation_steps", None) or 1
    train = getattr(args, "generation_batch_size", None) or size * steps * processes
    evaluates = str(getattr(args, "eval_strategy", "no")).rpartition(".")[2].lower() != "no"
    tested = (getattr(args, "per_device_eval_batch_size", None) or 1) * processes if evaluates else 0
    return max(int(train), tested)


def check_versions() -> None:
    """InvalidArgument for an installed package that is too old to train rightly; what is not installed passes."""
    for package, floor in FLOORS.items():
        try:
            installed = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
        if _release(installed) < floor:
            least = ".".join(map(str, floor))
            raise InvalidArgument(
                f"{package} {installed} is too old, {least} is needed; run pip install --upgrade 'miroir[trl]'"
            )


def warn_of(args: Any, tasks: Iterable[Task]) -> None:
    """Warn of settings that cost days: an episode that has no room, a mode that mixes up processes."""
    steps = max((task.get("max_steps") or 0 for task in tasks), default=0)
    room = getattr(args, "max_completion_length", None)
    if room is not None and steps * CALL_TOKENS > room:
        warnings.warn(
            f"max_completion_length is {room} tokens, calls and answers of a whole episode: room for about "
            f"{room // CALL_TOKENS} of the {steps} tool calls that tasks allow; set {steps * CALL_TOKENS} at least",
            stacklevel=3,
        )
    turns = getattr(args, "max_tool_calling_iterations", None)
    if turns is not None and turns <= steps:
        warnings.warn(
            f"max_tool_calling_iterations is {turns}, and tasks allow {steps} tool calls before `submit`; "
            f"set {steps + 1}, or leave it out",
            stacklevel=3,
        )
    server = getattr(args, "use_vllm", False) and getattr(args, "vllm_mode", "") == "server"
    if server and (getattr(args, "world_size", None) or 1) > 1:
        warnings.warn(
            "vLLM in server mode with several processes mixes up or stalls episodes of different lengths; "
            'use vllm_mode="colocate", one process, or AsyncGRPOTrainer',
            stacklevel=3,
        )


def warn_of_few(args: Any, tasks: int) -> None:
    """Warn of fewer tasks than GRPOTrainer puts into a generation: it leaves out the one that is not full."""
    group = getattr(args, "num_generations", None) or 1
    together = (getattr(args, "generation_batch_size", None) or 0) // group
    if tasks < together:
        warnings.warn(
            f"a generation takes {together} different tasks (generation_batch_size / num_generations), and there are "
            f"{tasks}, so that none is trained on; set generation_batch_size to {tasks * group}, or choose more tasks",
            stacklevel=3,
        )


def warn_of_template(tokenizer: Any) -> None:
    """Warn of a chat template whose tool calls trl cannot read; needs trl."""
    templates = import_module("trl.chat_template_utils")
    if not templates.supports_tool_calling(tokenizer):
        warnings.warn("the chat template shows no tool calls, so trl refuses it; choose another model", stacklevel=3)
        return
    if getattr(tokenizer, "response_template", None) or getattr(tokenizer, "response_schema", None):
        return
    try:
        templates.add_response_schema(tokenizer)
    except ValueError:
        warnings.warn(
            "trl does not know this chat template (it compares the whole text) and will refuse it; set "
            "tokenizer.response_template, or tokenizer.chat_template to the original of the model's family",
            stacklevel=3,
        )


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0])[:3])
