"""What servers offer to whoever plays on them: the same of ours and of plain ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openenvstub import TOOL_SCHEMA, Stub, openenv_stub
from puppet import Puppet

from miroir.cli import main
from miroir.errors import HttpError, InvalidArgument
from miroir.run.offer import Offer
from miroir.serve import running

ROUTES = {
    "schema": TOOL_SCHEMA,
    "metadata": {"name": "peer", "version": "2"},
    "list_environments": ["peer"],
    "peer/tasks": {"tasks": [{"id": "a"}, {"question": "why?", "reset": {"seed": 3}}], "env_name": "peer"},
}


@pytest.fixture
def stub() -> Iterator[Stub]:
    """A plain server that lists tasks."""
    with openenv_stub(ROUTES) as server:
        yield server


def test_ours_lists_its_tools_and_tasks() -> None:
    """Of a surface, and of each split once."""
    with running(Puppet) as url:
        offer = Offer.of(url, None, "mcp")
        assert (offer.plain, offer.env) == (False, {"name": "puppet", "version": "7"})
        assert [tool["name"] for tool in offer.tools] == ["grouped", "submit"]
        tasks = offer.tasks(["eval", "train", "eval"])
    assert [task["id"] for task in tasks] == ["held-out", "plain", "short", "narrow", "gone"]
    assert "reset" not in tasks[0]


def test_a_plain_servers_tasks_are_reset_by_split_and_index(stub: Stub) -> None:
    """A row without an id gets one; its own options are kept."""
    offer = Offer.of(stub.url, None)
    assert (offer.plain, offer.env, offer.tools) == (True, {"name": "peer", "version": "2"}, ())
    first, second = offer.tasks(["train"])
    assert first["reset"] == {"task_id": "a", "split": "train", "index": 0}
    assert second["reset"] == {"task_id": "train-1", "split": "train", "index": 1, "seed": 3}
    assert (first["split"], len(first["task_hash"])) == ("train", 64)


@pytest.mark.parametrize("status", [404, 501])
def test_a_plain_server_without_tasks_says_what_to_do(stub: Stub, status: int) -> None:
    """Any other failure is told as it is."""
    stub.answers["peer/tasks"] = status
    with pytest.raises(InvalidArgument, match=r"lists no tasks; name a file of them \(--tasks\), or say how many"):
        Offer.of(stub.url, None).tasks(["train"])
    stub.answers["peer/tasks"] = 400
    with pytest.raises(HttpError):
        Offer.of(stub.url, None).tasks(["train"])


def test_a_plain_server_has_no_surfaces(stub: Stub) -> None:
    """It would drop the wish without a word."""
    with pytest.raises(InvalidArgument, match="is a plain OpenEnv server and has no surfaces; leave out 'code'"):
        Offer.of(stub.url, None, "code")


def test_the_token_is_in_no_repr(stub: Stub) -> None:
    """An offer may be logged."""
    assert "s3cret" not in repr(Offer.of(stub.url, "s3cret"))


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ({"health": {"hello": "world"}}, "CONNECTION_FAILED: none of 1 containers is alive"),
        ({"health": {"status": "healthy", "protocol": "miroir/2"}}, "INVALID_ARGUMENT: http://127.0.0.1:"),
        ({**ROUTES, "peer/tasks": {"tasks": [{"id": 7}]}}, "INVALID_ARGUMENT: the id of task 0 of train is 7; it must"),
    ],
)
def test_what_cannot_be_played_on_is_one_line(
    answers: dict[str, Any], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No environment server, a newer protocol, a task of the wrong form: exit code 2."""
    with openenv_stub(answers) as stub:
        assert main(["run", stub.url, "--out", str(tmp_path), "--agent", "playing:says", "--wait", "0.2"]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"error: {says}")
    assert err.count("\n") == 1
