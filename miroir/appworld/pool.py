"""A pool of AppWorld servers: a session on a task is a server that nobody else has."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..errors import AppWorldError, ConnectionFailed, ContainerPoolError, InvalidArgument
from ..pool import ContainerPool, Mount
from ..pool.logfile import last_lines
from ..pool.portpool import PROBE_S, PortPool
from ..rest import fetch
from .data import DataRoot
from .process import ProcessPool
from .server import Server
from .session import AppWorldSession, Settings, opened

DEFAULT_IMAGE = "ghcr.io/stonybrooknlp/appworld:latest"  # it moves: pin a digest where scores are compared
DEFAULT_PORT_BASE = 8200
CONTAINER_NAME_PREFIX = "miroir-appworld"
READINESS_PATH = "/"
DATA_MOUNT_MODE = "ro"  # a stray write would change the tasks of whoever else uses the data

_log = logging.getLogger("miroir.appworld")


def container_args_for_port(port: int) -> list[str]:
    """What the image's entrypoint is told, so that the server listens on the port inside the container."""
    return ["environment", "--port", str(port), "--no-show-usage"]


class AppWorldPool:
    """`size` AppWorld servers over the data of `data_root`, from `start` to `stop`, or in a `with` block; used once.

    They are containers of `image` on the ports from `port_base`, or processes of the interpreter `python`, where that
    is given. `outputs_dir` is where AppWorld writes, a folder of Miroir's own in the temporary folder by default; it is
    never removed, and each session writes to `<experiment_name>-<id>` in it. `execution_timeout_s` bounds the code of
    one `execute`. `extra_init_params` are further parameters of `/initialize`, for newer versions of AppWorld.
    """

    def __init__(
        self,
        *,
        data_root: str | os.PathLike[str],
        size: int,
        outputs_dir: str | os.PathLike[str] | None = None,
        experiment_name: str = "miroir",
        image: str = DEFAULT_IMAGE,
        port_base: int = DEFAULT_PORT_BASE,
        max_interactions: int = 40,
        execution_timeout_s: float = 100,
        startup_timeout_s: float = 180.0,
        extra_init_params: Mapping[str, Any] | None = None,
        python: str | None = None,
    ) -> None:
        self._data = DataRoot(data_root)
        self._outputs = Path(outputs_dir or Path(tempfile.gettempdir()) / CONTAINER_NAME_PREFIX).resolve()
        self._settings = Settings(experiment_name, max_interactions, execution_timeout_s, extra_init_params or {})
        _check_sendable(self._settings)
        self._servers = self._made(image, python, size, port_base, startup_timeout_s)
        self._state = "new"  # new, started or stopped

    def _made(self, image: str, python: str | None, size: int, port_base: int, startup_timeout_s: float) -> PortPool:
        if python is not None:
            return ProcessPool(
                python=python,
                data_root=self._data,
                outputs_dir=self._outputs,
                size=size,
                port_base=port_base,
                startup_timeout_s=startup_timeout_s,
            )
        return ContainerPool(
            image=image,
            size=size,
            port_base=port_base,
            name_prefix=CONTAINER_NAME_PREFIX,
            container_args=container_args_for_port,
            readiness_path=READINESS_PATH,
            mounts=(
                Mount(str(self._data.data), "/run/data", DATA_MOUNT_MODE),
                Mount(str(self._outputs), "/run/experiments/outputs", "rw"),
            ),
            startup_timeout_s=startup_timeout_s,
        )

    @property
    def ports(self) -> tuple[int, ...]:
        """All ports of the pool, leased or not."""
        return self._servers.ports

    @property
    def outputs_dir(self) -> Path:
        """Where AppWorld writes what its sessions did."""
        return self._outputs

    def start(self) -> None:
        """Start every server; AppWorldDataError or ContainerPoolError, with nothing left, when that fails."""
        if self._state == "started":
            raise AppWorldError("the pool was already started; open sessions on it")
        self._data.check()
        try:
            self._outputs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidArgument(
                f"{self._outputs} is no folder for outputs: {error.strerror}; name another"
            ) from error
        self._servers.start()
        self._state = "started"

    def stop(self) -> None:
        """Remove every server; who waits for one has a ContainerPoolError. May be called again."""
        self._state = "stopped"
        self._servers.stop()

    def list_task_ids(self, split: str) -> list[str]:
        """The task ids of a split, read from the data root; AppWorldDataError, which names the splits, without it."""
        return self._data.task_ids(split)

    @contextlib.contextmanager
    def session(self, task_id: str) -> Iterator[AppWorldSession]:
        """A session on the task, as soon as a server is free; evaluate inside the block, since it closes the world.

        AppWorldError when the world cannot be opened. A server that has failed is replaced before anyone gets it.
        """
        if self._state == "new":
            raise AppWorldError("the pool is not started; call start(), or use it in a with block")
        with self._servers.lease() as port, contextlib.ExitStack() as stack:
            if not _answers(port):  # it died while nobody had it
                self._replace(port, "it does not answer")
            server = self._server(port)
            try:
                session = stack.enter_context(self._opened(server, port, task_id))
            except AppWorldError:
                if server.fault is None or not _answers(port):
                    raise
                # An earlier session may have left the server unable to open worlds; this one is new.
                session = stack.enter_context(self._opened(self._server(port), port, task_id))
            yield session

    def _server(self, port: int) -> Server:
        return Server(
            f"http://127.0.0.1:{port}",
            timeout_s=self._settings.timeout_s,
            logs=lambda: last_lines(self._servers.logs(port)),
        )

    @contextlib.contextmanager
    def _opened(self, server: Server, port: int, task_id: str) -> Iterator[AppWorldSession]:
        """A session on the server, which is replaced at the end where it is to blame for a fault."""
        try:
            with opened(server, task_id, self._settings) as session:
                yield session
        finally:
            if server.fault is not None:
                with contextlib.suppress(AppWorldError):  # it is logged, and who had the server has its own error
                    self._replace(port, server.fault)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _replace(self, port: int, fault: str) -> None:
        """Start the server of a leased port anew; AppWorldError when it cannot be, and is leased no more."""
        if self._state == "stopped":
            return
        _log.warning("the AppWorld server on port %d is replaced: %s", port, fault)
        try:
            self._servers.restart(port)
        except ContainerPoolError as error:
            _log.error("the AppWorld server on port %d is leased no more: %s", port, error.message)
            raise AppWorldError(
                f"the server on port {port} could not be replaced: {error.message}", log=error.log
            ) from error


def _answers(port: int) -> bool:
    try:
        status, _, _ = fetch("GET", f"http://127.0.0.1:{port}{READINESS_PATH}", timeout_s=PROBE_S)
    except ConnectionFailed:
        return False
    return 200 <= status < 300


def _check_sendable(settings: Settings) -> None:
    """InvalidArgument for settings that no request can carry, or under which no code can run."""
    if settings.max_interactions < 1 or not settings.execution_timeout_s > 0:
        raise InvalidArgument("max_interactions and execution_timeout_s must be above 0; correct the numbers")
    try:
        json.dumps(settings.init_params(), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"extra_init_params are not JSON ({error}); pass numbers, text, lists") from error
