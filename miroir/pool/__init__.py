"""Start containers and keep their URL file true."""

from ..errors import ContainerPoolError
from .engine import Change, Engine, Event
from .pool import Pool
from .process import ProcessEngine
from .slot import Timing
from .status import Status, read_status, read_statuses

__all__ = [
    "Change",
    "ContainerPoolError",
    "Engine",
    "Event",
    "Pool",
    "ProcessEngine",
    "Status",
    "Timing",
    "read_status",
    "read_statuses",
]
