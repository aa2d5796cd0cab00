"""Start containers and keep their URL file true."""

from ..errors import ContainerPoolError
from .containers import ContainerPool
from .docker import DockerEngine
from .docker.mount import Mount
from .docker.spec import ContainerSpec
from .engine import Change, Engine, Event
from .pool import Pool
from .process import ProcessEngine
from .slot import Timing
from .status import Status, read_status, read_statuses
from .swarm import SwarmEngine

__all__ = [
    "Change",
    "ContainerPool",
    "ContainerPoolError",
    "ContainerSpec",
    "DockerEngine",
    "Engine",
    "Event",
    "Mount",
    "Pool",
    "ProcessEngine",
    "Status",
    "SwarmEngine",
    "Timing",
    "read_status",
    "read_statuses",
]
