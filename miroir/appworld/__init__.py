"""AppWorld's own environment servers, leased one task at a time; the package `appworld` itself is never imported."""

from ..errors import AppWorldDataError, AppWorldError
from ..pool import ContainerPool, ContainerPoolError, Mount
from .pool import CONTAINER_NAME_PREFIX, DEFAULT_IMAGE, DEFAULT_PORT_BASE, AppWorldPool, container_args_for_port
from .score import TaskScore
from .session import AppWorldSession

__all__ = [
    "CONTAINER_NAME_PREFIX",
    "DEFAULT_IMAGE",
    "DEFAULT_PORT_BASE",
    "AppWorldDataError",
    "AppWorldError",
    "AppWorldPool",
    "AppWorldSession",
    "ContainerPool",
    "ContainerPoolError",
    "Mount",
    "TaskScore",
    "container_args_for_port",
]
