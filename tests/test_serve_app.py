"""The HTTP routes: health, what the server says of itself, the task API, MCP, and the token that guards them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator

import pytest
import requests
from puppet import Puppet
from serveclient import error, health, leased, until
from websockets.exceptions import InvalidStatus

from miroir.serve import catalog, running

TASK_KEYS = {
    "id",
    "task_hash",
    "instruction",
    "persona",
    "coworkers",
    "coworkers_scripted",
    "max_steps",
    "split",
    "tags",
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server that all tests of this module use."""
    with running(Puppet) as base:
        yield base


def post(url: str, body: object) -> tuple[int, dict]:
    """The status and JSON of a POST; text is sent as it is."""
    data = body if isinstance(body, str) else json.dumps(body)
    response = requests.post(url, data=data, timeout=10)
    return response.status_code, response.json()


def test_health_says_what_the_server_is(url: str) -> None:
    """Health has every key of the protocol, and one boot_id for the server's life."""
    said = health(url)
    assert len(said.pop("boot_id")) == 32
    assert said == {
        "status": "healthy",
        "leased": False,
        "sessions": {"active": 0, "max": 1, "peak": 0},
        "episodes": 0,
        "env": {"name": "puppet", "version": "7"},
        "protocol": "miroir/1",
    }
    assert health(url)["boot_id"] == health(url)["boot_id"]


def test_health_answers_while_a_step_is_busy(url: str) -> None:
    """A step that burns the processor does not keep health waiting."""
    with leased(url) as client:
        client.reset()
        client.socket.send(json.dumps({"type": "step", "data": {"tool_name": "work", "arguments": {"seconds": 1}}}))
        begun = time.monotonic()
        assert health(url)["leased"]
        assert time.monotonic() - begun < 0.9
        assert client.receive()["type"] == "observation"


def test_metadata_and_schema_are_openenvs(url: str) -> None:
    """The shapes by which an OpenEnv client knows a tool environment."""
    assert requests.get(f"{url}/metadata", timeout=10).json() == {
        "name": "puppet",
        "description": "does as it is told",
        "readme_content": None,
        "version": "7",
        "author": None,
        "documentation_url": None,
    }
    schema = requests.get(f"{url}/schema", timeout=10).json()
    assert set(schema) == {"action", "observation", "state", "reset_observation"}
    assert schema["action"]["properties"]["type"]["const"] == "call_tool"
    assert "tool_name" in schema["action"]["properties"]


def test_lists_environments_and_splits(url: str) -> None:
    """One environment, its name in any case, and its splits with their types."""
    assert requests.get(f"{url}/list_environments", timeout=10).json() == ["puppet"]
    splits = [{"name": "train", "type": "train"}, {"name": "eval", "type": "validation"}]
    assert requests.get(f"{url}/Puppet/splits", timeout=10).json() == splits
    unknown = requests.get(f"{url}/office/splits", timeout=10)
    assert (unknown.status_code, unknown.json()["detail"]) == (404, "no environment 'office'; this server has puppet")


def test_lists_tasks_with_what_they_left_out(url: str) -> None:
    """Every task has every key of the protocol; only tools is there where the author gave it."""
    status, said = post(f"{url}/puppet/tasks", {"split": "train"})
    assert (status, said["env_name"]) == (200, "puppet")
    assert [task["id"] for task in said["tasks"]] == ["plain", "short", "narrow", "gone"]
    assert set(said["tasks"][0]) == TASK_KEYS
    assert set(said["tasks"][2]) == {*TASK_KEYS, "tools"}
    assert said["tasks"][0]["instruction"] == "Do as you are told."
    assert (said["tasks"][0]["max_steps"], said["tasks"][1]["max_steps"]) == (50, 2)


