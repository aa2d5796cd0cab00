"""What is said before a training begins: how many containers it wants, and what would cost days."""

from __future__ import annotations

import enum
import importlib.metadata
import sys
import types
import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from troubled import Troubled, served

from miroir.errors import InvalidArgument
from miroir.serve import running
from miroir.trl import Spec, preflight


class Strategy(enum.Enum):
    """As transformers has it."""

    NO = "no"
    STEPS = "steps"


@pytest.fixture(scope="module")
def spec() -> Iterator[Spec]:
    """A Spec on four containers, whose tasks allow 50 tool calls."""
    with running(Troubled, max_sessions=2) as url, served(Troubled, Troubled) as more:
        with Spec([url, *more], tasks=["plain", "short"]) as made:
            yield made


@pytest.fixture(autouse=True)
def _nothing_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever of TRL is installed here."""
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "99.0")


def config(**more: Any) -> Any:
    """What a GRPOConfig says of itself, with room for every episode."""
    usual = {
        "per_device_train_batch_size": 2,
        "per_device_eval_batch_size": 8,
        "gradient_accumulation_steps": 1,
        "steps_per_generation": 2,
        "generation_batch_size": 4,
        "num_generations": 2,
        "world_size": 1,
        "max_completion_length": 4096,
        "eval_strategy": "no",
    }
    return SimpleNamespace(**{**usual, **more})


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ({}, 4),
        ({"generation_batch_size": None}, 4),
        ({"generation_batch_size": None, "world_size": 3}, 12),
        ({"generation_batch_size": None, "steps_per_generation": None, "gradient_accumulation_steps": 4}, 8),
        ({"eval_strategy": "steps"}, 8),
        ({"eval_strategy": Strategy.STEPS}, 8),
        ({"eval_strategy": Strategy.NO}, 4),
        ({"eval_strategy": "steps", "world_size": 2}, 16),
        ({"max_inflight_tasks": 3}, 3),
        ({"max_inflight_tasks": -1, "max_staleness": 4, "gradient_accumulation_steps": 2, "world_size": 2}, 32),
    ],
)
def test_the_most_containers_at_once(spec: Spec, more: dict[str, Any], wanted: int) -> None:
    """Rollouts of a generation over all processes, those of an evaluation if more, or those in flight."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = spec.check(config(**more))

    assert (found.wanted, found.containers) == (wanted, 4)
    assert found.group == (1 if "max_inflight_tasks" in more else 2)


def test_enough_is_said_without_a_warning(spec: Spec) -> None:
    """Four for four: the numbers, and nothing else."""
    assert str(spec.check(config())) == "this training plays 4 episodes at once, in groups of 2, on 4 containers"


def test_fewer_than_a_group_is_an_error(spec: Spec) -> None:
    """No group could ever be whole; the message has the numbers."""
    said = (
        r"this training plays 16 episodes at once, in groups of 8, on 4 containers; "
        r"start at least 8 \(`miroir pool -n 16`\)"
    )
    with pytest.raises(InvalidArgument, match=said):
        spec.check(config(generation_batch_size=16, num_generations=8))


def test_fewer_tasks_than_a_generation_takes_are_warned_of(spec: Spec) -> None:
    """A trainer leaves out the generation that is not full, and would end without a step."""
    said = (
        "a generation takes 4 different tasks .*, and there are 2, so that none is trained on; "
        "set generation_batch_size to 2, or choose more tasks"
    )
    with pytest.warns(UserWarning, match=said):
        spec.check(config(num_generations=1))


