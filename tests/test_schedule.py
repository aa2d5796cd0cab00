"""The schedule on virtual time: no thread, no socket, no sleeping."""

from __future__ import annotations

import errno
import random
from collections import Counter

import pytest

from miroir.schedule import Outcome, Release, Schedule, refuses
from miroir.schedule.chains import CHAIN_HANDOVERS, CHAIN_S, REST_S, UNKNOWN
from miroir.schedule.line import Ticket
from miroir.schedule.node import Fault
from miroir.schedule.schedule import IMPATIENT_S, MAX_OPENINGS, MAX_PROMISING
from miroir.wire import Health

FREE = Health(True, leased=False, active=0, slots=1, status=200)
LEASED = Health(True, leased=True, active=1, slots=1, status=200)
PLAIN = Health(True, status=200)
DOWN = Health(False, reason="connection refused", errno=errno.ECONNREFUSED)
FOREVER = 1e9


def urls(count: int) -> list[str]:
    """Base URLs of so many containers."""
    return [f"http://10.0.0.{n % 250}:{8000 + n // 250}" for n in range(count)]


def schedule(count: int = 1, seed: int = 0, **options: float) -> Schedule:
    """A schedule over so many containers."""
    made = Schedule(dice=random.Random(seed), **options)  # type: ignore[arg-type]
    made.update(urls(count))
    return made


def opened(made: Schedule, now: float = 0.0) -> Ticket | None:
    """Plan and carry out until a session is open, every container being free; the ticket that got it."""
    for _ in range(4):
        plan = made.plan(now)
        for url in plan.open:
            return made.opened(url, Outcome.OPENED, now)
        for url in plan.probe:
            made.probed(url, FREE, now)
    raise AssertionError("nothing was opened")


class World:
    """Containers that answer at once as their `healths` and `outcomes` say, and what they were asked."""

    def __init__(self, made: Schedule, health: Health = FREE) -> None:
        self.made = made
        self.healths = dict.fromkeys((node.url for node in made.nodes.values()), health)
        self.outcomes: dict[str, Outcome] = {}
        self.asked: list[tuple[float, str]] = []
        self.tried: list[tuple[float, str]] = []
        self.granted: list[tuple[float, Ticket]] = []

    def run(self, start: float, end: float) -> None:
        """Let time pass."""
        now = start
        while now < end:
            plan = self.made.plan(now)
            for url in plan.probe:
                self.asked.append((now, url))
                self.made.probed(url, self.healths[url], now)
            for url in plan.open:
                self.tried.append((now, url))
                ticket = self.made.opened(url, self.outcomes.get(url, Outcome.OPENED), now, reason="HTTP 500")
                if ticket:
                    self.granted.append((now, ticket))
            now += 0.001 if plan.probe or plan.open else max(0.001, min(plan.again_s, 0.25))


class TestFinding:
    """How a free container is found."""

    def test_nobody_waits(self) -> None:
        """Without a waiter nothing is asked."""
        assert schedule(10).plan(0.0).probe == []

    def test_all_free_and_cold_costs_three_requests(self) -> None:
        """With every container free, one lease costs at most two probes and one handshake."""
        made = schedule(1000)
        made.join(0.0)
        first = made.plan(0.0)
        made.probed(first.probe[0], FREE, 0.0)
        second = made.plan(0.0)

        assert (len(first.probe), first.open, second.probe, second.open) == (2, [], [], [first.probe[0]])

    def test_each_process_begins_elsewhere(self) -> None:
        """The first container that is asked depends on the dice."""
        begun = set()
        for seed in range(20):
            made = schedule(100, seed)
            made.join(0.0)
            begun.add(made.plan(0.0).probe[0])

        assert len(begun) > 10

    def test_ever_more_at_once_while_none_is_free(self) -> None:
        """The number of probes in flight doubles with each that finds nothing, to a limit."""
        made = schedule(1000)
        made.join(0.0)
        sizes = []
        while len(sizes) < 9:
            probes = made.plan(0.0).probe
            sizes.append(len(probes))
            for url in probes:
                made.probed(url, LEASED, 0.0)

        assert sizes == [2, 4, 8, 16, 32, 64, 128, 256, 256]

    def test_probes_that_hang_make_room_for_others(self) -> None:
        """A thousand containers of which hundreds hang are all asked within a second."""
        made = schedule(1000)
        made.join(0.0)
        asked, now = 0, 0.0
        while now < 1.0:
            asked += len(made.plan(now).probe)  # nobody ever answers
            now += 0.01

        assert asked == 1000

    def test_a_container_is_asked_once_at_a_time(self) -> None:
        """While a probe is under way its container is not asked again."""
        made = schedule(1)
        made.join(0.0)

        assert [len(made.plan(now).probe) for now in (0.0, 0.5, 1.9)] == [1, 0, 0]

    def test_the_freshest_is_opened_first(self) -> None:
        """Of several known to be free the one that was seen last is opened."""
        made = schedule(3)
        made.join(0.0)
        probes = made.plan(0.0).probe
        for at, url in enumerate(probes):
            made.probed(url, FREE, float(at))

        assert made.plan(5.0).open == [probes[-1]]

    def test_a_container_that_we_closed_is_opened_without_a_probe(self) -> None:
        """What was free when we left it costs the next lease one handshake."""
        made = schedule(1)
        made.join(0.0)
        opened(made)
        made.closed(urls(1)[0], 1.0)
        made.join(60.0)
        plan = made.plan(60.0)

        assert (plan.probe, plan.open) == ([], urls(1))


