"""Threads around the schedule: leases, hand-overs, faults and lists that change, over real sockets."""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import logging
import math
import os
import re
import resource
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fakefleet import FakeFleet
from processes import alarmed, until

from miroir.broker import Broker, Canceller
from miroir.broker import broker as brokers
from miroir.broker.lease import Lease
from miroir.deadlines import Deadlines
from miroir.errors import (
    ConnectionFailed,
    DescriptorLimit,
    InvalidArgument,
    MiroirError,
    NoFreeContainer,
    UrlFileError,
)
from miroir.urls import Source, Urls, write_urls

Opened = Callable[..., Broker]


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Makes brokers that are closed after the test."""
    with ExitStack() as stack:

        def make(urls: Urls, token: str | None = None, **options: Any) -> Broker:
            made = Broker(Source.of(urls), token, **options)
            stack.callback(made.close)
            return made

        yield make


def release(lease: Lease) -> None:
    """Give back a lease whose session was never used."""
    lease.release(reusable=True)


def nobody_listens() -> str:
    """A base URL at which nothing is."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{sock.getsockname()[1]}"


class TestLeasing:
    """From asking to holding."""

    def test_a_free_container(self, opened: Opened) -> None:
        """A lease holds one of the containers until it is released."""
        with FakeFleet("held", "free", "down") as fleet:
            lease = opened(fleet.urls).lease()

            assert lease.url == fleet.urls[1]
            assert fleet[1].active == 1

            release(lease)

            assert fleet.settled(1)

    def test_cold_and_all_free_takes_three_requests(self, opened: Opened) -> None:
        """One lease among a hundred free containers costs two probes and a handshake."""
        with FakeFleet(*["free"] * 100) as fleet:
            release(opened(fleet.urls).lease())

            assert (fleet.count("health"), fleet.count("handshake")) == (2, 1)

    def test_the_same_container_again_takes_one(self, opened: Opened) -> None:
        """A container that this process has just left is opened without a probe."""
        with FakeFleet("free") as fleet:
            broker = opened(fleet.urls)
            for _ in range(5):
                release(broker.lease())

            assert (fleet.count("health"), fleet.count("handshake")) == (1, 5)

    def test_urls_of_every_spelling(self, opened: Opened) -> None:
        """Trailing slashes, paths and duplicates are one list; the lease has the URL as it was given first."""
        with FakeFleet("free") as fleet:
            (url,) = fleet.urls
            lease = opened([f"{url}/", url, url.replace("http", "HTTP", 1)]).lease()

            assert lease.url == f"{url}/"

            release(lease)

    def test_ipv6(self, opened: Opened) -> None:
        """A container at an IPv6 address is leased like any other."""
        with FakeFleet("free", host="::1") as fleet:
            assert "[::1]" in fleet.urls[0]

            release(opened(fleet.urls).lease())

    def test_a_mixed_fleet(self, opened: Opened) -> None:
        """https that is none, a dead port, a path that answers all the same: whatever is free is found."""
        with FakeFleet("free") as fleet:
            (url,) = fleet.urls
            lease = opened([url.replace("http", "https"), nobody_listens(), f"{url}/some/path/"]).lease(timeout_s=5)

            assert lease.url == f"{url}/some/path/"

            release(lease)

    @pytest.mark.parametrize("mode", ["hang", "half", "half_hang", "mute", "first", "factory", "slow", "down", "held"])
    def test_a_good_one_beside_bad_ones(self, opened: Opened, mode: str) -> None:
        """Four containers that are unwell in any way do not keep a lease from the fifth."""
        with FakeFleet(*[mode] * 4, "free") as fleet:
            began = time.monotonic()
            lease = opened(fleet.urls, deadlines=Deadlines(handshake_s=2)).lease(timeout_s=10)

            assert lease.url == fleet.urls[4]
            assert time.monotonic() - began < 2

            release(lease)

    def test_a_container_of_three_sessions(self, opened: Opened) -> None:
        """Its sessions are all used, and the fourth waits."""
        with FakeFleet("free", slots=3) as fleet:
            broker = opened(fleet.urls)
            leases = [broker.lease(timeout_s=5) for _ in range(3)]
            with pytest.raises(NoFreeContainer):
                broker.lease(wait_busy=False)

            assert fleet[0].most == 3

            for lease in leases:
                release(lease)

    @pytest.mark.parametrize("slots", [1, 2])
    def test_a_plain_server(self, opened: Opened, slots: int) -> None:
        """One whose health says no more than healthy is used to the number of sessions it has."""
        with FakeFleet("plain", slots=slots) as fleet:
            broker = opened(fleet.urls)
            leases = [broker.lease(timeout_s=5) for _ in range(slots)]
            with pytest.raises(NoFreeContainer):
                broker.lease(wait_busy=False)
            release(leases.pop())
            leases.append(broker.lease(timeout_s=5))

            assert fleet[0].most == slots

            for lease in leases:
                release(lease)

    def test_a_session_that_lingers_is_waited_for(self, opened: Opened) -> None:
        """A server that notices late that a session is over is asked again soon, not hammered."""
        with FakeFleet("free") as fleet:
            fleet[0].linger_s = 0.15
            broker = opened(fleet.urls)
            for _ in range(4):
                began = time.monotonic()
                release(broker.lease(timeout_s=5))

                assert time.monotonic() - began < 0.6

            assert fleet.count("handshake") <= 8

    def test_nobody_waits_nothing_is_asked(self, opened: Opened) -> None:
        """While all leases are held and nobody waits, not one request is sent, and no thread runs."""
        with FakeFleet("free", "held") as fleet:
            lease = opened(fleet.urls).lease()
            assert until(lambda: ended("miroir-broker"))
            before = fleet.count("health") + fleet.count("handshake")
            time.sleep(0.7)

            assert fleet.count("health") + fleet.count("handshake") == before
            assert ended("miroir-broker")

            release(lease)