def test_counts_and_picks_tasks(url: str) -> None:
    """num_tasks, task and task_range are OpenEnv's and ORS's."""
    assert post(f"{url}/puppet/num_tasks", {"split": "train"}) == (200, {"num_tasks": 4})
    status, said = post(f"{url}/puppet/task", {"split": "train", "index": 1})
    assert (status, said["task"]["id"], said["env_name"]) == (200, "short", "puppet")
    _, said = post(f"{url}/puppet/task_range", {"split": "train", "start": 1, "stop": 3})
    assert [task["id"] for task in said["tasks"]] == ["short", "narrow"]
    _, said = post(f"{url}/puppet/task_range", {"split": "train"})
    assert len(said["tasks"]) == 4


@pytest.mark.parametrize(
    ("route", "body", "status", "detail"),
    [
        ("tasks", {"split": "test"}, 400, "no split 'test'; the splits are train, eval"),
        ("task", {"split": "train", "index": 4}, 400, "Invalid task index: 4; the split has 4 tasks"),
        ("task", {"split": "train", "index": -1}, 400, "Invalid task index: -1; the split has 4 tasks"),
        ("task", {"split": "train"}, 400, "Invalid task index: None; the split has 4 tasks"),
        (
            "task_range",
            {"split": "train", "start": 3, "stop": 1},
            400,
            "Invalid task range: 3 to 1; the split has 4 tasks",
        ),
        ("task", {"split": "train", "index": "1"}, 422, "index must be a whole number"),
        ("tasks", {}, 422, 'the body must be an object with a "split"'),
        ("tasks", [], 422, 'the body must be an object with a "split"'),
        ("tasks", {"split": "train", "page": 2}, 422, "unknown in the body: page"),
        ("tasks", "{", 422, "the body is not JSON: Expecting property name"),
        ("tasks", "[" * 50_000, 422, "the body is not JSON: maximum recursion depth"),
        ("tasks", "1" * (1024 * 1024 + 1), 413, "the body is larger than 1048576 bytes"),
    ],
)
def test_refuses_what_it_cannot_list(url: str, route: str, body: object, status: int, detail: str) -> None:
    """A bad request of the task API is answered with its status and reason."""
    answered, said = post(f"{url}/puppet/{route}", body)
    assert (answered, said["detail"][: len(detail)]) == (status, detail)


def test_a_server_whose_environment_cannot_be_made_is_unwell_until_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its health is a 503 with the reason, while nobody holds it; it tries again by itself."""
    monkeypatch.setattr(catalog, "RETRY_S", 0.05)
    down = threading.Event()
    down.set()

    class Moody(Puppet):
        def __init__(self) -> None:
            if down.is_set():
                raise OSError("no database")
            super().__init__()

    with running(Moody) as url:
        reply = requests.get(f"{url}/health", timeout=10)
        assert reply.status_code == 503
        said = reply.json()
        assert (said["status"], said["reason"]) == (
            "unhealthy",
            "the environment could not be made: OSError: no database",
        )
        assert said["leased"] is False
        down.clear()
        until(lambda: health(url)["status"] == "healthy")
        with leased(url) as client:
            client.reset()


def test_lists_are_asked_for_once() -> None:
    """Two clients that list at once get the same rows, of one call, on an instance that no session shares."""
    calls: list[str] = []

    class Slow(Puppet):
        def tasks(self, split: str) -> list:
            calls.append(split)
            time.sleep(0.2)
            return super().tasks(split)

    with running(Slow) as url:
        replies: list[tuple] = []
        threads = [
            threading.Thread(target=lambda: replies.append(post(f"{url}/puppet/tasks", {"split": "eval"})))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        with leased(url) as client:
            client.reset()
        for thread in threads:
            thread.join()
        assert sorted(calls) == ["eval", "train"]
        assert [reply[0] for reply in replies] == [200] * 4


def test_a_list_that_fails_is_asked_for_again() -> None:
    """A failing list is a 500 with its reason and the client's EXECUTION_ERROR, and is not kept."""

    failures = [RuntimeError("no shelf"), RuntimeError("no shelf")]

    class Moody(Puppet):
        def tasks(self, split: str) -> list:
            if failures:
                raise failures.pop()
            return super().tasks(split)

    with running(Moody) as url:
        says = "listing the environment's tasks train failed: RuntimeError: no shelf"
        assert post(f"{url}/puppet/tasks", {"split": "train"}) == (500, {"detail": says})
        with leased(url) as client:
            assert error(client.ask("reset", {"task_id": "plain"}), "EXECUTION_ERROR")["message"] == says
            client.reset()