class TestPace:
    """How often busy containers are asked."""

    @pytest.mark.parametrize(("count", "waiting"), [(1, 1), (16, 1), (16, 64), (1000, 3)])
    def test_at_most_a_hundred_a_second(self, count: int, waiting: int) -> None:
        """However many wait, and however many containers are busy, a process asks at most 100 times a second."""
        made = schedule(count)
        world = World(made, LEASED)
        for _ in range(waiting):
            made.join(0.0)
        world.run(0.0, 2.0)
        scanned = len(world.asked)
        world.run(2.0, 12.0)

        assert len(world.asked) - scanned <= 1000

    def test_the_longest_unseen_comes_next(self) -> None:
        """Each of sixteen busy containers is asked about every sixth of a second, none forgotten."""
        made = schedule(16)
        world = World(made, LEASED)
        made.join(0.0)
        world.run(0.0, 10.0)
        asked = Counter(url for at, url in world.asked if at > 1.0)

        assert len(asked) == 16
        assert max(asked.values()) - min(asked.values()) <= 1
        assert min(asked.values()) > 40

    def test_one_container_is_not_hammered(self) -> None:
        """A single busy container is asked at most thirty-three times a second."""
        made = schedule(1)
        world = World(made, LEASED)
        made.join(0.0)
        world.run(0.0, 10.0)

        assert 200 < len(world.asked) <= 334

    def test_plan_says_when_to_come_again(self) -> None:
        """Between probes the plan asks to be called again after the pace, not at once."""
        made = schedule(16)
        World(made, LEASED)
        made.join(0.0)
        for _ in range(10):
            for url in made.plan(0.0).probe:
                made.probed(url, LEASED, 0.0)

        assert made.plan(0.0).again_s >= 0.008

    def test_a_container_freed_elsewhere_is_found(self) -> None:
        """One of sixteen that another process frees is leased within 200 ms."""
        for seed in range(20):
            made = schedule(16, seed)
            world = World(made, LEASED)
            made.join(0.0)
            world.run(0.0, 1.0)
            world.healths[urls(16)[seed % 16]] = FREE
            world.run(1.0, 2.0)

            assert world.granted[0][0] - 1.0 <= 0.2


class TestLine:
    """Who is served when."""

    def test_first_come_first_served(self) -> None:
        """Sessions go to tickets in the order in which they joined."""
        made = schedule(3)
        world = World(made)
        tickets = [made.join(float(n)) for n in range(3)]
        world.run(5.0, 5.1)

        assert [ticket for _, ticket in world.granted] == tickets

    def test_waits_are_the_ladder_of_an_ideal_line(self) -> None:
        """Six waiters on two containers that are held for d wait 0, 0, d, d, 2d, 2d."""
        made, held = schedule(2), 10.0
        world = World(made)
        tickets = [made.join(0.0) for _ in range(6)]
        world.run(0.0, 0.1)
        waits = {ticket: at for at, ticket in world.granted}
        for round_ in (1, 2):
            for url in urls(2):
                decision, ticket = made.release(url, round_ * held, reusable=True)
                assert decision is Release.HAND_OVER
                assert ticket is not None
                waits[ticket] = round_ * held

        assert [round(waits[ticket], 1) for ticket in tickets] == [0.0, 0.0, held, held, 2 * held, 2 * held]

    def test_who_gave_up_gets_nothing(self) -> None:
        """A session goes to the next when the first has left, and to nobody when all have."""
        made = schedule(2)
        first, second = made.join(0.0), made.join(0.0)

        assert made.leave(first, 1.0)
        assert opened(made, 1.0) is second
        assert not made.leave(second, 1.0)
        assert not made.leave(first, 1.0)

    def test_a_session_that_comes_too_late_is_closed_and_its_container_free(self) -> None:
        """A handshake that ends after its waiter left is given to nobody; once closed, its container serves another."""
        made = schedule(1)
        ticket = made.join(0.0)
        for url in made.plan(0.0).probe:
            made.probed(url, FREE, 0.0)
        (url,) = made.plan(0.0).open
        made.leave(ticket, 0.1)

        assert made.opened(url, Outcome.OPENED, 0.2) is None

        made.closed(url, 0.3)
        later = made.join(0.4)

        assert opened(made, 0.4) is later

    def test_hand_over_goes_to_the_first(self) -> None:
        """A session that is given back goes to the first waiter; with nobody waiting it is closed."""
        made = schedule(1)
        made.join(0.0)
        opened(made)
        waiter = made.join(1.0)
        (url,) = urls(1)

        assert made.release(url, 2.0, reusable=True) == (Release.HAND_OVER, waiter)
        assert made.release(url, 3.0, reusable=True) == (Release.CLOSE, None)

    def test_a_session_that_cannot_be_used_again_is_closed(self) -> None:
        """With a waiter there too: it gets the container by a handshake."""
        made = schedule(1)
        made.join(0.0)
        opened(made)
        waiter = made.join(1.0)
        (url,) = urls(1)

        assert made.release(url, 2.0, reusable=False) == (Release.CLOSE, None)

        made.closed(url, 2.0)

        assert made.plan(2.0).open == [url]
        assert made.opened(url, Outcome.OPENED, 2.0) is waiter

    def test_100_000_interleavings_lose_no_container_and_grant_none_twice(self) -> None:
        """Joins, give-ups, grants, hand-overs, closes, faults and list edits in any order keep every count true."""
        dice = random.Random(7)
        made = schedule(8, 7)
        truth = Truth(made, dice)
        for _ in range(100_000):
            truth.step()
        truth.settle()

        assert truth.granted > 5000
        assert truth.held == Counter()


