"""The conformance check: it passes what keeps the protocol, and finds each planted fault with its evidence."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from fakefleet import FakeFleet
from faultyserver import FAULTS, TOKEN, Fault, LeavesADoorOpen
from puppet import Puppet

from miroir.check import RULES, Outcome, Report, check, playing, subject
from miroir.cli import main
from miroir.envs.office import Office
from miroir.errors import ConnectionFailed, InvalidArgument, NoFreeContainer
from miroir.serve import running, server


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the check waits for comes at once, or not at all."""
    monkeypatch.setattr(playing, "DEADLINE_S", 0.1)
    monkeypatch.setattr(playing, "LATE_S", 1.0)
    monkeypatch.setattr(subject, "SETTLE_S", 0.5)


def outcomes(report: Report, outcome: Outcome) -> set[str]:
    """The rules of which that became."""
    return {finding.rule for finding in report.findings if finding.outcome is outcome}


@pytest.mark.parametrize("environment", [Puppet, Office])
def test_passes_what_keeps_the_protocol(environment: Any) -> None:
    """Every rule is kept; a token was not given, and there is one session."""
    with running(environment) as url:
        report = check(url)

    assert report.broken == []
    assert outcomes(report, Outcome.NOT_OFFERED) == {"token", "two-clients"}
    assert outcomes(report, Outcome.NOT_REACHED) == set()
    assert len(report.findings) == len(RULES)


def test_passes_a_server_with_a_token_and_two_sessions() -> None:
    """Then these rules are tested too, and the token is in no finding."""
    with running(Puppet, token=TOKEN, max_sessions=2) as url:
        report = check(url, TOKEN, task_id="short")

    assert report.broken == []
    assert outcomes(report, Outcome.KEPT) == {rule.name for rule in RULES}
    assert TOKEN not in json.dumps(report.as_dict())


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[tuple[type[Fault], str]]:
    """A server with the fault of the parameter."""
    fault: type[Fault] = request.param
    create_app = server.create_app
    monkeypatch.setattr(server, "create_app", lambda *args, **options: fault(create_app(*args, **options)))
    with running(Puppet, max_sessions=fault.max_sessions) as url:
        yield fault, url


@pytest.mark.parametrize("faulty", FAULTS, indirect=True, ids=lambda fault: fault.__name__)
def test_finds_a_planted_fault(faulty: tuple[type[Fault], str]) -> None:
    """The rule is broken, and the finding says what was wanted, what was sent and what came back."""
    fault, url = faulty
    [found] = check(url, TOKEN if fault is LeavesADoorOpen else None, only=[fault.rule]).findings

    assert (found.rule, found.outcome) == (fault.rule, Outcome.BROKEN)
    assert found.detail
    assert found.sent


def test_a_broken_rule_is_exit_code_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The findings are on stdout, broken ones first with their evidence, as text or as JSON."""
    create_app = server.create_app
    monkeypatch.setattr(server, "create_app", lambda *args, **options: Fault(create_app(*args, **options)))
    monkeypatch.setattr(Fault, "http", lambda self, path, status, body, headers: (status, {**body, "leased": 1}))
    with running(Puppet) as url:
        assert main(["check", url, "--only", "first-frame", "--only", "health"]) == 1
        text = capsys.readouterr().out
        assert main(["check", url, "--only", "health", "--json"]) == 1
        said = json.loads(capsys.readouterr().out)

    assert text.startswith("broken       health: GET /health needs no token")
    assert (
        "\n             /health: leased as bool\n             sent     GET /health\n             received HTTP 200 {"
        in text
    )
    assert "\nkept         first-frame: " in text
    assert [(finding["rule"], finding["outcome"]) for finding in said["findings"]] == [("health", "broken")]


def test_a_server_that_is_leased_is_not_checked() -> None:
    """Somebody's episode is not disturbed."""
    with FakeFleet("held") as fleet, pytest.raises(NoFreeContainer, match=r"cannot be leased .*CAPACITY_REACHED"):
        check(fleet.urls[0])


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        ("half", "the handshake was refused|rejected"),
        ("first", "the connection was closed .* where the first frame was due"),
    ],
)
def test_what_is_no_environment_server_is_an_error(mode: str, says: str) -> None:
    """It has a health, and no session."""
    with FakeFleet(mode) as fleet, pytest.raises(ConnectionFailed, match=says):
        check(fleet.urls[0])


