"""Rules about what a server says of itself over HTTP: health, tasks, tools, token."""

from __future__ import annotations

from typing import Any

from ..wire import SUBMIT
from .link import Refused
from .rules import NotOffered, Rule, require, require_keys, rule
from .subject import Subject

_ABSENT = frozenset({404, 405, 501})
_RANDOM = "no-such-name-of-the-check"


@rule("GET /health needs no token and tells status, leased, sessions, env, protocol and boot_id")
def health(subject: Subject) -> None:
    answer = subject.get("health", token=None)
    require(answer.status == 200 and isinstance(answer.body, dict), "HTTP 200 with a JSON object, without a token")
    require(answer.body["status"] == "healthy", 'status "healthy"')
    if subject.plain:
        raise NotOffered("it says healthy and no more: that it is leased is learnt by a handshake each time")
    wanted: dict[str, Any] = {"leased": bool, "sessions": dict, "env": dict, "protocol": str, "boot_id": str}
    require_keys(answer.body, wanted, "/health")
    require_keys(answer.body["sessions"], {"active": int, "max": int}, "sessions of /health")
    require_keys(answer.body["env"], {"name": str, "version": str}, "env of /health")


@rule("GET /metadata names the environment and its version")
def metadata(subject: Subject) -> None:
    require_keys(subject.get("metadata").body, {"name": str}, "/metadata")


@rule("GET /schema has the JSON schemas of actions, observations and state")
def schema(subject: Subject) -> None:
    body = subject.get("schema").body
    require_keys(body, {"action": dict, "observation": dict, "state": dict}, "/schema")
    kind = body["action"].get("properties", {}).get("type", {})
    if subject.plain and kind.get("const") != "call_tool":
        raise NotOffered("its actions are its own: play it by `act`, a chat model cannot")
    require(kind.get("const") == "call_tool", '"const": "call_tool" in action.properties.type')


@rule("GET /list_environments lists the environment", "no tasks are listed: `run` needs --tasks or --episodes")
def environments(subject: Subject) -> None:
    answer = subject.get("list_environments")
    _offered(subject, answer.status)
    require(isinstance(answer.body, list) and answer.body, "a list of names")
    require(all(isinstance(name, str) for name in answer.body), "names that are text")
    require(subject.plain or answer.body[0] == subject.env.get("name"), "the name that /health tells")


@rule("GET /{env}/splits lists the splits with their types", "there are no splits: `run` needs --tasks or --episodes")
def splits(subject: Subject) -> None:
    answer = subject.get(f"{subject.name}/splits")
    _offered(subject, answer.status)
    require(isinstance(answer.body, list) and answer.body, "a list of splits")
    for row in answer.body:
        require_keys(row, {"name": str, "type": str}, "each split")


@rule("POST /{env}/tasks lists tasks, each with its id", "no tasks are listed: `run` needs --tasks or --episodes")
def tasks(subject: Subject) -> None:
    seen: set[Any] = set()
    for split in subject.splits:
        answer = subject.post(f"{subject.name}/tasks", {"split": split})
        _offered(subject, answer.status)
        require_keys(answer.body, {"tasks": list, "env_name": str}, "the answer")
        for row in answer.body["tasks"]:
            require(isinstance(row, dict), "tasks that are objects")
            if not subject.plain:
                _require_task(row, split)
                require(row["id"] not in seen, f"ids that are there once; {row['id']!r} is there twice")
                seen.add(row["id"])
    if not subject.splits:
        raise NotOffered
    require(subject.plain or subject.task, "a task in one of the splits")


def _require_task(row: dict[str, Any], split: str) -> None:
    wanted: dict[str, Any] = {
        "id": str,
        "task_hash": str,
        "instruction": str,
        "persona": dict,
        "coworkers": list,
        "coworkers_scripted": bool,
        "max_steps": int,
        "split": str,
        "tags": list,
    }
    require_keys(row, wanted, f"task {row.get('id')}")
    require_keys(row["persona"], {"name": str, "description": str}, f"persona of task {row['id']}")
    require(row["task_hash"] and row["max_steps"] > 0, f"task {row['id']}: a task_hash, and max_steps above 0")
    require(row["split"] == split, f"task {row['id']}: the split {split!r}, of which it was listed")