class Truth:
    """What is really so with eight containers of one to three sessions each, beside what the schedule believes."""

    def __init__(self, made: Schedule, dice: random.Random) -> None:
        self.made = made
        self.dice = dice
        self.now = 0.0
        self.all = urls(8)
        self.slots = {url: 1 + n % 3 for n, url in enumerate(self.all)}
        self.tickets: list[Ticket] = []
        self.probes: list[str] = []
        self.openings: list[str] = []
        self.held: Counter[str] = Counter()
        self.served: set[Ticket] = set()
        self.granted = 0

    def step(self, *, settling: bool = False) -> None:
        """Do one thing that can happen now."""
        self.now += self.dice.expovariate(20)
        plan = self.made.plan(self.now)
        self.probes += plan.probe
        self.openings += plan.open
        acts = [self.answer, self.open, self.open, self.give_back, self.give_back]
        if not settling:
            acts += [self.join, self.join, self.give_up, self.edit]
        self.dice.choice(acts)()
        for ticket in self.made.hopeless(self.now):
            self.made.leave(ticket, self.now)
            self.tickets.remove(ticket)
        assert self.made.held == self.held.total()
        assert all(self.held[url] <= self.slots[url] for url in self.all)

    def join(self) -> None:
        """A thread asks for a lease."""
        if len(self.tickets) < 40:
            self.tickets.append(self.made.join(self.now, wait_busy=self.dice.random() < 0.9))

    def give_up(self) -> None:
        """A thread gives up."""
        if self.tickets:
            ticket = self.dice.choice(self.tickets)
            assert self.made.leave(ticket, self.now)
            self.tickets.remove(ticket)

    def answer(self) -> None:
        """A probe is answered."""
        if self.probes:
            url = self.probes.pop(self.dice.randrange(len(self.probes)))
            active, slots = self.held[url], self.slots[url]
            health = Health(True, active >= slots, active, slots, status=200)
            self.made.probed(url, DOWN if self.dice.random() < 0.1 else health, self.now)

    def open(self) -> None:
        """A handshake ends."""
        if not self.openings:
            return
        url = self.openings.pop(self.dice.randrange(len(self.openings)))
        if self.held[url] >= self.slots[url]:
            assert self.made.opened(url, Outcome.BUSY, self.now, count=self.slots[url]) is None
        elif self.dice.random() < 0.1:
            assert self.made.opened(url, Outcome.SICK, self.now, reason="HTTP 500") is None
        else:
            self.held[url] += 1
            ticket = self.made.opened(url, Outcome.OPENED, self.now)
            if ticket is None:
                self.held -= Counter([url])
                self.made.closed(url, self.now)
            else:
                self.serve(ticket)

    def give_back(self) -> None:
        """A session is given back."""
        if not self.held:
            return
        url = self.dice.choice(list(self.held))
        decision, ticket = self.made.release(url, self.now, reusable=self.dice.random() < 0.7)
        if decision is Release.ASK:
            wanted_s = self.dice.choice([None, 0.0, UNKNOWN])
            decision, ticket = self.made.release(url, self.now, reusable=True, wanted_s=wanted_s, asked=True)
        if ticket is not None:
            self.serve(ticket)
            return
        self.held -= Counter([url])
        fault = "stuck" if self.dice.random() < 0.05 else ""
        self.made.closed(url, self.now, let_go=decision is Release.LET_GO, free=self.dice.random() < 0.8, fault=fault)

    def edit(self) -> None:
        """The list of URLs changes."""
        if self.dice.random() < 0.05:
            self.made.update(self.dice.sample(self.all, self.dice.randint(4, 8)))

    def serve(self, ticket: Ticket) -> None:
        """A ticket got a session: it waited, and gets no other."""
        assert ticket not in self.served
        self.served.add(ticket)
        self.tickets.remove(ticket)
        self.granted += 1

    def settle(self) -> None:
        """Everything is given back, and all who still wait are served."""
        self.made.update(self.all)
        for _ in range(200_000):
            if not (self.tickets or self.held or self.openings):
                return
            self.step(settling=True)
        raise AssertionError(f"{len(self.tickets)} still wait, {self.held} still held")


