"""Settings of both majors of verifiers: what is given wins over the preset, and what cannot work is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import miroir_verifiers.settings
from miroir.catalog import opening
from miroir.coworkers import CoworkerModel
from miroir.errors import InvalidArgument
from miroir_verifiers import Preset
from miroir_verifiers.settings import OPTIONS, Settings, refuse_unknown, settings

URL = "http://10.0.0.1:8000"
FRIENDS = CoworkerModel("http://10.0.0.2/v1", "friend")
PRESET = Preset(
    ["http://10.0.0.9:8000"],
    split="hard",
    surface="mcp",
    token_env="PRESET_TOKEN",
    coworker_model=FRIENDS,
    prompt=lambda task, tools, observation: "Go.",
    metrics={"moves": lambda record: 3.0},
    rewards={"brief": lambda record: 0.5},
)


@pytest.fixture
def _preset(monkeypatch: pytest.MonkeyPatch) -> None:
    """A preset that is installed as `crm`."""
    monkeypatch.setenv("PRESET_TOKEN", "t0ken")
    monkeypatch.setattr(miroir_verifiers.settings, "find", {"crm": PRESET}.__getitem__)


def test_a_fleet_is_all_that_is_needed() -> None:
    """The rest has defaults."""
    assert settings(urls=URL) == Settings([URL])
    made = settings(urls=[URL])
    assert (made.split, made.token, made.prompt, made.traces) == ("train", None, opening, None)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("urls.txt", Path("urls.txt")),
        (Path("urls.txt"), Path("urls.txt")),
        (["urls.txt"], Path("urls.txt")),
        ("dns://pool:80", "dns://pool:80"),
        ([URL, "http://b"], [URL, "http://b"]),
    ],
)
def test_a_fleet_is_named_as_on_the_command_line(given: object, kept: object) -> None:
    """A URL file, base URLs, or a DNS name."""
    assert settings(urls=given).urls == kept


@pytest.mark.usefixtures("_preset")
def test_a_preset_gives_what_is_not_set() -> None:
    """All of it."""
    made = settings(preset="crm", urls=[])
    assert (made.urls, made.split, made.surface) == (("http://10.0.0.9:8000",), "hard", "mcp")
    assert (made.token, made.coworker_model, made.prompt) == ("t0ken", FRIENDS, PRESET.prompt)
    assert (made.metrics, made.rewards) == (PRESET.metrics, PRESET.rewards)
    assert "t0ken" not in repr(made)


@pytest.mark.usefixtures("_preset")
def test_what_is_set_wins_over_the_preset(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each setting by itself."""
    monkeypatch.setenv("OWN_TOKEN", "0wn")
    made = settings(
        preset="crm",
        urls=URL,
        split="train",
        token_env="OWN_TOKEN",
        surface="api",
        coworker_model="m",
        coworker_base_url="http://10.0.0.3/v1",
        max_seconds=60,
        traces="out",
    )
    assert (made.urls, made.split, made.surface, made.token) == ([URL], "train", "api", "0wn")
    assert made.coworker_model == CoworkerModel("http://10.0.0.3/v1", "m")
    assert (made.max_seconds, made.traces, made.prompt) == (60, Path("out"), PRESET.prompt)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "no fleet is named; pass urls (a URL file, base URLs or dns://name:port), or a preset"),
        ({"urls": URL, "max_seconds": 0}, "an episode of 0 s is none; give max_seconds at least one"),
        (
            {"urls": URL, "coworker_base_url": "http://a/v1"},
            "a coworker model is its name and its address; pass coworker_model and coworker_base_url",
        ),
        (
            {"urls": URL, "token_env": "NOT_THERE"},
            "the environment variable NOT_THERE is empty or not set; put the secret into it",
        ),
    ],
)
def test_what_cannot_work_is_refused(given: dict[str, object], said: str) -> None:
    """With what to do."""
    with pytest.raises(InvalidArgument) as caught:
        settings(**given)
    assert caught.value.message == said


def test_an_option_that_is_not_known_is_refused() -> None:
    """With those that are."""
    refuse_unknown(["urls", "keep"], OPTIONS)
    with pytest.raises(InvalidArgument) as caught:
        refuse_unknown(["url", "urls"], ["urls", "split"])
    assert caught.value.message == (
        "load_environment has no option 'url' with the verifiers that is installed; it has split, urls"
    )
