"""The engine `swarm`: its decisions without any Docker, and its commands on a fake one."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from dockerfake import DockerFake
from processes import until

from miroir.cli import main
from miroir.errors import ContainerPoolError
from miroir.pool import Change, ContainerSpec, Event, Pool, SwarmEngine, Timing, control
from miroir.pool.owner import Owner
from miroir.pool.status import Status
from miroir.pool.swarm.roster import Roster, Told
from miroir.pool.swarm.task import Task, parse
from miroir.urls import read_urls

TIMING = Timing(start_s=60.0, misses=3)
NODES = {"n1": "10.0.0.1", "n2": "10.0.0.2"}
UP = Task("t1", "1", "n1", True, "running", "", (32768, 32768))
WELL = Status("http://x", True, "", boot_id="b")
SICK = Status("http://x", False, "timed out")


def row(
    task: str,
    slot: int,
    node: str,
    wanted: str,
    state: str,
    *,
    error: str = "",
    port: int | None = None,
    port6: int | None = None,
) -> str:
    """A line of `docker service ps`, as Docker 20.10 and 28 print it."""
    ports = "" if port is None else f"*:{port}->8000/tcp,*:{port}->8000/tcp"
    return json.dumps(
        {
            "CurrentState": f"{state} 3 seconds ago", "DesiredState": wanted, "Error": error, "ID": task,
            "Image": "i", "Name": f"svc.{slot}", "Node": node, "Ports": ports,
        }
    )  # fmt: skip


def lines(told: list[Told]) -> list[str]:
    """The events, as lines."""
    return [str(one.event) for one in told]


def seen(*tasks: Task) -> Roster:
    """A roster of tasks that are ready."""
    roster = Roster("pool", TIMING)
    roster.see(tasks, NODES, 0.0)
    for task in tasks:
        roster.hear(task.id, WELL)
    return roster


class TestTask:
    """What Swarm prints."""

    def test_a_running_task_has_a_port_of_its_node(self) -> None:
        """Docker lists each port twice."""
        (task,) = parse(row("t1", 3, "n1", "Running", "Running", port=32768), 8000)
        assert task == Task("t1", "3", "n1", True, "running", "", (32768, 32768))
        assert task.runs

    def test_the_ports_of_the_two_ip_versions_may_differ(self) -> None:
        """Docker takes another where something else has the one that it wanted; it lists IPv4's first."""
        listed = row("t1", 3, "n1", "Running", "Running", port=32773).replace(",*:32773", ",*:32772")
        (task,) = parse(listed, 8000)
        assert task.url("10.0.0.1") == "http://10.0.0.1:32773"
        assert task.url("fd00::1") == "http://[fd00::1]:32772"

    @pytest.mark.parametrize(
        ("wanted", "state", "port"),
        [
            ("Shutdown", "Running", 32768),  # its node is dead, say: it runs on, and is replaced
            ("Remove", "Running", 32768),
            ("Running", "Preparing", None),
            ("Running", "Running", None),
            ("Running", "Failed", None),
        ],
    )
    def test_a_task_that_is_not_wanted_or_does_not_run_is_not_leased(
        self, wanted: str, state: str, port: int | None
    ) -> None:
        """Whatever its container still answers."""
        (task,) = parse(row("t1", 1, "n1", wanted, state, port=port), 8000)
        assert not task.runs

    def test_a_story_has_the_error(self) -> None:
        """As Swarm says it, without its quotes."""
        (task,) = parse(row("t1", 1, "n1", "Shutdown", "Rejected", error='"No such image: i"'), 8000)
        assert task.story == "rejected: No such image: i"
        assert task.ended