class TestHedging:
    """Handshakes that hang."""

    def test_a_second_candidate_after_250_ms(self) -> None:
        """A handshake that takes longer is raced by another, and by ever more."""
        made = schedule(64)
        made.join(0.0)
        for _ in range(8):
            for url in made.plan(0.0).probe:
                made.probed(url, FREE, 0.0)
        for at in range(100):
            for url in made.plan(at / 100).probe:
                made.probed(url, FREE, at / 100)

        assert sum(len(node.openings) for node in made.nodes.values()) == 15  # 1, 2, 4 and 8

    def test_failures_are_raced_too(self) -> None:
        """Containers that fail their handshakes at once are gone through faster and faster."""
        made = schedule(200)
        world = World(made)
        world.outcomes = dict.fromkeys(urls(200)[:199], Outcome.SICK)
        made.join(0.0)
        world.run(0.0, 0.2)

        assert len(world.granted) == 1

    def test_handshakes_at_once_are_bounded(self) -> None:
        """However many wait, 64 handshakes that promise something are under way, and 256 in all."""
        made = schedule(1000)
        for _ in range(500):
            made.join(0.0)
        now = 0.0
        while now < 3.0:
            plan = made.plan(now)
            for url in plan.probe:
                made.probed(url, FREE, now)
            young = sum(now - since < 0.25 for node in made.nodes.values() for since in node.openings)
            assert young <= MAX_PROMISING
            now += 0.01

        assert sum(len(node.openings) for node in made.nodes.values()) == MAX_OPENINGS

    def test_the_loser_of_a_race_is_free_for_others(self) -> None:
        """A handshake that comes about after its waiter was served goes to the next one."""
        made = schedule(2)
        first = made.join(0.0)
        for url in made.plan(0.0).probe:
            made.probed(url, FREE, 0.0)
        slow = made.plan(0.0).open + made.plan(0.3).open
        second = made.join(0.4)

        assert [made.opened(url, Outcome.OPENED, 0.5) for url in slow] == [first, second]