TASK = {"id": "a", "task_hash": "h", "instruction": "i"}


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"id": 1}, "TypeError: task 0 of split 'train' has no id, which must be text"),
        ({"id": "a", "task_hash": "h"}, "TypeError: task 0 of split 'train' has no instruction, which must be text"),
        ({**TASK, "max_steps": "5"}, "TypeError: max_steps of task 0 of split 'train' must be a whole number above 0"),
        ({**TASK, "max_steps": 0}, "TypeError: max_steps of task 0 of split 'train' must be a whole number above 0"),
        ({**TASK, "tools": "say"}, "TypeError: tools of task 0 of split 'train' must be a list of names"),
    ],
)
def test_an_incomplete_task_is_named(row: dict, says: str) -> None:
    """A task without what every task needs, or of another form, is the author's error, told by its number."""

    class Bad(Puppet):
        def tasks(self, split: str) -> list:
            return [row]

    with running(Bad) as url:
        status, said = post(f"{url}/puppet/tasks", {"split": "train"})
        assert (status, said["detail"]) == (500, f"listing the environment's tasks train failed: {says}")


def test_null_is_as_good_as_left_out() -> None:
    """A listed task has the default in its place; a key of the author's own keeps its null."""

    class Free(Puppet):
        def tasks(self, split: str) -> list:
            return [{**TASK, **dict.fromkeys(["persona", "coworkers", "max_steps", "split", "tags", "tools", "own"])}]

    with running(Free) as url, leased(url) as client:
        [task] = post(f"{url}/puppet/tasks", {"split": "train"})[1]["tasks"]
        assert (task.keys(), task["max_steps"], task["split"]) == ({*TASK_KEYS, "own"}, 50, "train")
        assert (task["own"], None in {**task, "own": 0}.values()) == (None, False)
        client.reset("a")
        assert client.call("say", text="a")["data"]["observation"]["result"]["data"] == "a"


@pytest.mark.parametrize("schema", [{"required": "text"}, {"properties": ["text"]}, []])
def test_a_tool_whose_schema_is_none_is_named(schema: object) -> None:
    """It is the author's error where the tools are listed, and not each caller's."""

    class Bad(Puppet):
        def tools(self, surface: str) -> list:
            return [{"name": "say", "description": "", "inputSchema": schema}]

    with running(Bad) as url:
        assert "failed: TypeError: a tool needs a name and an inputSchema" in rpc(url, "tools/list")["error"]["message"]


def rpc(url: str, method: str, query: str = "", **more: object) -> dict:
    """The reply to a JSON-RPC request."""
    status, said = post(f"{url}/mcp{query}", {"jsonrpc": "2.0", "id": 5, "method": method, **more})
    assert status == 200
    assert (said["jsonrpc"], said["id"]) == ("2.0", 5)
    return said


def test_mcp_introduces_the_server(url: str) -> None:
    """initialize settles on a version of MCP, and a notification is accepted without a reply."""
    told = rpc(url, "initialize", params={"protocolVersion": "2024-11-05"})["result"]
    assert told["protocolVersion"] == "2024-11-05"
    assert told["serverInfo"] == {"name": "puppet", "version": "7"}
    assert rpc(url, "initialize")["result"]["protocolVersion"] == "2025-06-18"
    assert rpc(url, "ping")["result"] == {}
    message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    notified = requests.post(f"{url}/mcp", json=message, timeout=10)
    assert (notified.status_code, notified.content) == (202, b"")


def test_mcp_lists_the_tools_of_a_surface(url: str) -> None:
    """tools/list shows a surface, by default the first, with submit."""
    tools = rpc(url, "tools/list")["result"]["tools"]
    assert set(tools[0]) == {"name", "description", "inputSchema"}
    assert (tools[0]["name"], tools[-1]["name"]) == ("say", "submit")
    grouped = rpc(url, "tools/list", "?surface=mcp")["result"]["tools"]
    assert [tool["name"] for tool in grouped] == ["grouped", "submit"]


