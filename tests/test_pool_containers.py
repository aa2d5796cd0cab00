"""Containers on fixed ports, leased one at a time, on a fake Docker. R<n> are the requirements of the table."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests
from dockerfake import DockerFake
from ports import listens
from processes import alive, until

from miroir.errors import ContainerPoolError, InvalidArgument, MiroirError
from miroir.pool import ContainerPool, Mount
from miroir.pool.docker.cli import Docker
from miroir.pool.owner import Owner

Maker = Callable[..., ContainerPool]


@pytest.fixture
def docker(tmp_path: Path) -> Iterator[DockerFake]:
    """A fake Docker without containers."""
    fake = DockerFake(tmp_path / "docker")
    yield fake
    fake.close()


@pytest.fixture
def make(docker: DockerFake, base: int) -> Iterator[Maker]:
    """Make a pool; it is stopped after the test."""
    made: list[ContainerPool] = []

    def make(kind: str = "well", **options: object) -> ContainerPool:
        given = {
            "image": "world:1", "size": 2, "port_base": base, "name_prefix": "world", "readiness_path": "/",
            "container_args": lambda port: [kind, str(port)], "startup_timeout_s": 20.0, "docker": docker.command,
        }  # fmt: skip
        made.append(ContainerPool(**{**given, **options}))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for pool in made:
        pool.stop()


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readiness is looked at often."""
    monkeypatch.setattr("miroir.pool.portpool.POLL_S", 0.05)


def names(base: int) -> list[str]:
    """The names of a pool of two."""
    return [f"world-{base}", f"world-{base + 1}"]