class TestQuarantine:
    """What containers did wrong is remembered."""

    def test_half_dead_containers_cost_little(self) -> None:
        """Healthy containers that fail their handshake are tried ever more rarely."""
        made = schedule(10)
        world = World(made)
        world.outcomes = dict.fromkeys(urls(10)[:9], Outcome.SICK)
        now, leases = 0.0, 0
        while now < 300.0:
            made.join(now)
            world.run(now, now + 0.05)
            leases += 1
            made.closed(urls(10)[9], now + 0.05)
            now += 0.1
        failed = sum(1 for at, url in world.tried if url in world.outcomes and at > 60)

        assert len(world.granted) >= leases - 2
        assert failed / leases <= 0.1

    def test_back_off_doubles_with_jitter_to_its_limit(self) -> None:
        """A sick container is tried again after 0.5 s, 1, 2, 4, … at most 30 s, each with 20 % jitter."""
        made = schedule(1)
        world = World(made)
        world.outcomes = {urls(1)[0]: Outcome.SICK}
        made.join(0.0)
        world.run(0.0, 200.0)
        gaps = [later - sooner for (sooner, _), (later, _) in zip(world.tried, world.tried[1:], strict=False)]

        for gap, ideal in zip(gaps, [0.5, 1, 2, 4, 8, 16, 30, 30], strict=False):
            assert 0.79 * ideal <= gap <= 1.21 * ideal + 0.1

    def test_a_container_that_is_down_is_asked_every_five_seconds_at_last(self) -> None:
        """Asking costs little, and a fleet may start late."""
        made = schedule(1)
        world = World(made, DOWN)
        made.join(0.0)
        world.run(0.0, 100.0)
        gaps = [later - sooner for (sooner, _), (later, _) in zip(world.asked, world.asked[1:], strict=False)]

        assert max(gaps) <= 6.1
        assert min(gaps[5:]) >= 3.9

    def test_a_session_makes_all_good(self) -> None:
        """After a handshake that succeeds the next failure costs half a second again."""
        made = schedule(1)
        (url,) = urls(1)
        world = World(made)
        world.outcomes = {url: Outcome.SICK}
        made.join(0.0)
        world.run(0.0, 10.0)
        world.outcomes = {}
        world.run(10.0, 30.0)

        assert len(world.granted) == 1
        assert (made.nodes[url].fault, made.nodes[url].failures) == (None, 0)

    def test_a_container_that_its_user_found_stuck_is_left_alone(self) -> None:
        """A fault that comes with a session given back puts its container aside with that reason."""
        made = schedule(1)
        made.join(0.0)
        opened(made)
        (url,) = urls(1)
        made.closed(url, 1.0, fault="a step never ended")

        assert made.nodes[url].fault is Fault.SICK
        assert made.nodes[url].reason == "a step never ended"

    def test_a_container_on_which_sessions_keep_going_wrong_waits_longer(self) -> None:
        """Its handshakes succeed each time; only a session that goes well makes good what the others did."""
        made = schedule(2)
        bad, _ = urls(2)
        waits = []
        for fault in ("stuck", "stuck", "stuck", "", "stuck"):
            made.nodes[bad].held, made.held = 1, 1
            made._quarantine.lift(made.nodes[bad], proven=True)
            made.release(bad, 0.0, reusable=not fault)
            made.closed(bad, 0.0, fault=fault)
            waits.append(round(made.nodes[bad].retry_at))

        assert waits[0] <= 1 <= waits[1] <= 2 <= waits[2]
        assert waits[4] == waits[0]

    def test_where_all_sessions_go_wrong_none_waits_longer(self) -> None:
        """A fault that every container has is not theirs: each is asked again after half a second."""
        made = schedule(2)
        for _ in range(6):
            for url in urls(2):
                made.nodes[url].held, made.held = 1, 1
                made._quarantine.lift(made.nodes[url], proven=True)
                made.closed(url, 0.0, fault="no grader today")

        assert all(node.retry_at <= 1.2 for node in made.nodes.values())

    def test_a_session_of_ours_outweighs_a_health_that_fails(self) -> None:
        """A container of several sessions of which we hold one is not put aside for a health that did not answer."""
        made = schedule(1)
        (url,) = urls(1)
        made.join(0.0)
        for probe in made.plan(0.0).probe:
            made.probed(probe, Health(True, False, 0, 2, status=200), 0.0)
        made.opened(made.plan(0.0).open[0], Outcome.OPENED, 0.0)
        made.nodes[url].spare = 0
        made._ready.clear()
        made.join(1.0)
        for probe in made.plan(1.0).probe:
            made.probed(probe, DOWN, 1.0)

        assert made.nodes[url].fault is None
        assert made.nodes[url].seen_at == 1.0

    def test_more_than_half_within_ten_seconds_is_suspicious(self) -> None:
        """The faults are counted by errno where there is one, and forgotten after ten seconds."""
        made = schedule(8)
        world = World(made, DOWN)
        for url in urls(8)[6:]:
            world.healths[url] = Health(False, reason="/health answered HTTP 503", status=503)
        made.join(0.0)
        world.run(0.0, 0.2)

        assert made.suspicion(1.0) == {"ECONNREFUSED": 6, "/health answered HTTP 503": 2}
        assert made.suspicion(30.0) == {}

    def test_half_is_not_suspicious(self) -> None:
        """Faults of half the fleet are those of containers."""
        made = schedule(8)
        world = World(made, LEASED)
        for url in urls(8)[:4]:
            world.healths[url] = DOWN
        made.join(0.0)
        world.run(0.0, 0.2)

        assert made.suspicion(1.0) == {}

    def test_our_own_want_of_descriptors_is_no_fault_of_theirs(self) -> None:
        """EMFILE does not back a container off further each time, and makes us ask one at a time."""
        made = schedule(100)
        starved = Health(False, reason="too many open files", errno=errno.EMFILE)
        made.join(0.0)
        for url in made.plan(0.0).probe:
            made.probed(url, starved, 0.0)

        assert made.suspicion(0.0) == {"EMFILE": 2}
        assert len(made.plan(0.1).probe) == 1
        assert all(node.failures == 0 for node in made.nodes.values())

    def test_a_starved_opening_ends_the_wait_of_the_first(self) -> None:
        """Its ticket is handed out to be told so; the container is as good as before."""
        made = schedule(1)
        ticket = made.join(0.0)
        for url in made.plan(0.0).probe:
            made.probed(url, FREE, 0.0)
        (url,) = made.plan(0.0).open

        assert made.opened(url, Outcome.STARVED, 0.1) is ticket
        assert made.nodes[url].fault is None

        made.join(0.2)

        assert made.plan(0.2).open == [url]