@pytest.mark.parametrize(
    ("method", "query", "code", "says"),
    [
        ("tools/list", "?surface=code", -32602, "no surface 'code'; the surfaces are api, mcp"),
        ("tools/call", "", -32000, "tools are called in a session: lease one on /ws"),
        ("prompts/list", "", -32601, "no method 'prompts/list'; there are initialize, ping and tools/list"),
    ],
)
def test_mcp_refuses_the_rest(url: str, method: str, query: str, code: int, says: str) -> None:
    """What needs a session or is unknown is a JSON-RPC error that says what to do."""
    fault = rpc(url, method, query)["error"]
    assert (fault["code"], fault["message"][: len(says)]) == (code, says)


@pytest.mark.parametrize(("body", "code"), [("{", -32700), ([], -32600), ({"jsonrpc": "2.0", "id": 1}, -32600)])
def test_mcp_refuses_what_is_no_request(url: str, body: object, code: int) -> None:
    """A body that is no JSON-RPC is an error without an id."""
    status, said = post(f"{url}/mcp", body)
    assert (status, said["id"], said["error"]["code"]) == (200, None, code)


def test_a_token_guards_everything_but_health() -> None:
    """Without the token every route is 401 and the handshake is refused with 401; health needs none."""
    with running(Puppet, token="s3cret") as url:
        assert requests.get(f"{url}/health", timeout=10).status_code == 200
        needed = "a token is needed; send it as Authorization: Bearer, as --token-env does"
        wrong = "the token is not this server's; check it"
        for authorization, detail in ((None, needed), ("Basic s3cret", needed), ("Bearer wrong", wrong)):
            headers = {"Authorization": authorization}
            refused = requests.get(f"{url}/list_environments", headers=headers, timeout=10)
            assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, "Bearer")
            assert refused.json() == {"detail": detail}
        with pytest.raises(InvalidStatus) as handshake, leased(url, token="wrong"):
            pass
        assert handshake.value.response.status_code == 401
        with pytest.raises(InvalidStatus), leased(url):
            pass
        allowed = requests.get(f"{url}/list_environments", headers={"Authorization": "bearer s3cret"}, timeout=10)
        assert allowed.json() == ["puppet"]
        with leased(url, token="s3cret") as client:
            client.reset()


def test_a_server_without_a_token_is_closed_to_web_pages(url: str) -> None:
    """A request that a web page sent is 403, a handshake too: a browser lets any page reach loopback."""
    refused = requests.get(f"{url}/list_environments", headers={"Origin": "http://evil.example"}, timeout=10)
    assert refused.status_code == 403
    with pytest.raises(InvalidStatus) as handshake, leased(url, Origin="http://evil.example"):
        pass
    assert handshake.value.response.status_code == 403


def test_an_unknown_path_is_not_found(url: str) -> None:
    """Any other path is 404 in JSON, and the wrong method 405."""
    assert requests.get(f"{url}/nowhere", timeout=10).json() == {"detail": "Not Found"}
    assert requests.get(f"{url}/mcp", timeout=10).status_code == 405


class Cut(Puppet):
    """Its texts were cut within a character."""

    def tools(self, surface):
        return [{"name": "say", "description": "half \ud83d", "inputSchema": {"type": "object"}}]

    def tasks(self, split):
        return [{"id": "cut", "task_hash": "h", "instruction": "Say \ud83d."}] if split == "train" else []


def test_texts_that_were_cut_within_a_character_are_listed() -> None:
    """Half of a surrogate pair goes through JSON escaped, and comes back as it was."""
    with running(Cut) as base:
        _, listed = post(f"{base}/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        _, tasks = post(f"{base}/puppet/tasks", {"split": "train"})

    assert listed["result"]["tools"][0]["description"] == "half \ud83d"
    assert tasks["tasks"][0]["instruction"] == "Say \ud83d."
