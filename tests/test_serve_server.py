"""Serving on a port: what is listened on, what a failed start says, and what is left when it ends."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time

import pytest
import requests
from puppet import Puppet
from serveclient import health, leased, until

from miroir.errors import InvalidArgument
from miroir.serve import create_app, running, serve


def test_running_leaves_nothing() -> None:
    """When the block ends no thread, socket or world is left, though a session was open."""
    before = set(threading.enumerate())
    with running(Puppet) as url:
        opened = leased(url)
        client = opened.__enter__()
        client.reset()
        assert Puppet.alive == 2
    until(lambda: set(threading.enumerate()) - before <= {client.socket.recv_events_thread})
    assert Puppet.alive == 0
    with pytest.raises(requests.ConnectionError):
        health(url)
    opened.__exit__(None, None, None)


def test_running_ends_while_a_step_runs() -> None:
    """A step that runs holds up the end by two seconds at most."""
    with running(Puppet) as url:
        with leased(url) as client:
            client.reset()
            client.socket.send('{"type":"step","data":{"tool_name":"sleep","arguments":{"seconds":3}}}')
        begun = time.monotonic()
    assert time.monotonic() - begun < 2.5
    until(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("miroir-world")])


def test_servers_stand_side_by_side() -> None:
    """Each server has its port, its sessions and its boot_id."""
    with running(Puppet) as one, running(Puppet) as two, leased(one) as client:
        client.ask("state")
        assert health(one)["leased"]
        assert not health(two)["leased"]
        assert health(one)["boot_id"] != health(two)["boot_id"]


@pytest.mark.parametrize("allow_code", [True, False])
def test_allows_code_only_when_told_to(allow_code: bool) -> None:
    """Every instance of any factory knows whether the server may run what a model writes."""
    allowed: list[bool] = []

    class Coder(Puppet):
        def tools(self, surface: str) -> list:
            allowed.append(self.allow_code)
            return super().tools(surface)

        def say(self, text: str) -> str:
            allowed.append(self.allow_code)
            return text

    with running(lambda: Coder(), allow_code=allow_code) as url, leased(url) as client:
        assert health(url)["env"] == {"name": "puppet", "version": "7"}
        client.reset()
        client.call("say", text="a")
    assert allowed == [allow_code, allow_code]


def test_a_port_in_use_is_said() -> None:
    """A port that another server has is an InvalidArgument that says what to do."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(InvalidArgument) as refused:
            serve(Puppet, port=port)
    assert refused.value.message == f"port {port} of 127.0.0.1 is in use; choose another, or 0 for a free one"


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"port": 70000}, "70000 is not a port; choose one from 1 to 65535, or 0 for a free one"),
        ({"host": "192.0.2.1"}, "192.0.2.1 is no address of this machine: Cannot assign requested address; choose one"),
        ({"host": "no host"}, "no host is no address of this machine: Name or service not known; choose one that is"),
        ({"max_sessions": 0}, "max_sessions is 0; a server needs at least one"),
    ],
)
def test_an_impossible_server_is_refused(how: dict, says: str) -> None:
    """What cannot be served is refused before anything runs."""
    with pytest.raises(InvalidArgument) as refused:
        serve(Puppet, **how)
    assert refused.value.message.startswith(says)


def test_is_an_asgi_application() -> None:
    """The application can be run by any ASGI server."""
    app = create_app(Puppet)
    assert {route.path for route in app.routes} >= {"/health", "/ws", "/mcp", "/{env}/tasks"}


@pytest.mark.parametrize("missing", ["starlette", "uvicorn"])
def test_names_the_missing_extra(missing: str) -> None:
    """Without the extra an environment can be written, and serving it says what to install."""
    code = f"""
import sys
sys.modules[{missing!r}] = None
from miroir.errors import MissingExtra
from miroir.serve import Environment, serve
try:
    serve(Environment)
except MissingExtra as error:
    print(error.message)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert ran.stdout == f"{missing} is not installed; pip install 'miroir[serve]'\n", ran.stderr


def test_importing_the_kit_loads_no_server() -> None:
    """Writing an environment loads neither starlette nor uvicorn nor asyncio's machinery of the server."""
    code = "import sys, miroir.serve; print({'starlette', 'uvicorn'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert ran.stdout == "set()\n"