class TestRefused:
    """Containers that will never serve this client."""

    @pytest.mark.parametrize(
        ("status", "final"),
        [(400, True), (401, True), (403, True), (404, True), (408, False), (425, False), (429, False), (500, False)],
    )
    def test_which_statuses_refuse(self, status: int, final: bool) -> None:
        """A 4xx other than 408, 425 and 429."""
        assert refuses(status) is final
        assert not refuses(None)

    def test_all_refused_ends_every_wait(self) -> None:
        """When every container refuses, whoever waits has no hope."""
        made = schedule(3)
        world = World(made)
        world.outcomes = dict.fromkeys(urls(3), Outcome.REFUSED)
        tickets = [made.join(0.0), made.join(0.0)]
        world.run(0.0, 0.1)

        assert made.hopeless(0.1) == tickets

    def test_some_refused_are_left_out(self) -> None:
        """A container that refuses is put aside for half a minute, and the others serve."""
        made = schedule(3)
        world = World(made)
        world.outcomes = {urls(3)[0]: Outcome.REFUSED, urls(3)[1]: Outcome.REFUSED}
        ticket = made.join(0.0)
        world.run(0.0, 0.2)

        assert [granted for _, granted in world.granted] == [ticket]
        assert made.hopeless(0.2) == []

    def test_a_new_lease_looks_at_refusing_containers_anew(self) -> None:
        """A token that has been put right works at once."""
        made = schedule(2)
        world = World(made)
        world.outcomes = dict.fromkeys(urls(2), Outcome.REFUSED)
        made.leave(made.join(0.0), 0.0)
        made.join(0.0)
        world.run(0.0, 0.1)
        for ticket in made.hopeless(0.1):
            made.leave(ticket, 0.1)
        world.outcomes = {}
        ticket = made.join(1.0)

        assert made.hopeless(1.0) == []

        world.run(1.0, 1.2)

        assert [granted for _, granted in world.granted] == [ticket]


class TestImpatient:
    """Leases that do not wait for busy containers."""

    def end(self, made: Schedule, world: World, start: float = 0.0) -> float:
        """When the lease that does not wait is told that there is nothing."""
        now = start
        while now < start + 10:
            world.run(now, now + 0.001)
            if made.hopeless(now):
                return now - start
            now += 0.01
        return FOREVER

    def test_at_once_when_all_are_leased(self) -> None:
        """Sixteen leased containers are looked at, and that is that."""
        made = schedule(16)
        made.join(0.0, wait_busy=False)

        assert self.end(made, World(made, LEASED)) <= 0.1

    def test_the_patient_wait_on(self) -> None:
        """Only the tickets that do not wait are told."""
        made = schedule(2)
        made.join(0.0)
        impatient = made.join(0.0, wait_busy=False)
        World(made, LEASED).run(0.0, 0.1)

        assert made.hopeless(0.1) == [impatient]

    def test_it_gets_a_free_one(self) -> None:
        """A container that is free is leased, however many others are not."""
        made = schedule(50)
        world = World(made, LEASED)
        world.healths[urls(50)[17]] = FREE
        ticket = made.join(0.0, wait_busy=False)
        world.run(0.0, 0.1)

        assert [granted for _, granted in world.granted] == [ticket]

    def test_it_looks_anew(self) -> None:
        """What was leased a moment ago is looked at again, for another process may have freed it."""
        made = schedule(4)
        world = World(made, LEASED)
        made.leave(made.join(0.0, wait_busy=False), 0.0)
        made.join(0.0)
        world.run(0.0, 0.1)
        world.healths[urls(4)[2]] = FREE
        made.join(0.11, wait_busy=False)
        world.run(0.11, 0.2)

        assert len(world.granted) >= 1

    def test_containers_that_we_hold_need_no_look(self) -> None:
        """With every session in our own hands the answer is there at once, without a request."""
        made = schedule(1)
        made.join(0.0)
        opened(made)
        impatient = made.join(1.0, wait_busy=False)

        assert made.plan(1.0).probe == []
        assert made.hopeless(1.0) == [impatient]

    def test_unhealthy_ones_cost_their_timeout(self) -> None:
        """Probes that nobody answers are waited for, and then it is over."""
        made = schedule(3)
        made.join(0.0, wait_busy=False)
        probes = made.plan(0.0).probe + made.plan(0.1).probe

        assert made.hopeless(1.9) == []

        for url in probes:
            made.probed(url, Health(False, reason="timed out"), 2.0)

        assert len(made.hopeless(2.0)) == 1

    def test_handshakes_that_hang_end_it_within_three_seconds(self) -> None:
        """A container that answers health and no handshake is given up on."""
        made = schedule(4)
        made.join(0.0, wait_busy=False)
        now = 0.0
        while now < 5 and not made.hopeless(now):
            for url in made.plan(now).probe:
                made.probed(url, FREE, now)
            now += 0.05

        assert IMPATIENT_S <= now <= 3.0

    def test_sick_ones_are_not_tried_for_it(self) -> None:
        """A container in quarantine is not tried sooner because somebody is in a hurry."""
        made = schedule(2)
        world = World(made)
        world.outcomes = dict.fromkeys(urls(2), Outcome.SICK)
        made.join(0.0, wait_busy=False)
        world.run(0.0, 0.1)
        for ticket in made.hopeless(0.1):
            made.leave(ticket, 0.1)
        tried = len(world.tried)
        made.join(0.2, wait_busy=False)
        world.run(0.2, 0.21)

        assert len(world.tried) == tried == 2
        assert len(made.hopeless(0.21)) == 1


