"""What a session costs over loopback: a server process on one side, a plain client on the other."""

from __future__ import annotations

import json
import time

import pytest
import requests
from serveclient import Client, leased, served

pytestmark = pytest.mark.bench

STEPS = 1000
SLACK = 3  # how much slower a busy machine may be than the figures in the docstrings


def percentile(times: list[float], share: float) -> float:
    """The time in milliseconds that the share of them does not exceed."""
    return sorted(times)[min(len(times) - 1, int(len(times) * share))] * 1000


def timed(client: Client, kind: str, data: dict) -> float:
    """Seconds for one exchange."""
    begun = time.perf_counter()
    reply = client.ask(kind, data)
    assert reply["type"] == "observation", reply
    return time.perf_counter() - begun


def test_a_step_costs_little() -> None:
    """A step of a trivial environment takes 0.8 ms at the median."""
    step = {"type": "call_tool", "tool_name": "say", "arguments": {"text": "a"}}
    times = []
    with served("puppet:Puppet") as (_, url), leased(url) as client:
        for number in range(STEPS):
            if number % 40 == 0:
                client.reset()
            times.append(timed(client, "step", step))
    print(f"step p50 {percentile(times, 0.5):.3f} ms, p99 {percentile(times, 0.99):.3f} ms")
    assert percentile(times, 0.5) <= SLACK * 0.8


def test_the_office_answers_fast() -> None:
    """A reset of the office takes 25 ms at the median, a step 3 ms."""
    step = {"type": "call_tool", "tool_name": "mail_list", "arguments": {}}
    resets, steps = [], []
    with served("office") as (_, url), leased(url) as client:
        listed = requests.post(f"{url}/office/tasks", json={"split": "train"}, timeout=30).json()["tasks"]
        for task in listed[:20]:
            resets.append(timed(client, "reset", {"task_id": task["id"]}))
            steps += [timed(client, "step", step) for _ in range(10)]
    print(f"office reset p50 {percentile(resets, 0.5):.2f} ms, step p50 {percentile(steps, 0.5):.2f} ms")
    assert percentile(resets, 0.5) <= SLACK * 25
    assert percentile(steps, 0.5) <= SLACK * 3


def test_health_answers_while_a_step_burns_the_processor() -> None:
    """Every /health on a connection of its own takes 20 ms at the 99th percentile, during a step of 5 s."""
    times = []
    with served("puppet:Puppet") as (_, url), leased(url) as client:
        client.reset()
        client.socket.send(json.dumps({"type": "step", "data": {"tool_name": "work", "arguments": {"seconds": 5}}}))
        end = time.monotonic() + 4.5
        while time.monotonic() < end:
            begun = time.perf_counter()
            assert requests.get(f"{url}/health", timeout=5).json()["leased"]
            times.append(time.perf_counter() - begun)
        assert client.receive()["type"] == "observation"
    print(f"/health p50 {percentile(times, 0.5):.2f} ms, p99 {percentile(times, 0.99):.2f} ms over {len(times)}")
    assert percentile(times, 0.99) <= SLACK * 20
