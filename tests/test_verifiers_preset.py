"""A preset: what it takes, what it refuses, and that it needs no verifiers."""

from __future__ import annotations

import dataclasses
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from miroir.coworkers import CoworkerModel
from miroir.errors import InvalidArgument
from miroir_verifiers.preset import Preset, measured

URLS = ["http://127.0.0.1:8000", "http://127.0.0.1:8001"]


def calls(record: Any) -> float:
    return float(len(record["steps"]))


def test_the_fleet_alone_is_enough() -> None:
    """The other fields have defaults, and a list of URLs is kept as a tuple that nobody changes."""
    given = list(URLS)
    preset = Preset(given)
    given.clear()

    assert preset == Preset(tuple(URLS), "train", None, None, None, None, {}, {})


@pytest.mark.parametrize("urls", [Path("urls.txt"), "dns://office:8000"])
def test_every_kind_of_fleet_is_taken(urls: Any) -> None:
    """A URL file that need not be there yet, and a DNS name."""
    assert Preset(urls).urls == urls


def test_it_is_frozen_and_pickles() -> None:
    """No field is set again; a worker's process gets an equal one."""
    preset = Preset(URLS, metrics={"calls": calls}, coworker_model=CoworkerModel("http://127.0.0.1:1/v1", "m"))

    with pytest.raises(dataclasses.FrozenInstanceError):
        preset.split = "eval"  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(preset)) == preset


def test_the_coworkers_key_is_not_shown() -> None:
    """Neither in its repr nor in an error that is about the model."""
    preset = Preset(URLS, coworker_model=CoworkerModel("http://127.0.0.1:1/v1", "m", "sk-secret"))
    assert "sk-secret" not in repr(preset)

    with pytest.raises(InvalidArgument) as caught:
        Preset(URLS, coworker_model={"model": "m", "api_key": "sk-secret"})  # type: ignore[arg-type]
    assert caught.value.message == "a preset's coworker_model is a dict; pass a CoworkerModel or None"


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"urls": []}, "urls is empty; pass at least one base URL, such as http://host:port"),
        ({"urls": 3}, "urls is a int; pass a list of base URLs, a pathlib.Path or dns://"),
        (
            {"urls": ["ftp://x"]},
            "'ftp://x' is not a base URL: it does not begin with http:// or https://; write http://host:port",
        ),
        ({"split": ""}, "a preset's split is ''; pass the name of a split"),
        ({"split": None}, "a preset's split is a NoneType; pass the name of a split"),
        ({"surface": "gui"}, "a preset's surface is 'gui'; pass one of api, mcp, code, or None"),
        ({"prompt": "Go."}, "a preset's prompt is 'Go.'; pass a function or None"),
        ({"metrics": [calls]}, "a preset's metrics is a list; pass a dict of functions by name"),
        ({"metrics": {"calls": 3}}, "a preset's metrics['calls'] is a int; pass a function with a plain name"),
        (
            {"rewards": {"miroir": calls}},
            "rewards['miroir'] would hide the environment's own reward; name it otherwise",
        ),
        ({"rewards": {"n/a": calls}}, "a preset's rewards['n/a'] is a function; pass a function with a plain name"),
    ],
)
def test_what_cannot_work_is_refused(fields: dict[str, Any], told: str) -> None:
    """When it is made, by one error that names the field."""
    with pytest.raises(InvalidArgument) as caught:
        Preset(**{"urls": URLS, **fields})
    assert caught.value.message == told


@pytest.mark.parametrize("given", [None, "much", float("nan"), float("inf")])
def test_a_measure_is_a_finite_number(given: Any) -> None:
    """Anything else is an error that names the function, and no score."""
    record: Any = {"steps": [{}] * 3}
    assert measured({"calls": calls, "all": lambda _: True}, record) == {"calls": 3.0, "all": 1.0}
    with pytest.raises(InvalidArgument) as caught:
        measured({"brief": lambda _: given}, record)
    assert caught.value.message == f"a preset's 'brief' gave {given!r} for an episode; return a finite number"


@pytest.mark.parametrize("token_env", ["s3cr3t-t0ken", "", 3])
def test_a_token_in_place_of_its_variable_is_not_shown(token_env: Any) -> None:
    """The error says what to do and keeps to itself what was given."""
    with pytest.raises(InvalidArgument) as caught:
        Preset(URLS, token_env=token_env)
    told = "a preset's token_env is no name of an environment variable; put the token into one"
    assert caught.value.message == told


def test_it_needs_no_verifiers() -> None:
    """Importing presets loads neither verifiers nor a package of another extra."""
    code = (
        "import json, sys, miroir_verifiers.preset, miroir_verifiers.presets;"
        "print(json.dumps([name for name in ('verifiers', 'mcp', 'pydantic', 'starlette') if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert json.loads(done.stdout) == []