class TestFairness:
    """Sharing with other processes."""

    def held(self, **options: float) -> tuple[Schedule, str]:
        """A schedule with its one container leased, and somebody waiting."""
        made = schedule(1, **options)
        made.join(0.0)
        opened(made)
        for _ in range(100):
            made.join(0.0)
        return made, urls(1)[0]

    def test_handed_on_until_both_limits_are_reached(self) -> None:
        """A container is asked whether others wait only after 8 hand-overs and 30 s, whichever comes last."""
        made, url = self.held()
        early = [made.release(url, CHAIN_S - 1, reusable=True)[0] for _ in range(20)]
        late, _ = made.release(url, 1.4 * CHAIN_S, reusable=True)

        assert early == [Release.HAND_OVER] * 20
        assert late is Release.ASK

        made, url = self.held()
        slow = [made.release(url, CHAIN_S * 2 * n, reusable=True)[0] for n in range(1, CHAIN_HANDOVERS + 2)]

        assert slow == [Release.HAND_OVER] * CHAIN_HANDOVERS + [Release.ASK]

    @pytest.mark.parametrize(
        ("wanted_s", "expected"),
        [(None, Release.HAND_OVER), (0.2, Release.LET_GO), (59.0, Release.HAND_OVER), (UNKNOWN, Release.LET_GO)],
    )
    def test_let_go_when_others_wait(self, wanted_s: float | None, expected: Release) -> None:
        """It is let go when somebody was just seen waiting, or when the server cannot say."""
        made, url = self.held(chain_handovers=0, chain_s=0.0)
        decision, ticket = made.release(url, 1.0, reusable=True, wanted_s=wanted_s, asked=True)

        assert decision is expected
        assert (ticket is not None) is (expected is Release.HAND_OVER)

    def test_a_chain_that_nobody_else_wanted_begins_anew(self) -> None:
        """After a question that found nobody, the container is handed on for another 30 s."""
        made, url = self.held(chain_handovers=1, chain_s=10.0)
        made.release(url, 1.0, reusable=True)
        made.release(url, 14.1, reusable=True, wanted_s=None, asked=True)

        assert made.release(url, 14.2, reusable=True)[0] is Release.HAND_OVER
        assert made.release(url, 24.0, reusable=True)[0] is Release.HAND_OVER
        assert made.release(url, 28.2, reusable=True)[0] is Release.ASK

    def test_a_container_let_go_is_left_to_others_for_a_moment(self) -> None:
        """It is neither asked nor opened for a jittered moment, then asked first."""
        moments = set()
        for seed in range(10):
            made = schedule(1, seed)
            made.join(0.0)
            opened(made)
            made.join(0.5)
            world = World(made)
            made.closed(urls(1)[0], 1.0, let_go=True)
            world.run(1.0, 2.0)
            moments.add(round(world.asked[0][0] - 1.0, 3))
            assert 0 < world.tried[0][0] - world.asked[0][0] < 0.03

        assert min(moments) >= REST_S[0]
        assert max(moments) <= REST_S[1] + 0.06
        assert len(moments) > 5

    def test_a_container_just_closed_that_says_it_is_leased_is_looked_at_soon(self) -> None:
        """The server may notice late that our session is over; it is asked again at once, and not tried blindly."""
        made = schedule(200)
        world = World(made, LEASED)
        url = urls(200)[0]
        world.healths[url] = FREE
        made.join(0.0)
        world.run(0.0, 1.0)
        made.join(1.0)
        made.closed(url, 1.0)
        (again,) = made.plan(1.0).open
        made.opened(again, Outcome.BUSY, 1.001)
        tried = len(world.tried)
        world.run(1.002, 1.3)

        assert again == url
        assert len(world.granted) == 2
        assert world.granted[1][0] <= 1.15
        assert len(world.tried) == tried + 1


