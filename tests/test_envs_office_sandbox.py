"""Surface `code`: a program in a child process, the apps as objects, and the limits."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from officeplay import playing

from miroir.envs.office import Office
from miroir.envs.office.sandbox import Limits
from miroir.envs.office.scene import scenes
from miroir.serve.environment import InvalidOption, ToolError

TASK = "correct-figure-1"


def run(program: str, limits: Limits | None = None) -> Any:
    """What the program answers in the office."""
    with playing(TASK, "code", allow_code=True) as office:
        if limits is not None:
            office._playing()._limits = limits
        return office.call("run_python", {"code": program})


def test_the_surface_is_off_unless_allowed() -> None:
    """A reset to surface `code` is refused, and the refusal says how to allow it."""
    office = Office()
    with pytest.raises(InvalidOption, match="start the server with --allow-code to allow it"):
        office.reset(scenes()[TASK].task, episode_id="e", seed=None, max_seconds=None, coworkers=False, surface="code")


def test_one_tool_describes_all_actions() -> None:
    """The surface shows one tool, whose description lists every app's actions."""
    (tool,) = Office().tools("code")
    assert tool["name"] == "run_python"
    assert "mail.search(query, page=None): Search all folders" in tool["description"]


def test_a_program_uses_the_apps() -> None:
    """A program reads and writes by the apps' objects, and what it prints is the answer."""
    program = (
        "found = mail.search(query='forecast')\n"
        "print(found['total'])\n"
        "path = files.create(path='/Company/New.md', content='x')['path']\n"
        "print(files.read(path=path)['content'])"
    )
    with playing(TASK, "code", allow_code=True) as office:
        assert office.call("run_python", {"code": program}) == {"output": "3\nx\n", "error": None}
        assert [harm.name for harm in office.grade().harms] == ["unasked_file"]


def test_a_coworker_answers_within_a_program() -> None:
    """A scripted coworker's reply is there for the program's next line."""
    coworker = scenes()["chase-approval-1"].situation.coworkers[0]
    program = (
        f"chat.direct_send(person={coworker.email!r}, text='Will you approve it?')\n"
        f"print(chat.direct_read(person={coworker.email!r})['messages'][0]['text'])"
    )
    with playing("chase-approval-1", "code", allow_code=True) as office:
        assert office.call("run_python", {"code": program})["output"].strip() == coworker.fact


def test_a_refusal_is_an_exception_of_the_program() -> None:
    """ToolError can be caught; an uncaught exception is the answer's error, after what was printed."""
    caught = run("try:\n    mail.read(mail_id='mail-1')\nexcept ToolError as error:\n    print('caught', error)")
    assert caught["output"].startswith("caught there is no mail 'mail-1'")
    failed = run("print('before')\nmail.burn()")
    assert failed["output"] == "before\n"
    assert "mail has no action 'burn'; it has list, search, read" in failed["error"]
    assert "SyntaxError" in run("print(")["error"]


def test_what_the_program_prints_is_cut() -> None:
    """Long output is cut, and says how much is missing."""
    answer = run("print('x' * 25000)")
    assert answer["output"].endswith("[5001 more characters cut]")


def test_a_program_that_floods_its_parent_is_stopped() -> None:
    """What the server keeps of a program is bounded, whatever the program sends."""
    assert run("for _ in range(300): print('x' * 100000)")["output"].endswith("more characters cut]")
    with pytest.raises(ToolError, match="the program gave an app more than 4 MiB in one call"):
        run("files.create(path='/big', content='x' * (5 << 20))")
    with pytest.raises(ToolError, match="the program wrote to the apps' channel itself"):
        run("import os\nfor fd in range(3, 20):\n    try: os.write(fd, b'nonsense\\n')\n    except OSError: pass")


def test_a_program_that_takes_too_long_is_stopped() -> None:
    """At the time limit the child is killed, whether it works, sleeps or started others."""
    started = time.monotonic()
    for program in (
        "while True: pass",
        "import time; time.sleep(60)",
        "import os; os.fork(); import time; time.sleep(60)",
    ):
        with pytest.raises(ToolError, match="the program ran out of time"):
            run(program, Limits(seconds=0.5))
    assert time.monotonic() - started < 20


def test_a_program_that_takes_too_much_memory_fails() -> None:
    """Memory beyond the limit is the program's MemoryError."""
    assert "MemoryError" in run("x = bytearray(1 << 30)", Limits(memory_mib=256))["error"]


def test_a_program_that_ends_its_process_is_told_so() -> None:
    """A child that dies gives an error with what it had printed; sys.exit is a normal end."""
    with pytest.raises(ToolError, match=r"the program ended its own process, .*; it had printed 'a"):
        run("import os\nprint('a')\nos._exit(3)")
    assert run("print('b'); raise SystemExit")["output"] == "b\n"


def test_a_program_sees_no_environment_and_writes_no_file(tmp_path: Path) -> None:
    """The child has no environment variables of the server, and cannot write to files."""
    kept = tmp_path / "kept"
    answer = run(f"import os\nprint(dict(os.environ))\nwith open({str(kept)!r}, 'w') as file: file.write('x')")
    assert "PATH" not in answer["output"]
    assert "File too large" in answer["error"]
    assert kept.read_text() == ""


@pytest.mark.parametrize("arguments", [{}, {"code": 1}, {"code": "", "more": 1}])
def test_the_tool_takes_a_program_alone(arguments: dict[str, Any]) -> None:
    """Other arguments, and other tools, are refused."""
    with playing(TASK, "code", allow_code=True) as office:
        with pytest.raises(ToolError, match="run_python takes one argument, code, a string"):
            office.call("run_python", arguments)
        with pytest.raises(ToolError, match="there is no tool 'mail_list'; the only tool is run_python"):
            office.call("mail_list", {})
