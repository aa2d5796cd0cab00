"""The loop that plays an episode in this process: no program is started, nothing is installed."""

from __future__ import annotations

import contextlib

import verifiers.v1 as vf

from miroir.agents import ChatAgent
from miroir.chat import ChatClient
from miroir.errors import MiroirError, ModelError

from ..cancelling import waited
from ..rollout import Rollout
from ..threads import threads
from .task import conclude, rollout_of

ANSWER_S = 86_400.0  # for one answer of the model: how long a rollout may take is verifiers' to say
RETRIES = 2  # of a failed model call, as many as OpenAI's client makes


class MiroirHarnessConfig(vf.HarnessConfig):
    """There is nothing to set."""


class MiroirHarness(vf.Harness[MiroirHarnessConfig]):
    """Tool calls of the model become steps of the episode, whose tools it is shown as they are."""

    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """Play until the episode or the model ends it; ModelError where the model cannot be had."""
        rollout = rollout_of(trace)
        with ChatClient(endpoint, ctx.model, secret, timeout_s=ANSWER_S, total_s=ANSWER_S, retries=RETRIES) as client:
            agent = ChatAgent(client, system=data.system_prompt, opening=rollout.settings.prompt, verbatim=True)
            await waited(rollout, lambda: rollout.play(agent))
        if isinstance(rollout.failure, ModelError):
            await self._unanswered(trace, rollout, rollout.failure)
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")

    async def _unanswered(self, trace: vf.Trace, rollout: Rollout, failure: ModelError) -> None:
        """Void the episode, unless it was a limit of the rollout that refused the call."""
        if trace.stop_condition is not None:
            rollout.failure = None
            return
        with contextlib.suppress(MiroirError, vf.SandboxError):
            await conclude(trace)
        raise failure

    async def cleanup(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        """Free the container, for environments that are not Miroir's own."""
        if trace.state._rollout is not None:
            await threads.outlast(trace.state._rollout.close)
