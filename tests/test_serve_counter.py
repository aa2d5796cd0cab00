"""The example environment over real sockets."""

import json

import requests
from examples.counter import Counter
from websockets.sync.client import connect

from miroir.serve import running


def test_counts_and_is_graded() -> None:
    """An episode of the example is reset, stepped, submitted and graded."""
    with running(Counter) as url, connect(url.replace("http", "ws") + "/ws", compression=None) as socket:

        def ask(kind: str, data: dict) -> dict:
            socket.send(json.dumps({"type": kind, "data": data}))
            return json.loads(socket.recv())

        assert ask("reset", {"task_id": "to-3"})["data"]["observation"] == {"count": 0}
        for number in (1, 2):
            ask("step", {"type": "call_tool", "tool_name": "add", "arguments": {"number": number}})
        assert requests.get(f"{url}/health", timeout=5).json()["leased"]
        reply = ask("step", {"type": "call_tool", "tool_name": "submit", "arguments": {}})
        assert (reply["data"]["reward"], reply["data"]["done"]) == (1.0, True)
        assert ask("record", {})["data"]["metadata"]["success"]
