"""The command line as a whole: exit codes, one-line errors, and no secret in what it says."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from console import miroir, started
from modelserver import Reply, serving
from troubled import Troubled, served

from miroir import cli
from miroir.errors import InvalidArgument

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A container without a token."""
    with served(Troubled) as urls:
        yield urls[0]


@pytest.mark.parametrize(
    ("outcome", "code", "said"),
    [
        (0, 0, ""),
        (1, 1, ""),
        (InvalidArgument("it is\n  wrong; mend it"), 2, "error: INVALID_ARGUMENT: it is wrong; mend it\n"),
        (ValueError("no such thing"), 2, "error: no such thing\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
)
def test_outcomes_have_exit_codes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], outcome: Any, code: int, said: str
) -> None:
    """A command's number is the exit code; its errors are 2 and one line, an interrupt is 130."""

    def command(args: Any) -> int:
        if isinstance(outcome, BaseException):
            raise outcome
        return int(outcome)

    monkeypatch.setattr("miroir.cli.tasks.command", command)

    assert cli.main(["tasks", "urls.txt"]) == code
    assert capsys.readouterr().err == said


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    """`miroir --help` lists every command, and each has a help of its own."""
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    listed = capsys.readouterr().out

    assert all(name in listed for name in cli.COMMANDS)
    for name in cli.COMMANDS:
        with pytest.raises(SystemExit) as done:
            cli.main([name, "--help"])
        assert done.value.code == 0
        assert capsys.readouterr().out.startswith(f"usage: miroir {name}")


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    """`miroir --version` names the installed version."""
    from importlib.metadata import version

    with pytest.raises(SystemExit):
        cli.main(["--version"])

    assert capsys.readouterr().out == f"miroir {version('miroir')}\n"


def test_usage_errors_are_2() -> None:
    """A command line that cannot be parsed ends with 2, as every usage error does."""
    for words in ([], ["fly"], ["run"], ["tasks", "x", "--wait", "long"]):
        with pytest.raises(SystemExit) as done:
            cli.main(words)
        assert done.value.code == 2


def test_an_unknown_option_is_told_with_its_commands_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt option is answered by the command that does not have it, not by `miroir`."""
    with pytest.raises(SystemExit) as done:
        cli.main(["run", "urls.txt", "--out", "x", "--agnt", "y"])
    said = capsys.readouterr().err

    assert done.value.code == 2
    assert said.startswith("usage: miroir run ")
    assert said.endswith("miroir run: error: unrecognized arguments: --agnt y\n")


def test_a_warning_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What the library warns of is told without the place in its code."""
    import warnings

    def command(args: Any) -> int:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("2 of 3 tasks are left out", UserWarning, stacklevel=1)
        return 0

    monkeypatch.setattr("miroir.cli.tasks.command", command)
    cli.main(["tasks", "urls.txt"])

    assert capsys.readouterr().err == "warning: 2 of 3 tasks are left out\n"