class TestWaiting:
    """The waiting line."""

    def test_handed_over_the_same_connection(self, opened: Opened) -> None:
        """A session given back goes to the waiter as it is, without a request."""
        with FakeFleet("free") as fleet:
            broker = opened(fleet.urls)
            first = broker.lease()
            threading.Timer(0.2, release, [first]).start()
            second = broker.lease(timeout_s=5)

            assert second.transport is first.transport
            assert fleet.count("handshake") == 1
            assert broker.stats()["handovers"] == 1

            release(second)

    def test_first_come_first_served(self, opened: Opened) -> None:
        """Sixteen threads get one container in the order in which they came."""
        with FakeFleet("free") as fleet:
            broker = opened(fleet.urls)
            held, served = broker.lease(), []

            def work(number: int) -> None:
                lease = broker.lease(timeout_s=20)
                served.append(number)
                release(lease)

            threads = []
            for number in range(16):
                threads.append(threading.Thread(target=work, args=[number]))
                threads[-1].start()
                assert until(lambda: broker.stats()["requests_waiting"] == len(threads))
            release(held)
            for thread in threads:
                thread.join()

            assert served == list(range(16))

    def test_a_lost_connection_is_not_handed_over(self, opened: Opened) -> None:
        """The waiter gets the container by a new handshake."""
        with FakeFleet("free") as fleet:
            broker = opened(fleet.urls)
            first = broker.lease()
            threading.Timer(0.3, release, [first]).start()
            threading.Timer(0.1, fleet.drop, [0]).start()
            second = broker.lease(timeout_s=5)

            assert second.transport is not first.transport
            assert second.transport.usable
            assert broker.stats()["connections_lost"] == 1

            release(second)

    def test_one_that_may_not_be_used_again_is_closed(self, opened: Opened) -> None:
        """Its container is leased to the waiter by a new handshake at once."""
        with FakeFleet("free") as fleet:
            broker = opened(fleet.urls)
            first = broker.lease()
            threading.Timer(0.2, first.release, kwargs={"reusable": False}).start()
            began = time.monotonic()
            second = broker.lease(timeout_s=5)

            assert time.monotonic() - began < 2
            assert fleet.count("handshake") == 2

            release(second)

    def test_freed_by_another_process(self, opened: Opened) -> None:
        """A container that somebody else frees is found without being asked too often."""
        with FakeFleet(*["held"] * 16) as fleet:
            broker = opened(fleet.urls)
            threading.Timer(1.0, setattr, [fleet[7], "mode", "free"]).start()
            began = time.monotonic()
            lease = broker.lease(timeout_s=10)

            assert 1.0 <= time.monotonic() - began < 2.5
            assert fleet.count("health") <= 150

            release(lease)

    def test_timeout_is_precise(self, opened: Opened) -> None:
        """The wait ends when it was said to end, and the place in the line is given up."""
        with FakeFleet("held") as fleet:
            broker = opened(fleet.urls)
            began = time.monotonic()
            with pytest.raises(NoFreeContainer):
                broker.lease(timeout_s=0.5)

            assert 0.5 <= time.monotonic() - began < 1.5
            assert broker.stats()["requests_waiting"] == 0

    def test_endless_patience_is_allowed(self, opened: Opened) -> None:
        """An infinite timeout waits as long as it takes."""
        with FakeFleet("free") as fleet:
            lease = opened(fleet.urls).lease(timeout_s=math.inf)

            assert lease.url == fleet.urls[0]

            release(lease)

    def test_interrupted_while_waiting(self, opened: Opened) -> None:
        """Ctrl-C leaves the line, and the container goes to the next."""
        with FakeFleet("free") as fleet:
            broker = opened(fleet.urls)
            held = broker.lease()
            with alarmed(0.2), pytest.raises(KeyboardInterrupt):
                broker.lease()

            assert broker.stats()["requests_waiting"] == 0

            release(held)
            release(broker.lease(timeout_s=5))

    def test_interrupted_while_the_broker_starts(
        self, opened: Opened, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Ctrl-C as its thread has just been started: that thread ends, quietly, and the next lease has its own."""
        start = threading.Thread.start

        def interrupted(thread: threading.Thread) -> None:
            start(thread)
            raise KeyboardInterrupt

        with FakeFleet("free") as fleet:
            broker = opened(fleet.urls)
            with monkeypatch.context() as patch:
                patch.setattr(threading.Thread, "start", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    broker.lease(timeout_s=5)
            release(broker.lease(timeout_s=5))

        assert [thread.name for thread in threading.enumerate()].count("miroir-broker") == 1
        assert not caplog.records

    def test_a_fleet_that_starts_late(self, opened: Opened) -> None:
        """A lease waits while nothing is alive, and has its container once one is."""
        with FakeFleet("down", "down") as fleet:
            threading.Timer(1.0, setattr, [fleet[0], "mode", "free"]).start()
            lease = opened(fleet.urls).lease(timeout_s=20)

            assert lease.url == fleet.urls[0]

            release(lease)

    def test_timeouts_at_the_instant_of_a_grant(self, opened: Opened) -> None:
        """Waiters whose time is over just when a session comes lose no container."""
        with FakeFleet("free") as fleet:
            broker = opened(fleet.urls)
            served = itertools.count()

            def work() -> None:
                for _ in range(40):
                    try:
                        lease = broker.lease(timeout_s=0.003)
                    except NoFreeContainer:
                        continue
                    next(served)
                    time.sleep(0.001)
                    release(lease)

            threads = [threading.Thread(target=work) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

            assert fleet.settled(0)
            assert fleet[0].most == 1
            release(broker.lease(timeout_s=5))
            assert next(served) > 5


class TestCancelling:
    """A wait that another thread ends."""

    @pytest.mark.parametrize("before", [True, False])
    def test_the_wait_ends_at_once(self, opened: Opened, before: bool) -> None:
        """Cancelled before it began or while it lasts; its place in the line is free."""
        with FakeFleet("held") as fleet:
            broker, canceller = opened(fleet.urls), Canceller()
            began = time.monotonic()
            timer = threading.Timer(0.0 if before else 0.3, canceller.cancel)
            timer.start()
            if before:
                timer.join()
            with pytest.raises(NoFreeContainer) as caught:
                broker.lease(canceller=canceller)
            timer.join()

            assert time.monotonic() - began < 1.5
            assert canceller.cancelled
            assert str(caught.value) == (
                "NO_FREE_CONTAINER: the lease was cancelled while it waited for a container; ask for another"
            )
            assert broker.stats()["requests_waiting"] == 0

    def test_a_lease_that_came_first_is_kept(self, opened: Opened) -> None:
        """Cancelling afterwards takes nothing back."""
        with FakeFleet("free") as fleet:
            canceller = Canceller()
            lease = opened(fleet.urls).lease(canceller=canceller)
            canceller.cancel()

            assert fleet[0].active == 1
            release(lease)

    def test_cancelling_and_granting_race(self, opened: Opened) -> None:
        """However they fall, a session is given to one who has it, or to nobody: none is lost."""
        with FakeFleet("free") as fleet:
            broker = opened(fleet.urls)

            def work() -> None:
                for _ in range(40):
                    canceller = Canceller()
                    timer = threading.Timer(0.002, canceller.cancel)
                    timer.start()
                    with contextlib.suppress(NoFreeContainer):
                        release(broker.lease(canceller=canceller))
                    timer.join()

            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

            assert fleet.settled(0)
            release(broker.lease(timeout_s=5))


class TestRefusing:
    """What is said when there is nothing."""

    def test_leased_and_unhealthy_are_counted(self, opened: Opened) -> None:
        """The error counts both, gives three reasons at most, and says what to do."""
        with FakeFleet("held", "held", "down", "down", "down", "down", "free") as fleet:
            urls = [*fleet.urls[:6], nobody_listens()]
            with pytest.raises(NoFreeContainer) as caught:
                opened(urls).lease(wait_busy=False)

        assert (caught.value.leased, caught.value.unhealthy, caught.value.refused) == (2, 5, 0)
        assert re.fullmatch(
            r"NO_FREE_CONTAINER: no container of 7 is free: 2 leased, 5 unhealthy "
            r"\((http://[\d.:]+: [^;]+; ){3}and 2 more\); start more containers, or run fewer episodes at once",
            str(caught.value),
        )
        assert "/health answered HTTP 503: its disk is full" in str(caught.value)

    def test_time_is_over(self, opened: Opened) -> None:
        """A wait that ends says how long it was."""
        with FakeFleet("held") as fleet, pytest.raises(NoFreeContainer) as caught:
            opened(fleet.urls).lease(timeout_s=0.3)

        assert str(caught.value) == (
            "NO_FREE_CONTAINER: no container of 1 came free within 0.3 s: 1 leased, 0 unhealthy; "
            "start more containers, or run fewer episodes at once"
        )

    def test_nothing_is_alive(self, opened: Opened) -> None:
        """Then it says to start the fleet, within three seconds when the lease does not wait."""
        with FakeFleet("down", "hang", "half_hang", "mute") as fleet:
            began = time.monotonic()
            with pytest.raises(
                NoFreeContainer, match=r"start the containers \(`miroir pool`\), or correct their URLs$"
            ):
                opened(fleet.urls).lease(wait_busy=False)

        assert time.monotonic() - began <= 3.0

    def test_nothing_is_alive_warns_once(self, opened: Opened, caplog: pytest.LogCaptureFixture) -> None:
        """After three seconds one WARNING gives the reasons, however many wait."""
        url = nobody_listens()
        broker = opened([url])
        with caplog.at_level(logging.WARNING, "miroir.lease"):
            threads = [threading.Thread(target=self.in_vain, args=[broker, 4.5]) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        assert [record.getMessage() for record in caplog.records] == [
            f"no container of 1 is alive ({url}: connection refused); waiting for one"
        ]

    def test_busy_only_is_at_once(self, opened: Opened) -> None:
        """With all containers leased, a lease that does not wait ends after one look at each."""
        with FakeFleet(*["held"] * 16) as fleet:
            began = time.monotonic()
            with pytest.raises(NoFreeContainer):
                opened(fleet.urls).lease(wait_busy=False)

            assert time.monotonic() - began < 1.5
            assert fleet.count("health") == 16

    def test_one_unhealthy_costs_its_timeout_at_most(self, opened: Opened) -> None:
        """Busy ones and one that hangs: two seconds, not ten minutes."""
        with FakeFleet("held", "held", "hang") as fleet:
            began = time.monotonic()
            with pytest.raises(NoFreeContainer):
                opened(fleet.urls).lease(wait_busy=False)

            assert time.monotonic() - began < 2.4

    @pytest.mark.parametrize("status", [400, 401, 403, 404])
    def test_all_refuse(self, opened: Opened, status: int) -> None:
        """Every container refusing is CONNECTION_FAILED at once, with URL and status."""
        with FakeFleet("half", "half") as fleet:
            fleet[0].status = fleet[1].status = status
            began = time.monotonic()
            with pytest.raises(ConnectionFailed) as caught:
                opened(fleet.urls, "wrong").lease()

            assert time.monotonic() - began < 1
            assert caught.value.status == status
            assert caught.value.url in fleet.urls
            assert str(caught.value) == (
                f"CONNECTION_FAILED: all 2 containers refuse this client, such as {caught.value.url}: "
                f"the handshake was refused with HTTP {status}; check the URLs and the token"
            )

    @pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
    def test_worth_another_try(self, opened: Opened, status: int) -> None:
        """Other statuses are waited out."""
        with FakeFleet("half") as fleet:
            fleet[0].status = status
            threading.Timer(0.3, setattr, [fleet[0], "mode", "free"]).start()
            lease = opened(fleet.urls).lease(timeout_s=10)

            assert lease.url == fleet.urls[0]

            release(lease)

    def test_a_token_wrong_for_some(self, opened: Opened) -> None:
        """Containers that refuse are left out, and counted when nothing is free."""
        with FakeFleet("free", "free", "free") as fleet:
            fleet[0].token, fleet[1].token, fleet[2].token = "other", "mine", "other"
            broker = opened(fleet.urls, "mine")
            lease = broker.lease(timeout_s=5)

            assert lease.url == fleet.urls[1]
            with pytest.raises(NoFreeContainer, match="1 leased, 0 unhealthy, 2 refused") as caught:
                broker.lease(timeout_s=0.5)
            assert caught.value.refused == 2
            assert "mine" not in str(caught.value)

            release(lease)

    def test_refusal_that_was_put_right(self, opened: Opened) -> None:
        """A later lease looks again at containers that all refused."""
        with FakeFleet("free") as fleet:
            fleet[0].token = "other"
            broker = opened(fleet.urls, "mine")
            with pytest.raises(ConnectionFailed):
                broker.lease()
            fleet[0].token = "mine"
            release(broker.lease(timeout_s=5))

    def test_suspect_ourselves(self, opened: Opened, caplog: pytest.LogCaptureFixture) -> None:
        """When most containers fail within seconds, one WARNING counts the faults and names what to check."""
        urls = [nobody_listens() for _ in range(6)]
        with caplog.at_level(logging.WARNING, "miroir.lease"):
            self.in_vain(opened(urls), 1.0)

        assert [record.getMessage() for record in caplog.records] == [
            "most containers failed within seconds, so the cause may be this process or its network: "
            "ECONNREFUSED (6); check `ulimit -n`, DNS and proxies"
        ]

    def in_vain(self, broker: Broker, timeout_s: float) -> None:
        """A lease that nobody serves."""
        with pytest.raises(NoFreeContainer):
            broker.lease(timeout_s=timeout_s)


class TestRemembering:
    """What containers did wrong."""

    def test_half_dead_ones_are_left_alone(self, opened: Opened) -> None:
        """Nine that fail every handshake cost a hundred leases little more than their first failures."""
        with FakeFleet(*["half"] * 9, "free") as fleet:
            broker = opened(fleet.urls)
            for _ in range(100):
                release(broker.lease(timeout_s=10))
            failed = fleet.count("handshake") - 100

            assert failed <= 20
            assert broker.stats()["quarantined"] <= 9

    def test_a_container_found_stuck_by_its_user(self, opened: Opened) -> None:
        """A fault given with the release puts the container aside with that reason."""
        with FakeFleet("free") as fleet:
            broker = opened(fleet.urls)
            broker.lease().release(reusable=False, free=False, fault="a step never ended")

            assert broker.stats()["urls"][fleet.urls[0]] == {
                "state": "sick",
                "held": 0,
                "slots": 1,
                "reason": "a step never ended",
            }
            assert broker.stats()["returns_bad"] == 1

    def test_probes_left_behind_are_asked_again(self, opened: Opened) -> None:
        """A container that hung while everybody gave up is looked at again by the next lease."""
        with FakeFleet("hang") as fleet:
            broker = opened(fleet.urls)
            with pytest.raises(NoFreeContainer):
                broker.lease(timeout_s=0.1)
            assert until(lambda: ended("miroir-broker"))  # before the health request does
            fleet[0].mode = "free"
            release(broker.lease(timeout_s=3))


class TestFairness:
    """Sharing with other processes."""

    def turns(self, opened: Opened, fleet: FakeFleet, **options: Any) -> dict[int, int]:
        """How often each of two brokers had the container, both wanting it all the time for 3 s."""
        pair = [opened(fleet.urls, **options) for _ in range(2)]
        count, stop = {0: 0, 1: 0}, time.monotonic() + 3

        def work(number: int) -> None:
            while time.monotonic() < stop:
                try:
                    lease = pair[number].lease(timeout_s=0.5)
                except NoFreeContainer:
                    continue
                count[number] += 1
                time.sleep(0.005)
                release(lease)

        threads = [threading.Thread(target=work, args=[number % 2]) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return count

    def test_let_go_when_others_wait(self, opened: Opened) -> None:
        """With short chains, both get the container."""
        with FakeFleet("free") as fleet:
            count = self.turns(opened, fleet, chain_handovers=4, chain_s=0.1)

        assert min(count.values()) >= 0.15 * sum(count.values())

    def test_kept_when_nobody_else_waits(self, opened: Opened) -> None:
        """A chain of a process that is alone goes on over the same connection."""
        with FakeFleet("free") as fleet:
            broker = opened(fleet.urls, chain_handovers=2, chain_s=0.0)
            stop = time.monotonic() + 1

            def work() -> None:
                while time.monotonic() < stop:
                    release(broker.lease(timeout_s=5))

            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

            assert broker.stats()["handovers"] > 50
            assert fleet.count("handshake") < 10

    def test_interrupted_while_asking_whether_others_wait(self, opened: Opened) -> None:
        """Ctrl-C in the few seconds in which a container may be silent: it is given back, and the waiter gets it."""
        with FakeFleet("free") as fleet:
            broker = opened(fleet.urls, chain_handovers=0, chain_s=0.0)
            held = broker.lease()
            got: list[Lease] = []
            waiting = threading.Thread(target=lambda: got.append(broker.lease(timeout_s=10)))
            waiting.start()
            assert until(lambda: broker.stats()["requests_waiting"] == 1)
            fleet[0].reply = lambda _: []
            with alarmed(0.2), pytest.raises(KeyboardInterrupt):
                release(held)
            fleet[0].reply = None
            waiting.join(10)

            assert broker.stats()["urls"][fleet.urls[0]]["held"] == len(got) == 1

            got.pop().release(reusable=False)

            assert fleet.settled(0)
            assert broker.stats()["urls"][fleet.urls[0]]["held"] == 0


class TestLists:
    """URL files and names that change."""

    def test_added_and_removed(self, opened: Opened, tmp_path: Path) -> None:
        """An added URL is leased within 1.5 s; a removed one is leased no more, and its session lives on."""
        path = tmp_path / "urls.txt"
        with FakeFleet("free", "free") as fleet:
            write_urls(path, fleet.urls[:1])
            broker = opened(path)
            first = broker.lease()
            began = time.monotonic()
            threading.Timer(0.2, write_urls, [path, fleet.urls[1:]]).start()
            second = broker.lease(timeout_s=10)

            assert second.url == fleet.urls[1]
            assert time.monotonic() - began < 1.7
            assert first.transport.exchange({"type": "state"}, 5)["type"] == "state"

            release(first)
            with pytest.raises(NoFreeContainer):
                broker.lease(timeout_s=0.3)

            assert fleet.urls[0] not in broker.stats()["urls"]

            release(second)

    def test_an_edit_while_nobody_leased(self, opened: Opened, tmp_path: Path) -> None:
        """The first lease after a pause sees the file as it is now."""
        path = tmp_path / "urls.txt"
        with FakeFleet("free", "free") as fleet:
            write_urls(path, fleet.urls[:1])
            broker = opened(path)
            release(broker.lease())
            assert until(lambda: ended("miroir-broker"))
            time.sleep(brokers.WATCH_S)
            write_urls(path, fleet.urls[1:])
            lease = broker.lease()

            assert lease.url == fleet.urls[1]

            release(lease)

    @pytest.mark.parametrize("content", ["", "# nothing\n", "junk\n", None])
    def test_a_bad_moment_keeps_the_last_good_list(self, opened: Opened, tmp_path: Path, content: str | None) -> None:
        """A file that is empty, junk or gone costs no URL."""
        path = tmp_path / "urls.txt"
        with FakeFleet("free") as fleet:
            write_urls(path, fleet.urls)
            broker = opened(path)
            release(broker.lease())
            if content is None:
                path.unlink()
            else:
                path.write_text(content)
            for _ in range(3):
                lease = broker.lease(timeout_s=5)
                assert lease.url == fleet.urls[0]
                release(lease)
                time.sleep(0.4)

    def test_the_first_reading_must_be_good(self, opened: Opened, tmp_path: Path) -> None:
        """A file that is missing is URL_FILE, naming the command that makes it."""
        with pytest.raises(UrlFileError, match=r"^URL_FILE: .*cannot be read: .*`miroir pool --urls "):
            opened(tmp_path / "none.txt")

    def test_rewritten_a_thousand_times(self, opened: Opened, tmp_path: Path) -> None:
        """Leasing goes on while the file is rewritten, in one step or not, 1,000 times."""
        path = tmp_path / "urls.txt"
        with FakeFleet(*["free"] * 4) as fleet:
            write_urls(path, fleet.urls)
            broker = opened(path)
            done, leases = threading.Event(), itertools.count()

            def work() -> None:
                while not done.is_set():
                    release(broker.lease(timeout_s=10))
                    next(leases)

            threads = [threading.Thread(target=work) for _ in range(6)]
            for thread in threads:
                thread.start()
            for number in range(1000):
                some = fleet.urls if number % 3 else fleet.urls[number % 4 :]
                if number % 2:
                    write_urls(path, some)
                else:
                    path.write_text("".join(f"{url}\n" for url in some))
                time.sleep(0.002)
            done.set()
            for thread in threads:
                thread.join()

            assert next(leases) > 100
            assert broker.stats()["requests_errors"] == 0

    def test_a_dns_name(self) -> None:
        """Each address of a name is a container, and the name is resolved again."""
        with FakeFleet("free") as fleet:
            port = int(fleet.urls[0].rpartition(":")[2])
            source = Source.of(f"dns://envs:{port}", resolver=lambda name, _: ["127.0.0.1"])
            broker = Broker(source)
            lease = broker.lease(timeout_s=5)

            assert lease.url == fleet.urls[0]

            release(lease)
            broker.close()

    @pytest.mark.parametrize("bad", [[], "http://h:1", "urls.txt", ["http://user:s3cret@h:1"], ["ftp://h"], [1]])
    def test_what_is_no_list(self, bad: Any) -> None:
        """An empty list, a bare text, credentials and other schemes are ValueErrors that print no secret."""
        with pytest.raises(ValueError) as caught:
            Source.of(bad).read()

        assert isinstance(caught.value, InvalidArgument)
        assert "s3cret" not in str(caught.value)


class TestEnding:
    """Closing, dropping, forking, and what is left."""

    def test_a_dropped_lease_frees_its_container(self, opened: Opened) -> None:
        """A lease that nobody holds any more is given back within a second."""
        with FakeFleet("free") as fleet:
            broker = opened(fleet.urls)
            lease = broker.lease()
            del lease
            gc.collect()

            assert fleet.settled(0, seconds=1)
            release(broker.lease(timeout_s=5))

    def test_a_dropped_lease_serves_the_waiter(self, opened: Opened) -> None:
        """Somebody who waits gets the container."""
        with FakeFleet("free") as fleet:
            broker = opened(fleet.urls)
            held = [broker.lease()]
            threading.Timer(0.2, held.clear).start()
            lease = broker.lease(timeout_s=5)

            assert lease.url == fleet.urls[0]
            assert broker.stats()["urls"][fleet.urls[0]]["held"] == 1

            release(lease)

    def test_released_once(self, opened: Opened) -> None:
        """A second release of the same lease does nothing."""
        with FakeFleet("free") as fleet:
            broker = opened(fleet.urls)
            lease = broker.lease()
            release(lease)
            other = broker.lease()
            release(lease)

            assert fleet.settled(0, 1)
            assert broker.stats()["urls"][fleet.urls[0]]["held"] == 1

            release(other)

    def test_close_ends_the_waiting(self, opened: Opened) -> None:
        """Whoever waits is told; who holds a session keeps it; who comes later is refused."""
        with FakeFleet("free") as fleet:
            broker = opened(fleet.urls)
            held = broker.lease()
            threading.Timer(0.2, broker.close).start()
            with pytest.raises(NoFreeContainer, match="the fleet was closed while this lease waited"):
                broker.lease(timeout_s=10)

            assert held.transport.usable
            with pytest.raises(InvalidArgument, match=r"^INVALID_ARGUMENT: this fleet is closed; make a new one$"):
                broker.lease()

            release(held)

            assert fleet.settled(0)

    def test_close_ends_handshakes_under_way(self, opened: Opened) -> None:
        """No thread waits for a container that hangs."""
        with FakeFleet("half_hang", "half_hang") as fleet:
            broker = opened(fleet.urls)
            threading.Timer(0.5, broker.close).start()
            with pytest.raises(NoFreeContainer):
                broker.lease(timeout_s=10)
            assert until(lambda: ended("miroir-open"))

    def test_a_fault_of_the_brokers_own_ends_the_waiting(
        self, opened: Opened, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Nobody waits for a thread that has failed; its traceback is logged, and the next lease starts another."""
        with FakeFleet("free") as fleet:
            broker = opened(fleet.urls)
            with monkeypatch.context() as patch:
                patch.setattr(brokers.Prober, "poll", lambda *_: 1 / 0)
                with pytest.raises(MiroirError, match=r"^BROKER: the thread that leases containers failed") as caught:
                    broker.lease(timeout_s=5)

            assert caught.value.code == "BROKER"
            assert "ZeroDivisionError" in caplog.text
            release(broker.lease(timeout_s=5))

    def test_no_thread_can_be_started(self, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
        """The lease ends with an error that names the limit."""
        with FakeFleet("free") as fleet:
            broker = opened(fleet.urls)
            release(broker.lease())

            def no_thread(_: Broker, *__: object) -> None:
                raise RuntimeError("can't start new thread")

            monkeypatch.setattr(brokers.threading.Thread, "start", no_thread)
            with pytest.raises(MiroirError, match=r"^THREAD_LIMIT: this process can start no more threads; raise"):
                broker.lease(timeout_s=5)

    def test_statistics_are_named_as_psycopg_pool_names_them(self, opened: Opened) -> None:
        """Counters since the start, what is so now, and each container's state."""
        with FakeFleet("free", "down") as fleet:
            broker = opened(fleet.urls)
            lease = broker.lease()
            stats = broker.stats()

            assert stats["urls"][fleet.urls[0]] == {"state": "held", "held": 1, "slots": 1, "reason": ""}
            assert {
                name: stats[name] for name in ("requests_num", "connections_num", "requests_waiting", "pool_size")
            } == {
                "requests_num": 1,
                "connections_num": 1,
                "requests_waiting": 0,
                "pool_size": 2,
            }
            assert set(stats) == {
                "requests_num", "requests_queued", "requests_waiting", "requests_wait_ms", "requests_errors",
                "usage_ms", "returns_bad", "handovers", "connections_num", "connections_ms", "connections_errors",
                "connections_lost", "capacity_refused", "probes_num", "pool_size", "pool_available", "quarantined",
                "urls",
            }  # fmt: skip

            release(lease)

    def test_one_broker_for_each_source_and_token(self, tmp_path: Path) -> None:
        """The same list, in any order, is one waiting line; another token or deadline is another."""
        one = brokers.shared(["http://h:1", "http://i:2"], None, Deadlines())

        assert brokers.shared(["http://i:2", "http://h:1"], None, Deadlines()) is one
        assert brokers.shared(["http://h:1", "http://i:2"], "", Deadlines()) is one
        assert brokers.shared(["http://h:1", "http://i:2"], "t", Deadlines()) is not one
        assert brokers.shared(["http://h:1", "http://i:2"], None, Deadlines(step_s=1)) is not one
        assert brokers.shared(["http://h:1"], None, Deadlines()) is not one

    def test_after_a_fork(self, opened: Opened) -> None:
        """The child leases by itself, under another name, and takes nothing from the parent."""
        with FakeFleet("free", "free") as fleet:
            broker = opened(fleet.urls)
            lease = broker.lease()
            parent = broker._name
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    own = broker.lease(timeout_s=5)
                    other_name = broker._name != parent
                    del lease
                    gc.collect()
                    code = 0 if own.transport.exchange({"type": "state"}, 5) and other_name else 2
                finally:
                    os._exit(code)
            _, status = os.waitpid(child, 0)

            assert os.waitstatus_to_exitcode(status) == 0
            assert lease.transport.exchange({"type": "state"}, 5)["type"] == "state"

            release(lease)

    def test_forks_while_leasing(self, opened: Opened) -> None:
        """Children forked at any moment of others' leasing never hang."""
        with FakeFleet(*["free"] * 8) as fleet:
            broker = opened(fleet.urls)
            done = threading.Event()

            def work() -> None:
                while not done.is_set():
                    release(broker.lease(timeout_s=10))

            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            codes = []
            for _ in range(15):
                child = os.fork()
                if child == 0:
                    try:
                        broker.lease(timeout_s=10)
                    finally:
                        os._exit(0)
                codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            done.set()
            for thread in threads:
                thread.join()

            assert codes == [0] * 15


class TestDescriptors:
    """A limit of open files that is too low."""

    def test_more_sessions_than_files(self, tmp_path: Path) -> None:
        """In a process that may open 64 files, the lease that would be one too many names the limit, at once."""
        code = """
            import json, resource, sys
            from miroir import Fleet, MiroirError
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
            leases = []
            with Fleet(json.loads(sys.argv[1])) as fleet:
                try:
                    while True:
                        leases.append(fleet.lease(timeout_s=20))
                except MiroirError as error:
                    print(len(leases), error)
                for lease in leases:
                    lease.close()
                fleet.lease(timeout_s=5).close()
        """
        with FakeFleet(*["free"] * 80) as fleet:
            output = run(code, fleet.urls)
        count, _, text = output.partition(" ")

        assert 5 <= int(count) < 64  # how many files a session takes depends on the version of websockets
        assert text.startswith("DESCRIPTOR_LIMIT: this process may open 64 files, too few for ")
        assert "`ulimit -n 4096`" in text

    def test_files_run_out_in_a_handshake(self, opened: Opened) -> None:
        """What was free when it was counted may be gone: the error is the same."""
        with FakeFleet("free", "free") as fleet:
            broker = opened(fleet.urls)
            release(broker.lease())
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            files = []
            held = broker.lease()
            broker._desk.demand = lambda: (0, 1)  # type: ignore[method-assign]
            try:
                resource.setrlimit(
                    resource.RLIMIT_NOFILE,
                    (max(int(entry.name) for entry in Path("/proc/self/fd").iterdir()) + 40, hard),
                )
                while True:
                    try:
                        files.append(os.open("/dev/null", os.O_RDONLY))
                    except OSError:
                        break
                with pytest.raises(DescriptorLimit):
                    with pytest.MonkeyPatch.context() as patch:
                        patch.setattr(brokers.descriptors, "require", lambda *_: None)
                        broker.lease(timeout_s=5)
            finally:
                for file in files:
                    os.close(file)
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            release(held)


def run(code: str, urls: list[str]) -> str:
    """What a process prints that runs the code with the URLs as its argument."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), json.dumps(urls)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def ended(name: str) -> bool:
    """Whether no thread of this name runs."""
    return name not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("token", ["two\nlines", "caf\u00e9"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_token_that_no_header_can_hold(opened: Opened, scheme: str, token: str) -> None:
    """It is refused at once and not shown, whichever way the containers are asked."""
    broker = opened([f"{scheme}://127.0.0.1:9"], token)
    with pytest.raises(InvalidArgument) as caught:
        broker.lease(timeout_s=5)

    assert str(caught.value) == (
        "INVALID_ARGUMENT: the token holds a line break or another character that no header can; check its source"
    )
