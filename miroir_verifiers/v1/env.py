"""The environment: one agent plays one episode, and the lease ends with it, whatever happens."""

from __future__ import annotations

import verifiers.v1 as vf

from .task import MiroirTask


class MiroirEnvConfig(vf.SingleAgentEnvConfig):
    """One agent, whose harness runs on this machine."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())
    """The model that is evaluated or trained."""


class MiroirEnv(vf.SingleAgentEnv, vf.Env[MiroirEnvConfig]):
    """Owns what an episode leases, from the request to the release, whatever fails or is cancelled between."""

    async def run(self, task: MiroirTask, agents: vf.Agents) -> None:
        """Have the agent play the task."""
        owned = task.owned()
        try:
            await agents.agent.run(owned)
        finally:
            await owned.release()