def test_a_reader_that_has_enough_is_no_error(tmp_path: Path) -> None:
    """`miroir tasks | head -1` ends without a traceback."""

    class Many(Troubled):
        def tasks(self, split):
            return [{"id": f"t{n}", "task_hash": "h", "instruction": "x" * 100} for n in range(5000)]

    with served(Many) as (url,), started("tasks", url, cwd=tmp_path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("t0")
        process.stdout.close()
        process.wait(30)

        assert process.returncode == 1
        assert process.stderr.read() == ""
        process.stdout = None


def test_an_output_that_takes_no_more_is_one_line_and_2(url: str) -> None:
    """A full disk behind standard output ends a command like any other fault of its surroundings."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "miroir", "tasks", url], stdout=full, stderr=subprocess.PIPE, text=True
        )

    assert done.returncode == 2
    assert done.stderr == "error: no more can be written: No space left on device; free space, or name another place\n"


# Bad input, through the console script


def used_port() -> Iterator[int]:
    """A port that is in use."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield taken.getsockname()[1]


Case = tuple[Callable[[str, Path], list[object]], str]
AGENT = ["--agent", "playing:says"]
BAD: dict[str, Case] = {
    "unknown environment": (
        lambda url, tmp: ["serve", "nope"],
        "no environment 'nope'; name one of office",
    ),
    "unknown environment of a pool": (
        lambda url, tmp: ["pool", "--env", "nope", "-n", 1, "--urls", tmp / "u.txt"],
        "no environment 'nope'; name one of office",
    ),
    "unknown environment class": (
        lambda url, tmp: ["serve", "troubled:Nobody"],
        "troubled has no Nobody; check its spelling",
    ),
    "unknown split": (
        lambda url, tmp: ["tasks", url, "--split", "nope"],
        "no split 'nope'",
    ),
    "unknown split of a run": (
        lambda url, tmp: ["run", url, "--out", tmp, "--split", "nope", *AGENT],
        "no split 'nope'",
    ),
    "unknown task": (
        lambda url, tmp: ["run", url, "--out", tmp, "--task", "nope", *AGENT],
        "there is no task 'nope'; `miroir tasks` lists them",
    ),
    "unknown agent module": (
        lambda url, tmp: ["run", url, "--out", tmp, "--agent", "nope:play"],
        "there is no module nope; install it or go to its directory",
    ),
    "unknown agent function": (
        lambda url, tmp: ["run", url, "--out", tmp, "--agent", "playing:nope"],
        "playing has no nope; check its spelling",
    ),
    "agent that is no function": (
        lambda url, tmp: ["run", url, "--out", tmp, "--agent", "playing:not_callable"],
        "playing:not_callable cannot be called; name a function that plays",
    ),
    "dead model endpoint": (
        lambda url, tmp: ["run", url, "--out", tmp, "--model", "m", "--base-url", "http://127.0.0.1:9/v1"],
        "http://127.0.0.1:9/v1",
    ),
    "model endpoint that is no URL": (
        lambda url, tmp: ["run", url, "--out", tmp, "--model", "m", "--base-url", "localhost:8000"],
        "is not a base URL",
    ),
    "unwritable folder": (
        lambda url, tmp: ["run", url, "--out", "/proc/traces", *AGENT],
        "/proc/traces cannot hold records (No such file or directory); name a folder that can be written",
    ),
    "unwritable folder of a demo": (
        lambda url, tmp: ["demo", "--dir", "/proc/demo"],
        "/proc/demo cannot hold the demo (No such file or directory); name a writable folder",
    ),
    "URL file with junk": (
        lambda url, tmp: ["run", write(tmp / "junk.txt", "what is this\n"), "--out", tmp, *AGENT],
        "junk.txt, line 1",
    ),
    "no URL file": (
        lambda url, tmp: ["run", tmp / "none.txt", "--out", tmp, *AGENT],
        "miroir pool",
    ),
    "nothing alive": (
        lambda url, tmp: ["tasks", "http://127.0.0.1:9", "--wait", 0.1],
        "none of 1 containers is alive (http://127.0.0.1:9: ",
    ),
    "no token in the environment": (
        lambda url, tmp: ["tasks", url, "--token-env", "NO_SUCH_VARIABLE"],
        "the environment variable NO_SUCH_VARIABLE is empty or not set; put the secret into it",
    ),
}


def write(path: Path, text: str) -> Path:
    """A file with the text."""
    path.write_text(text)
    return path


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_2(url: str, tmp_path: Path, case: str) -> None:
    """Each mistake of a user is one line that says what to do, and exit code 2; nothing is left running."""
    words, expected = BAD[case]

    done = miroir(*words(url, tmp_path), cwd=HERE)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert expected in done.stderr


def test_a_port_in_use_is_one_line_and_2() -> None:
    """The port is named, and what to do about it."""
    for port in used_port():
        done = miroir("serve", "office", "--port", port)

        assert (done.returncode, done.stdout) == (2, "")
        assert f"port {port} of 127.0.0.1 is in use; choose another, or 0 for a free one\n" in done.stderr
        assert done.stderr.count("\n") == 1


def test_secrets_are_never_said(tmp_path: Path) -> None:
    """A wrong token and a refused key are one line and exit 2, without either; no file holds them."""
    env = {"TOKEN": "wrong-t0ken", "KEY": "sk-s3cret"}
    refusal = Reply({"error": {"message": "Incorrect API key provided: sk-s3cret"}}, 401)
    with (
        served(Troubled, token="right") as (guarded,),
        served(Troubled) as (free,),
        serving([], models=refusal) as model,
    ):
        words = ["--token-env", "TOKEN"]
        chat = ["--model", "m", "--base-url", model.base_url, "--api-key-env", "KEY"]
        runs = [
            miroir("tasks", guarded, *words, env=env),
            miroir("run", guarded, "--out", tmp_path, *words, *AGENT, env=env, cwd=HERE),
            miroir("run", free, "--out", tmp_path, *chat, env=env),
            miroir(
                "run",
                free,
                "--out",
                tmp_path,
                *AGENT,
                "--coworker-model",
                "m",
                "--coworker-base-url",
                model.base_url,
                "--coworker-api-key-env",
                "KEY",
                env=env,
                cwd=HERE,
            ),
        ]

    assert [(run.returncode, run.stderr.count("\n")) for run in runs] == [(2, 1)] * 4
    assert all("the token is not this server's; check it" in run.stderr for run in runs[:2])
    assert all(f"{model.base_url}/chat/completions" in run.stderr for run in runs[2:])
    said = "".join(run.stdout + run.stderr for run in runs) + "".join(p.read_text() for p in tmp_path.rglob("*.jsonl"))
    assert "wrong-t0ken" not in said
    assert "sk-s3cret" not in said