class TestRoster:
    """Who may be leased."""

    def test_a_task_is_listed_when_its_server_is_well(self) -> None:
        """Swarm's `running` says only that a process runs."""
        roster = Roster("pool", TIMING)
        assert roster.see([UP], NODES, 0.0) == []
        assert roster.hear("t1", SICK) == []
        assert roster.ready() == []
        assert lines(roster.hear("t1", WELL)) == ["pool.1 ready: http://10.0.0.1:32768"]
        assert roster.hear("t1", WELL) == []
        assert roster.ready() == ["http://10.0.0.1:32768"]

    def test_a_task_of_a_node_without_address_waits(self) -> None:
        """Until Swarm says where the node is."""
        roster = Roster("pool", TIMING)
        roster.see([UP], {}, 0.0)
        assert roster.probed() == {}
        roster.see([UP], NODES, 1.0)
        assert roster.probed() == {"t1": ("http://10.0.0.1:32768", False)}

    def test_a_task_that_swarm_gives_up_leaves_at_once(self) -> None:
        """However well it answers; the task that takes its place comes when it is well."""
        roster = seen(UP)
        gone, new = replace(UP, wanted=False), Task("t2", "1", "n2", True, "running", "", (40000, 40000))
        told = roster.see([new, gone], NODES, 1.0)
        assert lines(told) == ["pool.1 down: http://10.0.0.1:32768 left: Swarm has it no longer wanted (running)"]
        assert roster.ready() == []
        assert roster.hear("t1", WELL) == []
        roster.hear("t2", WELL)
        assert roster.ready() == ["http://10.0.0.2:40000"]

    def test_a_task_that_ended_tells_how(self) -> None:
        """Or that it is not even listed any more."""
        roster = seen(UP, replace(UP, id="t2", slot="2", ports=(2, 2)))
        told = roster.see([replace(UP, state="failed", error="task: non-zero exit (137)")], NODES, 1.0)
        assert sorted(lines(told)) == [
            "pool.1 down: http://10.0.0.1:32768 left: Swarm has it failed: task: non-zero exit (137)",
            "pool.2 down: http://10.0.0.1:2 left: Swarm has it removed",
        ]

    def test_a_server_that_is_sick_for_long_is_out_until_it_is_well(self) -> None:
        """Swarm does not look at servers; nobody kills this one."""
        roster = seen(UP)
        assert roster.hear("t1", SICK) == roster.hear("t1", SICK) == []
        assert roster.ready() == ["http://10.0.0.1:32768"]
        assert lines(roster.hear("t1", SICK)) == [
            "pool.1 down: was unhealthy 3 times in a row (timed out); it is out until it is well"
        ]
        assert roster.ready() == []
        assert lines(roster.hear("t1", WELL)) == ["pool.1 ready: http://10.0.0.1:32768"]

    def test_another_server_at_the_url_is_not_the_tasks(self) -> None:
        """A changed boot id is a fault."""
        roster = seen(UP)
        for _ in range(3):
            told = roster.hear("t1", replace(WELL, boot_id="another"))
        assert "(another server answers at its URL)" in lines(told)[0]

    def test_a_slot_that_never_was_ready_fails_once(self) -> None:
        """By a task that failed, or by the time; each slot has its own time."""
        roster = Roster("pool", TIMING)
        rejected = Task("t1", "1", "n1", False, "rejected", "No such image: i", ())
        pending = Task("t2", "2", "", True, "pending", "no suitable node", ())
        assert lines(roster.see([rejected, pending], NODES, 0.0)) == ["pool.1 failed: has rejected: No such image: i"]
        late = replace(pending, id="t3", slot="3")
        assert roster.see([rejected, pending, late], NODES, 30.0) == []
        assert lines(roster.see([rejected, pending, late], NODES, 60.0)) == [
            "pool.2 failed: was not ready within 60 s (it is pending: no suitable node)"
        ]
        assert roster.see([rejected, pending, late], NODES, 61.0) == []

    def test_a_name_finds_its_task(self) -> None:
        """For its log."""
        roster = seen(UP)
        assert (roster.task("pool.1"), roster.task("pool.2")) == ("t1", None)


@pytest.fixture
def docker(tmp_path: Path) -> Iterator[DockerFake]:
    """A fake manager of a Swarm, without tasks, whose only node is this machine."""
    fake = DockerFake(tmp_path / "docker")
    fake.answer("info", "true\n")
    fake.answer("node-inspect", json.dumps([{"Status": {"Addr": "127.0.0.1"}}]))
    yield fake
    fake.close()


def engine(docker: DockerFake) -> SwarmEngine:
    """An engine that looks often."""
    timing = Timing(start_s=5.0, ready_every_s=0.02, ended_every_s=0.02, health_every_s=0.1)
    return SwarmEngine(ContainerSpec("world:1"), options=("--constraint", "a==b"), docker=docker.command, timing=timing)


def service(pool: str, owner: str, **labels: str) -> str:
    """What `docker service inspect` prints."""
    said = {"miroir.pool": pool, "miroir.owner": owner, **{f"miroir.{name}": value for name, value in labels.items()}}
    return json.dumps([{"Spec": {"Name": f"miroir-{pool}", "Labels": said, "Mode": {"Replicated": {"Replicas": 4}}}}])