def test_fewer_than_a_batch_is_warned_of(spec: Spec) -> None:
    """Some of each batch would wait in vain."""
    said = "on 4 containers: 2 of each batch may wait in vain and be void; start 6, or play fewer at once"
    with pytest.warns(UserWarning, match=said):
        spec.check(config(generation_batch_size=6, num_generations=3))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"max_completion_length": 512}, "512 tokens, .*room for about 8 of the 50 tool calls.*; set 3000 at least"),
        ({"max_tool_calling_iterations": 50}, "is 50, and tasks allow 50 tool calls .*; set 51, or leave it out"),
        ({"use_vllm": True, "vllm_mode": "server", "world_size": 2}, 'mode="colocate", one process, or AsyncGRPO'),
    ],
)
def test_settings_that_cost_days_are_warned_of(spec: Spec, more: dict[str, Any], said: str) -> None:
    """Episodes without room for their calls, and a mode that mixes them up."""
    with pytest.warns(UserWarning, match=said):
        spec.check(config(**more))


@pytest.mark.parametrize(
    "more",
    [
        {"max_completion_length": None},
        {"max_tool_calling_iterations": 51},
        {"use_vllm": True, "vllm_mode": "server"},
        {"use_vllm": True, "vllm_mode": "colocate", "world_size": 1},
    ],
)
def test_settings_that_are_well_are_not(spec: Spec, more: dict[str, Any]) -> None:
    """No warning that nobody needs."""
    assert spec.check(config(**more)).wanted == 4


@pytest.mark.parametrize(
    ("package", "version", "least"),
    [("trl", "1.15.2", "1.16"), ("transformers", "5.2.0", "5.13"), ("datasets", "4.8.5.dev0", "5.0")],
)
def test_packages_that_are_too_old_are_an_error(
    spec: Spec, monkeypatch: pytest.MonkeyPatch, package: str, version: str, least: str
) -> None:
    """Before any environment is made: they would take None for 0."""
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version if name == package else "99")
    said = f"{package} {version} is too old, {least} is needed.* pip install --upgrade 'miroir\\[trl\\]'"
    for use in (lambda: spec.environment_factory, lambda: spec.async_environment_factory, lambda: spec.check(config())):
        with pytest.raises(InvalidArgument, match=said):
            use()


@pytest.mark.parametrize("version", ["1.16", "1.16.0", "1.16.0rc1", "2.0.1+cpu", None])
def test_packages_that_are_new_enough_or_not_there_pass(monkeypatch: pytest.MonkeyPatch, version: str | None) -> None:
    """What is not installed is not needed to play by hand."""

    def found(name: str) -> str:
        if version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version if name == "trl" else "99"

    monkeypatch.setattr(importlib.metadata, "version", found)

    assert preflight.check_versions() is None  # type: ignore[func-returns-value]


@pytest.fixture
def templates(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A stand-in for the module of trl that knows chat templates."""

    def add(tokenizer: Any) -> Any:
        if tokenizer.chat_template != "known":
            raise ValueError("Unrecognized chat template")
        return tokenizer

    module = types.ModuleType("trl.chat_template_utils")
    module.add_response_schema = add  # type: ignore[attr-defined]
    module.supports_tool_calling = lambda tokenizer: tokenizer.chat_template != "toolless"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "trl", types.ModuleType("trl"))
    monkeypatch.setitem(sys.modules, "trl.chat_template_utils", module)
    return module


@pytest.mark.parametrize(
    ("template", "said"), [("toolless", "shows no tool calls"), ("forked", "trl does not know this chat template")]
)
def test_a_chat_template_that_trl_refuses(spec: Spec, templates: Any, template: str, said: str) -> None:
    """It is said before the model is loaded."""
    with pytest.warns(UserWarning, match=said):
        spec.check(config(), SimpleNamespace(chat_template=template))


@pytest.mark.parametrize(
    "tokenizer",
    [SimpleNamespace(chat_template="known"), SimpleNamespace(chat_template="forked", response_template="own")],
)
def test_a_chat_template_that_trl_takes(spec: Spec, templates: Any, tokenizer: Any) -> None:
    """Known, or with a response template of its own: no warning."""
    assert spec.check(config(), tokenizer).wanted == 4