class TestSlots:
    """Containers that serve several sessions, and those that do not say how many."""

    def test_all_sessions_of_a_container_are_used(self) -> None:
        """A container of three sessions serves three waiters, and no fourth."""
        made = schedule(1)
        for _ in range(4):
            made.join(0.0)
        for url in made.plan(0.0).probe:
            made.probed(url, Health(True, False, 0, 3, status=200), 0.0)
        opens = made.plan(0.0).open

        assert opens == urls(1) * 3
        assert all(made.opened(url, Outcome.OPENED, 0.0) for url in opens)
        assert made.plan(1.0).open == []
        assert made.nodes[urls(1)[0]].full

    def test_sessions_of_others_count(self) -> None:
        """Of three sessions of which others hold two, one is opened."""
        made = schedule(1)
        made.join(0.0)
        made.join(0.0)
        for url in made.plan(0.0).probe:
            made.probed(url, Health(True, False, 2, 3, status=200), 0.0)

        assert made.plan(0.0).open == urls(1)

    def test_a_plain_server_is_found_out_one_session_at_a_time(self) -> None:
        """Its health does not say whether it is leased: only a handshake can, and its refusal says how many it has."""
        made = schedule(1)
        (url,) = urls(1)
        for _ in range(3):
            made.join(0.0)
        for probe in made.plan(0.0).probe:
            made.probed(probe, PLAIN, 0.0)

        assert made.plan(0.0).open == [url]

        made.opened(url, Outcome.OPENED, 0.0)

        assert made.plan(0.0).open == [url]

        made.opened(url, Outcome.BUSY, 0.0, count=1)

        assert made.plan(0.0).open == []
        assert (made.nodes[url].slots, made.nodes[url].full) == (1, True)

    def test_a_plain_server_leased_by_others_is_tried_four_times_a_second(self) -> None:
        """Its handshake is dear, so one container is not tried more often."""
        made = schedule(1)
        world = World(made, PLAIN)
        world.outcomes = {urls(1)[0]: Outcome.BUSY}
        made.join(0.0)
        world.run(0.0, 10.0)

        assert 30 <= len(world.tried) <= 41

    def test_a_plain_server_freed_by_others_is_leased(self) -> None:
        """Once its handshake succeeds the first waiter has it."""
        made = schedule(2)
        world = World(made, PLAIN)
        world.outcomes = dict.fromkeys(urls(2), Outcome.BUSY)
        ticket = made.join(0.0)
        world.run(0.0, 1.0)
        world.outcomes = {}
        world.run(1.0, 1.5)

        assert [granted for _, granted in world.granted] == [ticket]


class TestUpdate:
    """A fleet that changes."""

    def test_added_ones_are_looked_at_first(self) -> None:
        """A container that is added while all others are busy is asked at the next turn."""
        made = schedule(1000)
        world = World(made, LEASED)
        made.join(0.0)
        world.run(0.0, 2.0)
        made.update([*urls(1000), "http://10.1.1.1:80"])

        assert "http://10.1.1.1:80" in made.plan(2.0).probe

    def test_removed_ones_drain(self) -> None:
        """A container that is removed while leased is handed to nobody, and forgotten when it is closed."""
        made = schedule(2)
        ticket = made.join(0.0)
        assert opened(made) is ticket
        url = next(node.url for node in made.nodes.values() if node.held)
        made.join(1.0)
        made.update([other for other in urls(2) if other != url])

        assert made.release(url, 2.0, reusable=True) == (Release.CLOSE, None)

        made.closed(url, 2.0)

        assert url not in made.nodes

    def test_removed_while_it_is_opened(self) -> None:
        """A session that comes about on a container removed meanwhile is given to nobody."""
        made = schedule(1)
        made.join(0.0)
        for url in made.plan(0.0).probe:
            made.probed(url, FREE, 0.0)
        (url,) = made.plan(0.0).open
        made.update(["http://10.1.1.1:80"])

        assert made.opened(url, Outcome.OPENED, 0.1) is None

        made.closed(url, 0.2)

        assert [node.url for node in made.nodes.values()] == ["http://10.1.1.1:80"]

    def test_removed_while_it_is_asked(self) -> None:
        """Its answer is taken in, and it is forgotten."""
        made = schedule(1)
        made.join(0.0)
        (url,) = made.plan(0.0).probe
        made.update(["http://10.1.1.1:80"])
        made.probed(url, FREE, 0.1)

        assert [node.url for node in made.nodes.values()] == ["http://10.1.1.1:80"]

    def test_back_again_is_looked_at_first(self) -> None:
        """A container that returns while it drains is asked at once."""
        made = schedule(1)
        (url,) = urls(1)
        made.join(0.0)
        for probe in made.plan(0.0).probe:
            made.probed(probe, Health(True, False, 0, 2, status=200), 0.0)
        made.opened(made.plan(0.0).open[0], Outcome.OPENED, 0.0)
        made.update(["http://10.1.1.1:80"])
        made.update([url])
        made.join(0.1)

        assert made.plan(0.1).probe == [url]

    def test_another_spelling_is_the_same_container(self) -> None:
        """A trailing slash makes no second container."""
        made = schedule(1)
        made.update([f"{urls(1)[0]}/", "HTTP://10.0.0.0:8000"])

        assert len(made.nodes) == 1

    def test_probes_that_will_never_be_answered_are_forgotten(self) -> None:
        """When the one who asks has stopped, every container may be asked again."""
        made = schedule(1)
        ticket = made.join(0.0)
        made.plan(0.0)
        made.leave(ticket, 0.5)
        made.unanswered()
        made.join(5.0)

        assert made.plan(5.0).probe == urls(1)