def in_thread(call: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    """A thread that calls, and what came of it."""
    outcome: list[object] = []

    def run() -> None:
        try:
            outcome.append(call())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, outcome


class TestMount:
    """A folder that a container sees."""

    def test_a_mount_is_a_value_with_a_mode_of_its_own(self) -> None:
        """R13, R15: the argument is HOST:CONTAINER:MODE; the value cannot change."""
        mount = Mount("/data", "/run/data", "ro")
        assert mount.to_arg() == "/data:/run/data:ro"
        assert mount == Mount(host="/data", container="/run/data", mode="ro")
        with pytest.raises(AttributeError):
            mount.mode = "rw"  # type: ignore[misc]

    def test_an_unknown_mode_is_refused(self) -> None:
        """R10, R14: before any command, with what is allowed and what was given."""
        with pytest.raises(ValueError, match="the mount mode 'z' is neither 'ro' nor 'rw'"):
            Mount("/data", "/run/data", "z")

    def test_a_mount_is_read_from_a_command_line(self) -> None:
        """The mode may be left out, as in docker; a path that is relative could mean anything."""
        assert Mount.parse("/a:/b:ro") == Mount("/a", "/b", "ro")
        assert Mount.parse("/a:/b") == Mount("/a", "/b", "rw")
        for text in ("/a", "a:/b:ro", "/a:b", ""):
            with pytest.raises(InvalidArgument, match="mounts nothing; write /HOST:/CONTAINER:ro"):
                Mount.parse(text)

    def test_a_path_with_a_comma_survives_the_option_that_splits_at_commas(self) -> None:
        """`--mount` takes a line of CSV."""
        assert Mount("/a,b", "/c", "ro").to_bind() == 'type=bind,"src=/a,b",dst=/c,readonly'
        assert Mount("/a", "/c", "rw").to_bind() == "type=bind,src=/a,dst=/c"


class TestConstruction:
    """What a pool is before it starts."""

    def test_making_a_pool_starts_nothing(self, make: Maker, docker: DockerFake, base: int) -> None:
        """R17, R21: no command runs, and the ports are known."""
        assert make(size=3).ports == (base, base + 1, base + 2)
        assert docker.calls() == []

    @pytest.mark.parametrize(
        ("option", "value", "message"),
        [
            ("size", 0, "a pool of size 0 has no container"),
            ("port_base", 1023, "the ports 1023 to 1024 are not all from 1024 to 65535"),
            ("port_base", 65535, "the ports 65535 to 65536 are not all from 1024 to 65535"),
            ("startup_timeout_s", 0, "startup_timeout_s is 0;"),
            ("startup_timeout_s", -1.5, "startup_timeout_s is -1.5;"),
            ("readiness_path", "ready", "the readiness path 'ready' does not begin with a slash; write /ready"),
        ],
    )
    def test_what_cannot_work_is_refused(self, make: Maker, option: str, value: object, message: str) -> None:
        """R18, R19, R20, R38: a ValueError with the value; the upper end of the ports is checked, too."""
        with pytest.raises(ValueError, match=message):
            make(**{option: value})

    def test_its_error_is_both_of_its_kinds(self) -> None:
        """A MiroirError for those who know miroir, a RuntimeError for those who do not."""
        assert issubclass(ContainerPoolError, MiroirError)
        assert issubclass(ContainerPoolError, RuntimeError)


class TestStart:
    """All or nothing."""

    def test_a_container_runs_with_its_own_port_and_arguments(self, make: Maker, docker: DockerFake, base: int) -> None:
        """R3, R4, R8, R34: the port is the same inside and outside, and the name tells it."""
        with make(mounts=[Mount("/data", "/run/data", "ro"), Mount("/out", "/run/out", "rw")]):
            assert sorted(docker.containers) == names(base)
            first = min(docker.calls("run"), key=lambda words: words[3])
        assert first[:4] == ["run", "-d", "--name", f"world-{base}"]
        at = first.index("-p")
        assert first[at:] == [
            "-p", f"{base}:{base}", "-v", "/data:/run/data:ro", "-v", "/out:/run/out:rw", "world:1", "well", str(base),
        ]  # fmt: skip

    def test_it_is_started_once(self, make: Maker) -> None:
        """R22, R23, R24: a second start, and one after stop, say different things."""
        pool = make()
        pool.start()
        with pytest.raises(ContainerPoolError, match="the pool was already started"):
            pool.start()
        pool.stop()
        with pytest.raises(ContainerPoolError, match="the pool was stopped; make a new pool"):
            pool.start()

    def test_containers_start_at_once_and_are_leased_when_all_are_ready(
        self, make: Maker, docker: DockerFake, caplog: pytest.LogCaptureFixture, base: int
    ) -> None:
        """R9, R26, R32: any 2xx is ready; one line tells size, image and ports."""
        caplog.set_level(logging.INFO, "miroir.pool")
        with make(size=4) as pool, pool.lease() as port:
            assert requests.get(f"http://127.0.0.1:{port}/", timeout=5).status_code == 200
        assert [record.getMessage() for record in caplog.records if record.levelno == logging.INFO] == [
            f"4 containers of world:1 on ports {base} to {base + 3}"
        ]

    def test_a_start_that_fails_half_way_leaves_nothing(
        self, make: Maker, docker: DockerFake, caplog: pytest.LogCaptureFixture, base: int
    ) -> None:
        """R27, R28, R30, R36, R37: the first failure is raised, with its log, after everything is removed."""
        pool = make("once", size=3)
        with pytest.raises(ContainerPoolError) as raised:
            pool.start()
        assert docker.containers == {}
        assert not any(listens(port) for port in pool.ports)
        text = str(raised.value)
        assert "error while starting: it ended with exit code 3, within 20 s; its log:" in text
        assert raised.value.log[-1] == "told to fail"
        assert raised.value.log[0] == "line 21\N{REPLACEMENT CHARACTER}[31m"
        assert isinstance(raised.value.__cause__, ChildProcessError)

    def test_the_other_failures_are_logged(
        self, make: Maker, docker: DockerFake, caplog: pytest.LogCaptureFixture
    ) -> None:
        """R29: one ordinary exception, and an ERROR for each that is not it."""
        docker.fail("inspect", "Error response from daemon: told to fail")
        with pytest.raises(ContainerPoolError, match="told to fail"):
            make().start()
        errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
        assert len(errors) == 1
        assert errors[0].startswith("another container could not be started")

    def test_a_container_that_is_not_ready_in_time_says_so(self, make: Maker, docker: DockerFake, base: int) -> None:
        """R12, R38, R40, R43: refused connections and 5xx are waited for; the deadline is the failure."""
        for kind, path in (("silent", "/"), ("well", "/never")):
            with pytest.raises(ContainerPoolError, match=r"not ready \(timeout\), within 0.5 s; its log:\n") as raised:
                make(kind, size=1, startup_timeout_s=0.5, readiness_path=path).start()
            assert isinstance(raised.value.__cause__, TimeoutError)
            assert str(raised.value).endswith("silent\n" if kind == "silent" else "<the container printed nothing>")
        assert docker.containers == {}

    def test_logs_that_cannot_be_had_are_said_to_be(self, make: Maker, docker: DockerFake) -> None:
        """R44: with the exit code and docker's words, never nothing."""
        docker.fail("logs", "Error response from daemon: configured logging driver does not support reading")
        with pytest.raises(ContainerPoolError, match="<its log cannot be read: exit code 1: configured logging driver"):
            make("exit").start()

    def test_a_name_that_is_anothers_is_not_taken(self, make: Maker, docker: DockerFake, base: int) -> None:
        """R25, R36: the name, the exit code and docker's words; the other's container runs on."""
        docker.do("run", "-d", "--name", f"world-{base + 1}", "world:1", "well")
        pid = docker.pid(f"world-{base + 1}")
        with pytest.raises(ContainerPoolError) as raised:
            make().start()
        assert str(raised.value) == (
            f"CONTAINER_POOL: world-{base + 1} could not be started: `docker run` ended with exit code 125: Conflict."
            f' The container name "/world-{base + 1}" is already in use by container "00"'
        )
        assert list(docker.containers) == [f"world-{base + 1}"]
        assert alive(pid)

    def test_a_port_that_is_anothers_is_not_taken(self, make: Maker, docker: DockerFake, base: int) -> None:
        """R28: docker leaves a container that it has made and could not start; it is removed, by its label."""
        docker.take(base + 1)
        with pytest.raises(ContainerPoolError, match="port is already allocated"):
            make().start()
        assert docker.containers == {}

    def test_another_server_at_the_port_is_not_ours(self, make: Maker, docker: DockerFake, base: int) -> None:
        """An answer counts only while our own container runs."""
        docker.do("run", "-d", "--name", "foreign", "-p", f"{base}:{base}", "world:1", "well")
        with pytest.raises(ContainerPoolError, match="error while starting: it ended with exit code"):
            make(size=1).start()
        assert requests.get(f"http://127.0.0.1:{base}/", timeout=5).status_code == 200

    def test_only_leftovers_of_the_provably_dead_are_swept(self, make: Maker, docker: DockerFake) -> None:
        """R25: a dead process of this machine; not one of another machine, not one that cannot be read."""
        here = Owner.me()
        owners = {
            "dead": Owner(here.host, here.boot, here.namespace, 2**22 + 1, "1").dump(),
            "alive": here.dump(),
            "far": Owner("elsewhere", here.boot, here.namespace, 2**22 + 1, "1").dump(),
            "odd": "nobody",
        }
        for name, owner in owners.items():
            docker.do("run", "--name", name, "--label", f"miroir.pool={name}", "--label", f"miroir.owner={owner}", "i")
        docker.do("run", "--name", "unlabelled", "i")
        with make(size=1):
            assert "dead" not in docker.containers
        assert set(docker.containers) == {"alive", "far", "odd", "unlabelled"}

    def test_ctrl_c_removes_everything_and_passes_unchanged(self, make: Maker, docker: DockerFake) -> None:
        """R31, R39: also in the midst of waiting."""
        pool = make("silent")

        def interrupt() -> None:
            until(lambda: len(docker.containers) == 2)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            pool.start()
        thread.join()
        assert docker.containers == {}

    def test_a_failed_start_may_be_tried_again(self, make: Maker, docker: DockerFake) -> None:
        """R33: nothing is leased after a failure, until a start has worked."""
        docker.fail("run", "docker: Error response from daemon: not now.")
        pool = make()
        with pytest.raises(ContainerPoolError, match="exit code 1: not now"):
            pool.start()
        with pytest.raises(ContainerPoolError, match="the pool has not been started"), pool.lease():
            pass
        docker.heal("run")
        pool.start()
        with pool.lease() as port:
            assert port in pool.ports

    def test_a_proxy_is_never_asked(self, make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
        """R41, R42: a dead proxy in the environment changes nothing."""
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        with make(size=1) as pool:
            assert len(pool.ports) == 1

    @pytest.mark.parametrize(
        ("said", "message"),
        [
            (
                "Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?",
                r"no container can be started: no Docker daemon answers \(Cannot connect .* running\?\);"
                " start dockerd, or set DOCKER_HOST",
            ),
            (
                "permission denied while trying to connect to the Docker daemon socket at unix:///x: dial: denied",
                r"this user may not use the Docker daemon \(permission denied .*\); join the group docker",
            ),
        ],
    )
    def test_a_docker_that_cannot_work_is_one_clear_error(
        self, make: Maker, docker: DockerFake, said: str, message: str
    ) -> None:
        """No daemon and no permission are told apart, before anything starts."""
        docker.fail("version", said)
        with pytest.raises(ContainerPoolError, match=message):
            make().start()
        assert docker.calls("run") == []

    def test_a_missing_command_or_image_is_one_clear_error(self, make: Maker, docker: DockerFake) -> None:
        """Before anything starts."""
        with pytest.raises(ContainerPoolError, match="the command '/nowhere/docker' cannot be run: no such file"):
            make(docker=("/nowhere/docker",)).start()
        with pytest.raises(ContainerPoolError, match="the image missing:1 is not here and cannot be pulled: pull acc"):
            make(image="missing:1").start()
        assert docker.calls("run") == []


class TestStop:
    """Nothing is left."""

    def test_stop_removes_everything_and_may_be_repeated(self, make: Maker, docker: DockerFake) -> None:
        """R46, R49, R57: also before a start, and at the end of a block that raised."""
        pool = make()
        with pytest.raises(KeyError), pool:
            raise KeyError("x")
        pool.stop()
        assert docker.containers == {}
        make().stop()

    def test_leases_in_use_are_told(self, make: Maker, caplog: pytest.LogCaptureFixture) -> None:
        """R47, R50: their number, at ERROR; a lease that comes back later is not given out again."""
        pool = make()
        pool.start()
        with pool.lease():
            pool.stop()
        assert "the pool stops with 1 leases in use; their requests will fail" in caplog.text
        with pytest.raises(ContainerPoolError, match="the pool was stopped; make a new pool"), pool.lease():
            pass

    def test_whoever_waits_is_woken(self, make: Maker) -> None:
        """R50: a blocked lease raises at once, and none hands out a ghost."""
        pool = make(size=1)
        pool.start()
        with pool.lease():
            thread, outcome = in_thread(lambda: pool.lease().__enter__())
            assert until(lambda: pool._line._waiters)
            pool.stop()
            thread.join(5)
        (error,) = outcome
        assert str(error) == "CONTAINER_POOL: the pool was stopped; make a new pool"

    def test_a_removal_that_fails_still_ends_the_pool(self, make: Maker, docker: DockerFake) -> None:
        """R45, R48: the error is raised, and nothing is leased any more."""
        pool = make()
        pool.start()
        docker.fail("rm", "Error response from daemon: driver failed")
        with pytest.raises(ContainerPoolError, match=r"could not be removed: .*driver failed; remove them by name"):
            pool.stop()
        with pytest.raises(ContainerPoolError, match="the pool was stopped"), pool.lease():
            pass
        docker.heal("rm")

    def test_one_that_cannot_be_removed_is_logged(
        self, make: Maker, docker: DockerFake, caplog: pytest.LogCaptureFixture
    ) -> None:
        """R45: at ERROR, with docker's words; the failure of the start is still the one that is raised."""
        docker.fail("rm", "Error response from daemon: driver failed")
        with pytest.raises(ContainerPoolError, match="error while starting: it ended with exit code 3"):
            make("exit", size=1).start()
        assert "could not be removed: Error response from daemon: driver failed" in caplog.text
        docker.heal("rm")

    def test_a_stop_ends_a_start_that_hangs(self, make: Maker, docker: DockerFake) -> None:
        """From another thread; nothing is left."""
        pool = make("silent")
        thread, outcome = in_thread(pool.start)
        assert until(lambda: len(docker.containers) == 2)
        pool.stop()
        thread.join(10)
        (error,) = outcome
        assert str(error) == "CONTAINER_POOL: the pool was stopped; make a new pool"
        assert docker.containers == {}


class TestLease:
    """One lessee a container."""

    def test_a_lease_is_exclusive_and_always_returned(self, make: Maker) -> None:
        """R51, R55, R56: after an error, too; nothing is asked of the container."""
        with make(size=1) as pool:
            with pytest.raises(KeyError), pool.lease():
                assert pool._line.leased == 1
                raise KeyError("x")
            assert pool._line.leased == 0
            with pool.lease() as port:
                assert port == pool.ports[0]

    def test_a_full_pool_is_waited_for_in_order(self, make: Maker) -> None:
        """R52: without a limit, first come first served."""
        served: list[int] = []

        def serve(number: int) -> None:
            with pool.lease():
                served.append(number)

        with make(size=1) as pool:
            threads = []
            with pool.lease():
                for number in range(4):
                    threads.append(threading.Thread(target=serve, args=(number,)))
                    threads[-1].start()
                    assert until(lambda: len(pool._line._waiters) == len(threads))
                time.sleep(0.1)
                assert served == []
            for thread in threads:
                thread.join(5)
        assert served == [0, 1, 2, 3]

    def test_a_pool_that_was_not_started_says_what_to_do(self, make: Maker) -> None:
        """R53, R54: stopped comes before not started."""
        pool = make()
        with pytest.raises(ContainerPoolError, match=r"call start\(\), or use it in a with block"), pool.lease():
            pass
        pool.stop()
        with pytest.raises(ContainerPoolError, match="the pool was stopped"), pool.lease():
            pass

    def test_a_container_is_replaced_for_its_lessee(self, make: Maker, docker: DockerFake, base: int) -> None:
        """The same port and name; whatever state the old one was in."""
        with make(size=1) as pool, pool.lease() as port:
            before = docker.pid(f"world-{base}")
            assert pool.logs(port) == "<the container printed nothing>"
            docker.kill(f"world-{base}")
            pool.restart(port)
            assert docker.pid(f"world-{base}") != before
            assert requests.get(f"http://127.0.0.1:{port}/", timeout=5).status_code == 200

    def test_a_container_that_cannot_be_replaced_is_out(self, make: Maker, docker: DockerFake) -> None:
        """Its port is never leased again; with the last one, waiters are told."""
        with make() as pool:
            with pool.lease() as first, pool.lease() as second:
                thread, outcome = in_thread(lambda: pool.lease().__enter__())
                assert until(lambda: pool._line._waiters)
                docker.fail("run", "docker: Error response from daemon: no space left on device.")
                for port in (first, second):
                    with pytest.raises(ContainerPoolError, match="no space left on device"):
                        pool.restart(port)
                thread.join(5)
            assert "every container of the pool is out of order" in str(outcome[0])
            with pytest.raises(ContainerPoolError, match="out of order"), pool.lease():
                pass


def test_a_command_is_told_as_it_ended(docker: DockerFake) -> None:
    """R104: code, output and errors, odd bytes replaced; a code that is not 0 raises nothing."""
    sh = Docker(("sh", "-c"))
    done = sh.call("printf 'a\\377'; printf b >&2; exit 3")
    assert (done.code, done.out, done.err) == (3, "a\N{REPLACEMENT CHARACTER}", "b")
    with pytest.raises(ContainerPoolError, match="did not end in time; see whether the Docker daemon is well"):
        sh.call("sleep 60", timeout_s=0.1)
    with pytest.raises(ContainerPoolError, match="was given up; the pool was told to stop"):
        sh.call("sleep 60", given_up=lambda: True)
