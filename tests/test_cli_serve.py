"""`miroir serve` as a process: its one line, its port file, its exit codes, and its end."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest
from processes import alive
from serveclient import health, leased, served, until

from miroir.cli import main

HERE = Path(__file__).parent
PUPPET = "puppet:Puppet"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGHUP, 0), (signal.SIGINT, 130)])
def test_ends_on_a_signal(number: int, code: int, tmp_path: Path) -> None:
    """It prints its URL and nothing else, writes its port, and ends with 0 on SIGTERM and SIGHUP, 130 on SIGINT."""
    port_file = tmp_path / "port"
    with served(PUPPET, "--port-file", str(port_file)) as (process, url):
        assert url == f"http://127.0.0.1:{port_file.read_text().strip()}"
        assert [path.name for path in tmp_path.iterdir()] == ["port"]
        assert port_file.read_text().endswith("\n")
        assert health(url)["status"] == "healthy"
        process.send_signal(number)
        out, err = process.communicate(timeout=10)
        assert (process.returncode, out) == (code, "")
        assert err == ("interrupted\n" if code else "")


def test_a_hang_up_is_not_heard_under_nohup() -> None:
    """Where SIGHUP was ignored at its start it still is, and the server lives."""
    with served(PUPPET, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as (process, url):
        process.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        assert health(url)["status"] == "healthy"


def test_ends_while_a_step_runs() -> None:
    """A step that will not end holds up the end by three seconds at most; its client is told by a close."""
    with served(PUPPET) as (process, url), leased(url) as client:
        client.reset()
        client.socket.send('{"type":"step","data":{"tool_name":"work","arguments":{"seconds":60}}}')
        time.sleep(0.2)
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
        assert time.monotonic() - begun < 3


def test_ends_while_its_environment_is_being_made() -> None:
    """SIGTERM ends a server whose environment takes long to be made."""
    with served("puppet:Slow") as (process, line):
        assert line == "being made"
        process.send_signal(signal.SIGTERM)
        assert process.wait(3) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_ends_when_the_pipe_of_its_parent_closes() -> None:
    """With --death-fd it ends by itself within seconds once nobody holds the pipe's other end."""
    reader, writer = os.pipe()
    with served(PUPPET, "--death-fd", str(reader), pass_fds=(reader,)) as (process, url), leased(url) as client:
        os.close(reader)
        client.reset()
        client.socket.send('{"type":"step","data":{"tool_name":"work","arguments":{"seconds":60}}}')
        time.sleep(0.2)
        assert process.poll() is None
        os.close(writer)
        assert until(lambda: process.poll() is not None) < 8


@pytest.mark.parametrize("importing", [False, True])
def test_what_its_environment_started_ends_with_its_parent(importing: bool, tmp_path: Path) -> None:
    """Its own group of processes ends whole once nobody holds the pipe's other end, also while a world is imported."""
    (tmp_path / "slowly.py").write_text("import puppet, time\npuppet.Parent()\ntime.sleep(600)\n")
    reader, writer = os.pipe()
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}:{HERE}"}
    argv = ("slowly:World" if importing else "puppet:Parent", "--death-fd", str(reader))
    with served(*argv, pass_fds=(reader,), start_new_session=True, env=env) as (process, line):
        os.close(reader)
        child = int(line)
        try:
            if not importing:
                assert process.stdout is not None
                assert process.stdout.readline().startswith("http")
            assert alive(child)
            os.close(writer)
            until(lambda: process.poll() is not None)
            assert until(lambda: not alive(child)) < 2
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


def test_reads_the_token_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The token comes from the named variable, and is in no output."""
    monkeypatch.setenv("PUPPET_TOKEN", "s3cret")
    with served(PUPPET, "--token-env", "PUPPET_TOKEN") as (process, url):
        with leased(url, token="s3cret") as client:
            client.reset()
        process.send_signal(signal.SIGTERM)
        assert "s3cret" not in "".join(process.communicate(timeout=10))


def test_listens_on_other_addresses_when_it_is_told_that_anyone_may() -> None:
    """--no-token opens an address that others can reach."""
    with served(PUPPET, "--host", "0.0.0.0", "--no-token", "--max-sessions", "2") as (_, url):
        assert url.startswith("http://0.0.0.0:")
        assert health(url)["sessions"] == {"active": 0, "max": 2, "peak": 0}


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["nowhere"], "no environment 'nowhere'; name one of office, appworld, ors, or package.module:Class"),
        (["nowhere.at:All"], "the environment 'nowhere.at:All': there is no module nowhere"),
        (["puppet:Pulcinella"], "the environment 'puppet:Pulcinella': puppet has no Pulcinella"),
        (["ors"], "ors: the following arguments are required: --url; its own options are --url, --env, --reward"),
        ([PUPPET, "--ulr", "u"], f"{PUPPET}: unrecognized arguments: --ulr u; its own options are none"),
        (["ors", "--url", "here"], "--url 'here' is no base URL; write http://host:port"),
        (["json:JSONDecoder"], "'json:JSONDecoder' is no environment; name a subclass of miroir.serve.Environment"),
        ([PUPPET, "--host", "0.0.0.0"], "0.0.0.0 can be reached by others; use --token-env NAME, or --no-token to"),
        (
            [PUPPET, "--token-env", "UNSET_NAME"],
            "the environment variable UNSET_NAME is empty or not set; put the secret into it",
        ),
        ([PUPPET, "--max-sessions", "0"], "max_sessions is 0; a server needs at least one"),
        ([PUPPET, "--port", "70000"], "70000 is not a port"),
        ([PUPPET, "--port-file", "/nowhere/port"], "the port file /nowhere/port cannot be written: No such file"),
        ([PUPPET, "--death-fd", "999"], "999 is no file descriptor of this process; pass the read end of a pipe"),
    ],
)
def test_a_mistake_is_one_line(argv: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be served is one line on stderr and exit code 2."""
    assert main(["serve", *argv]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"error: INVALID_ARGUMENT: {says}")


def test_a_gateway_without_its_server_ends_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    """An environment that says of its options that they cannot work is not served; it is one line and exit code 2."""
    assert main(["serve", "ors", "--url", "http://127.0.0.1:9"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("error: CONNECTION_FAILED: http://127.0.0.1:9/list_environments: connection refused; is the")