@rule("POST /{env}/num_tasks, /task and /task_range agree with /tasks", "large splits can only be had whole")
def ranges(subject: Subject) -> None:
    split = subject.splits[0] if subject.splits else ""
    listed = subject.post(f"{subject.name}/tasks", {"split": split})
    counted = subject.post(f"{subject.name}/num_tasks", {"split": split})
    _offered(subject, listed.status)
    _offered(subject, counted.status)
    rows = listed.body["tasks"]
    require(counted.body == {"num_tasks": len(rows)}, f'{{"num_tasks": {len(rows)}}}, as many as are listed')
    first = subject.post(f"{subject.name}/task", {"split": split, "index": 0})
    require(isinstance(first.body, dict) and first.body.get("task") == rows[0], "the first listed task as task 0")
    some = subject.post(f"{subject.name}/task_range", {"split": split, "start": 0, "stop": 2})
    require(isinstance(some.body, dict) and some.body.get("tasks") == rows[:2], "the first two listed as range 0 to 2")
    beyond = subject.post(f"{subject.name}/task", {"split": split, "index": len(rows)})
    require(beyond.status == 400, f"HTTP 400 for task {len(rows)}, which is one too many")


@rule(
    "an unknown split is HTTP 400 and names the splits, an unknown environment 404",
    "a misspelt split may pass for an empty one",
    ours=True,
)
def unknown_names(subject: Subject) -> None:
    answer = subject.post(f"{subject.name}/tasks", {"split": _RANDOM})
    require(answer.status == 400, "HTTP 400 for a split that there is not")
    require(all(split in str(answer.body) for split in subject.splits), "the names of the splits in the answer")
    require(subject.post(f"{_RANDOM}/tasks", {"split": "train"}).status == 404, "HTTP 404 for an unknown environment")


@rule("POST /mcp lists the tools by JSON-RPC", "the tools are learnt in a session, or the environment has none")
def tools(subject: Subject) -> None:
    reply = subject.rpc("tools/list")
    if subject.plain and "result" not in reply:
        raise NotOffered
    require(reply.get("jsonrpc") == "2.0" and reply.get("id") == 7, "a JSON-RPC 2.0 reply to request 7")
    require_keys(reply.get("result"), {"tools": list}, "result")
    for tool in reply["result"]["tools"]:
        require_keys(tool, {"name": str, "description": str}, "each tool")
        named = "input_schema" if subject.plain and "input_schema" in tool else "inputSchema"  # OpenEnv before 0.4
        require_keys(tool, {named: dict}, "each tool")
    names = [tool["name"] for tool in reply["result"]["tools"]]
    require(len(names) == len(set(names)), "every name once")
    require(subject.plain or SUBMIT in names, "the tool `submit`")


@rule(
    "/mcp answers initialize and ping, and sends callers of tools and unknown surfaces away",
    "an MCP client cannot look at it",
    ours=True,
)
def json_rpc(subject: Subject) -> None:
    require_keys(subject.rpc("initialize").get("result"), {"protocolVersion": str, "serverInfo": dict}, "initialize")
    require(isinstance(subject.rpc("ping").get("result"), dict), "a result for ping")
    require("error" in subject.rpc("tools/call", name=SUBMIT, arguments={}), "an error for tools/call")
    reply = subject.rpc("tools/list", query=f"?surface={_RANDOM}")
    require("error" in reply, "an error for a surface that there is not")
    require("error" in subject.rpc(_RANDOM), "an error for an unknown method")


@rule(
    "a server with a token refuses everything but /health without it, with 401, handshakes too",
    "whoever reaches it can use it, unless a proxy in front wants a token",
    ours=True,
)
def token(subject: Subject) -> None:
    if subject.token is None:
        raise NotOffered("no token was given; --token-env NAME checks a server that has one")
    for wrong in (None, "not-the-token"):
        which = "without the token" if wrong is None else "with another token"
        require(subject.get("list_environments", token=wrong).status == 401, f"HTTP 401 {which}")
        require(subject.post("mcp", {}, token=wrong).status == 401, f"HTTP 401 {which}")
        try:
            with subject.link(token=wrong):
                pass
        except Refused as refusal:
            require(refusal.status == 401, f"a handshake that is refused with 401 {which}")
        else:
            require(False, f"a handshake that is refused with 401 {which}")


def _offered(subject: Subject, status: int) -> None:
    if subject.plain and status in _ABSENT:
        raise NotOffered
    require(status == 200, "HTTP 200")


RULES: tuple[Rule, ...] = (
    health,
    metadata,
    schema,
    environments,
    splits,
    tasks,
    ranges,
    unknown_names,
    tools,
    json_rpc,
    token,
)
