"""Tasks for harnesses other than Miroir's own, which are handed their prompt before an episode has begun."""

from __future__ import annotations

import verifiers.v1 as vf

from ..threads import threads
from .task import MiroirTask, rollout_of


def opened(task: MiroirTask) -> MiroirTask:
    """A copy of the task in whose rollouts the prompt is what a model is told first of the episode that has begun.

    Verifiers asks a task's class whether it intercepts requests, and treats the calls of one that does with more care
    than Miroir's own harness needs: so this is another class, made of the task's own.
    """
    kind: type[MiroirTask] = type(type(task).__name__, (_Opened, type(task)), {})
    return kind(task.data, task.config)


class _Opened(MiroirTask):
    _opening = ""

    async def setup(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        await super().setup(trace, runtime)
        self._opening = await threads.call(rollout_of(trace).opening)

    @vf.intercept
    async def tell(self, request: vf.Request) -> vf.Request:
        """The request, in which the task's prompt is replaced."""
        return request.model_copy(update={"messages": [self._told(message) for message in request.messages]})

    def _told(self, message: vf.Message) -> vf.Message:
        content, prompt = message.content, self.data.prompt
        user = isinstance(message, vf.UserMessage) and isinstance(content, str)
        if not user or prompt not in content or self._opening in content:
            return message
        return message.model_copy(update={"content": content.replace(prompt, self._opening, 1)})