def test_the_list_follows_the_tasks(docker: DockerFake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the create to the end, when the service is scaled to none and removed."""
    monkeypatch.setattr("miroir.pool.swarm.engine.FOLLOW_S", 0.05)
    ports = []
    for name in ("a", "b"):
        docker.do("run", "--name", name, "i", "well")
        ports.append(int((docker.folder / f"port-{docker.containers[name]['id']}").read_text()))
    first, second = (row(f"t{n}", n, "n1", "Running", "Running", port=port) for n, port in enumerate(ports, 1))
    docker.answer("service-ps", f"{first}\n{second}\n")
    told: list[Event] = []
    with Pool(engine(docker), n=2, urls_file=tmp_path / "urls.txt", on_event=told.append) as pool:
        assert sorted(pool.urls) == sorted(f"http://127.0.0.1:{port}" for port in ports)
        docker.answer("service-ps", f"{first}\n{row('t2', 2, 'n1', 'Remove', 'Running', port=ports[1])}\n")
        assert until(lambda: read_urls(tmp_path / "urls.txt") == [f"http://127.0.0.1:{ports[0]}"])
        docker.answer("service-ps", "")
        assert until(lambda: not pool.urls)
    (create,) = (words for words in docker.calls("service") if words[1] == "create")
    assert create[2:6] == ["--detach", "--name", create[4], "--replicas"]
    assert create[-5:] == ["--publish", "mode=host,target=8000", "--constraint", "a==b", "world:1"]
    assert [words[1] for words in docker.calls("service") if words[1] in {"scale", "rm"}] == ["scale", "rm"]
    assert [event.change for event in told if event.name.endswith(".2")] == [Change.READY, Change.DOWN]


def test_a_service_that_is_removed_ends_the_pool(docker: DockerFake) -> None:
    """By someone else, while it runs."""
    docker.do("run", "--name", "a", "i", "well")
    port = int((docker.folder / f"port-{docker.containers['a']['id']}").read_text())
    docker.answer("service-ps", row("t1", 1, "n1", "Running", "Running", port=port))
    with Pool(engine(docker), n=1) as pool:
        docker.fail("service-ps", "no such service: x")
        with pytest.raises(ContainerPoolError, match="every container was given up"):
            pool.wait()
        assert pool.urls == []


def test_a_task_that_fails_at_the_start_ends_it_with_its_log(docker: DockerFake) -> None:
    """The service is removed."""
    docker.answer("service-ps", row("t1", 1, "n1", "Shutdown", "Failed", error="task: non-zero exit (3)"))
    docker.answer("service-logs", "a line\ntold to fail\n")
    with pytest.raises(
        ContainerPoolError, match=r"\.1 has failed: task: non-zero exit \(3\): told to fail; nothing was l"
    ):
        Pool(engine(docker), n=1).start()
    assert ["service", "logs", "--raw", "--tail", "50", "t1"] in docker.calls("service")
    assert docker.calls("service")[-1][1] == "rm"


def test_a_docker_that_manages_no_swarm_is_refused(docker: DockerFake) -> None:
    """Before anything is created."""
    docker.answer("info", "false\n")
    with pytest.raises(
        ContainerPoolError, match="not a manager of a Swarm; run `docker swarm init`, or set DOCKER_HOST"
    ):
        Pool(engine(docker), n=1).start()
    assert docker.calls("service") == []


def test_a_service_that_swarm_refuses_is_one_error(docker: DockerFake) -> None:
    """With docker's words."""
    docker.fail("service-create", "Error response from daemon: secret not found: s")
    with pytest.raises(ContainerPoolError, match="the service could not be created: secret not found: s"):
        Pool(engine(docker), n=1).start()


def test_services_of_the_provably_dead_are_swept(docker: DockerFake) -> None:
    """Those of others are not."""
    here = Owner.me()
    docker.answer("service-ls", "miroir-x\n")
    for owner, swept in ((replace(here, host="elsewhere"), False), (replace(here, pid=2**22 + 1), True)):
        docker.answer("service-inspect", service("x", owner.dump()))
        docker.fail("service-create", "Error response from daemon: not now")
        with pytest.raises(ContainerPoolError, match="not now"):
            Pool(engine(docker), n=1).start()
        assert (["service", "rm", "miroir-x"] in docker.calls("service")) == swept


def test_a_pool_on_swarm_is_scaled_and_stopped_by_its_id(docker: DockerFake) -> None:
    """By force when its owner cannot be looked at."""
    docker.answer("service-ls", "miroir-x\n")
    docker.answer("service-inspect", service("x", replace(Owner.me(), host="elsewhere").dump()))
    command = ["--docker", shlex.join(docker.command)]
    assert main(["pool", "--scale", "x", "6", *command]) == 0
    assert docker.calls("service")[-1] == ["service", "scale", "--detach", "miroir-x=6"]
    assert main(["pool", "--stop", "x", *command]) == 2
    assert main(["pool", "--stop", "x", "--force", *command]) == 0
    assert docker.calls("service")[-1] == ["service", "rm", "miroir-x"]


def test_a_pool_on_swarm_is_adopted(docker: DockerFake) -> None:
    """Its service is told of the new owner; of two who try at once the one whose word remains has it."""
    dead = replace(Owner.me(), pid=2**22 + 1)
    docker.answer("service-ls", "miroir-x\n")
    docker.answer("service-inspect", service("x", dead.dump(), spec=ContainerSpec("world:1").dump()))
    with pytest.raises(ContainerPoolError, match="the pool x could not be adopted; see who else has it"):
        control.adopt("x", docker=docker.command)
    (update,) = (words for words in docker.calls("service") if words[1] == "update")
    assert update[3:6:2] == ["--label-add", "--label-add"]
    assert update[4] == f"miroir.owner={Owner.me().dump()}"
    docker.answer("service-inspect", service("x", Owner.me().dump(), spec=ContainerSpec("world:1").dump()))
    with pytest.raises(ContainerPoolError, match="belongs to the running process"):
        control.adopt("x", docker=docker.command)
