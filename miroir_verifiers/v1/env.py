"""The environment: one agent plays one episode, and the lease ends with it, whatever happens."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import verifiers.v1 as vf
from verifiers.v1.mcp import SharedToolServer
from verifiers.v1.runtimes import runtime_is_local

from miroir.errors import InvalidArgument

from ..threads import threads
from .attempts import Attempts
from .harness import MiroirHarness
from .opened import opened
from .task import MiroirTask

if TYPE_CHECKING:
    from ..bridge import Bridge


class MiroirEnvConfig(vf.SingleAgentEnvConfig):
    """One agent, whose harness runs on this machine."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())
    """The model that is evaluated or trained."""


class MiroirEnv(vf.SingleAgentEnv, vf.Env[MiroirEnvConfig]):
    """Owns what an episode leases, from the request to the release, whatever fails or is cancelled between."""

    async def run(self, task: MiroirTask, agents: vf.Agents) -> None:
        """Have the agent play the task."""
        own = isinstance(agents.agent.harness, MiroirHarness)
        owned, attempts = (task if own else opened(task)).owned(), Attempts()
        with contextlib.nullcontext() if own else self._served(attempts, agents.agent) as tools:
            try:
                await agents.agent.run(owned, tools=tools, on_trace=attempts.traces.append)
            finally:
                await owned.release()

    @contextlib.contextmanager
    def _served(self, attempts: Attempts, agent: vf.Agent) -> Iterator[Mapping[str, SharedToolServer]]:
        """The servers of the episode's tools, for harnesses but Miroir's own: one, which adds no prefix to names."""
        if not runtime_is_local(agent.config.runtime):
            raise InvalidArgument(
                f"the harness {agent.harness.config.id!r} would run in a sandbox from which the tools on this machine "
                "cannot be reached; use --env.agent.runtime.type subprocess or docker"
            )
        endpoint = self._bridge.open(attempts)
        try:
            yield {"": SharedToolServer(url=endpoint.url, local=True, external=True)}
        finally:
            self._bridge.leave(endpoint)
            attempts.redact(endpoint.key)

    @cached_property
    def _bridge(self) -> Bridge:
        from ..bridge import Bridge  # which few need

        return Bridge()

    async def stop(self) -> None:
        """Stop the bridge, if one was started."""
        if "_bridge" in vars(self):
            await threads.call(self._bridge.close)