def test_a_newer_protocol_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that does not know the rules must not say that they are broken."""
    create_app = server.create_app
    monkeypatch.setattr(server, "create_app", lambda *args, **options: Fault(create_app(*args, **options)))
    monkeypatch.setattr(
        Fault, "http", lambda self, path, status, body, headers: (status, {**body, "protocol": "miroir/2"})
    )
    with running(Puppet) as url, pytest.raises(InvalidArgument, match="speaks miroir/2, this check knows miroir/1"):
        check(url)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        (
            "http://127.0.0.1:9",
            "error: CONNECTION_FAILED: http://127.0.0.1:9: http://127.0.0.1:9/health: connection refused",
        ),
        ("127.0.0.1:9", "error: INVALID_ARGUMENT: '127.0.0.1:9' is not a base URL"),
    ],
)
def test_nothing_to_check_is_exit_code_2(url: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line on stderr."""
    assert main(["check", url]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(says)
    assert err.count("\n") == 1


def test_the_minute_is_kept() -> None:
    """What the time does not suffice for is not reached, and not called kept."""
    with running(Puppet) as url:
        report = check(url, limit_s=0.0)

    assert outcomes(report, Outcome.NOT_REACHED) == {rule.name for rule in RULES}
    assert report.text().endswith("s")


def bent(monkeypatch: pytest.MonkeyPatch, **methods: Any) -> None:
    """Have servers bend what they answer by these methods of a fault."""
    create_app = server.create_app
    monkeypatch.setattr(server, "create_app", lambda *args, **options: Fault(create_app(*args, **options)))
    for name, method in methods.items():
        monkeypatch.setattr(Fault, name, method)


def test_a_server_that_takes_its_time_does_not_keep_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule whose answers come late is given up when the time is over, and is not called broken."""

    def late(self: Fault, request: Any, frame: Any) -> Any:
        if request and request.get("type") == "step":
            time.sleep(0.5)
        return frame

    bent(monkeypatch, reply=late)
    with running(Puppet) as url:
        began = time.monotonic()
        report = check(url, task_id="plain", only=["max-steps"], limit_s=2.0)
        took = time.monotonic() - began

    assert [(found.outcome, found.detail) for found in report.findings] == [
        (Outcome.NOT_REACHED, "the time of the check was over")
    ]
    assert took < 10


NESTED = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    ("rule", "says"),
    [("first-frame", "a frame that is not JSON: it is nested too deeply"), ("metadata", "/metadata: a JSON object")],
)
def test_json_that_nobody_can_read_is_broken(rule: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However deep it is nested, in a frame or over HTTP."""
    dumps = json.dumps
    monkeypatch.setattr("faultyserver.json.dumps", lambda value: dumps(value).replace('"nested"', NESTED))
    frames = iter(range(1_000))
    bent(
        monkeypatch,
        http=lambda self, path, status, body, headers: (status, "nested" if path == "/metadata" else body),
        reply=lambda self, request, frame: frame if next(frames) == 0 else {**frame, "data": "nested"},
    )
    with running(Puppet) as url:
        [found] = check(url, only=[rule]).findings

    assert (found.outcome, found.detail) == (Outcome.BROKEN, says)


def test_numbers_beyond_all_numbers_are_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """1e999 reads as infinite, which is no number of steps."""
    task = {"id": "plain", "max_steps": float("inf")}
    monkeypatch.setattr(subject.Subject, "task", task)
    with running(Puppet) as url:
        [found] = check(url, only=["record"]).findings

    assert found.outcome is Outcome.BROKEN
    assert "an answer of the right form (OverflowError" in found.detail


def test_text_that_was_cut_within_a_character_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half of a surrogate pair is spelt, in text and in JSON."""
    name = {"name": "\ud83d", "version": "1"}
    bent(
        monkeypatch,
        http=lambda self, path, status, body, headers: (status, {**body, "env": name} if path == "/health" else body),
    )
    with running(Puppet) as url:
        assert main(["check", url, "--only", "first-frame"]) == 0
        text = capsys.readouterr().out
        assert main(["check", url, "--only", "first-frame", "--json"]) == 0

    assert f"{url} (\\ud83d 1, miroir/1): 1 kept" in text
    assert json.loads(capsys.readouterr().out)["env"] == name
