"""How a fleet is played under verifiers, of either major: the options that a user writes, over a preset's."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from miroir.catalog import opening
from miroir.coworkers import CoworkerModel
from miroir.errors import InvalidArgument
from miroir.rest import secret_from
from miroir.urls import Source, Urls, from_words

from .preset import Measure, Preset, Prompt
from .presets import find


@dataclass(frozen=True)
class Settings:
    """What the episodes of one environment have in common; `token_env` is the name of a variable, never the token."""

    urls: Urls
    split: str = "train"
    token_env: str | None = None
    surface: str | None = None
    max_seconds: int | None = None
    coworker_model: CoworkerModel | None = None
    traces: Path | None = None
    prompt: Prompt = opening
    metrics: Mapping[str, Measure] = field(default_factory=dict)
    rewards: Mapping[str, Measure] = field(default_factory=dict)

    @property
    def token(self) -> str | None:
        """The fleet's token; InvalidArgument where the variable is empty."""
        return secret_from(self.token_env)

    @property
    def source(self) -> Source:
        """The fleet's addresses."""
        return Source.of(self.urls)


def settings(
    *,
    preset: str | None = None,
    urls: str | os.PathLike[str] | Sequence[str] | None = None,
    split: str | None = None,
    token_env: str | None = None,
    surface: str | None = None,
    max_seconds: int | None = None,
    coworker_model: str | None = None,
    coworker_base_url: str | None = None,
    coworker_api_key_env: str | None = None,
    traces: str | os.PathLike[str] | None = None,
) -> Settings:
    """The settings: what is given wins over the preset of that name; InvalidArgument where they do not work.

    `urls` is a URL file, a base URL, a list of them, or `dns://name:port`. `traces` is a folder for records.
    """
    base = find(preset) if preset else None
    fixed = base or Preset(_urls(urls))
    if max_seconds is not None and max_seconds < 1:
        raise InvalidArgument(f"an episode of {max_seconds} s is none; give max_seconds at least one")
    made = Settings(
        urls=_urls(urls) if urls else fixed.urls,
        split=split or fixed.split,
        token_env=token_env or fixed.token_env,
        surface=surface or fixed.surface,
        max_seconds=max_seconds,
        coworker_model=_coworkers(coworker_model, coworker_base_url, coworker_api_key_env) or fixed.coworker_model,
        traces=Path(traces) if traces else None,
        prompt=fixed.prompt or opening,
        metrics=fixed.metrics,
        rewards=fixed.rewards,
    )
    secret_from(made.token_env)
    return made


# Which of a fleet's tasks are played, beside the split.
CHOICE = ("calibration", "keep")
OPTIONS = (*inspect.signature(settings).parameters, *CHOICE)


def refuse_unknown(options: Iterable[str], known: Iterable[str]) -> None:
    """InvalidArgument for an option of `load_environment` that is not known, such as one of another verifiers'."""
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise InvalidArgument(
            f"load_environment has no option {unknown[0]!r} with the verifiers that is installed; "
            f"it has {', '.join(sorted(known))}"
        )


def _urls(urls: str | os.PathLike[str] | Sequence[str] | None) -> Urls:
    if not urls:
        raise InvalidArgument("no fleet is named; pass urls (a URL file, base URLs or dns://name:port), or a preset")
    if isinstance(urls, os.PathLike):
        return urls
    return from_words([urls] if isinstance(urls, str) else list(urls))


def _coworkers(model: str | None, base_url: str | None, key_env: str | None) -> CoworkerModel | None:
    """The model that plays coworkers; InvalidArgument for half of one."""
    if model is None and base_url is None and key_env is None:
        return None
    if model is None or base_url is None:
        raise InvalidArgument("a coworker model is its name and its address; pass coworker_model and coworker_base_url")
    return CoworkerModel(base_url, model, secret_from(key_env))
