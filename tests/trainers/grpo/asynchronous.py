"""asynchronous.py URL… RECORDS OUT: score a group in a spawned process as AsyncGRPOTrainer does, its words forced."""

from __future__ import annotations

import json
import multiprocessing
import pickle
import sys
import time
from pathlib import Path
from typing import Any

import tiny_qwen
from accelerate import PartialState
from forced import ENDED, offered, say
from trl.experimental.async_grpo.async_rollout_worker import _AsyncRolloutLoop

from miroir.trl import Spec

GROUP = 3
PLAYS = [[("say", {})], [], [("boom", {})]]  # a success, a failure, and an episode that is void


class ForcedLoop(_AsyncRolloutLoop):
    """Its model says what each of the group's rollouts is to play, in the order in which they are begun."""

    begun = 0
    offered: list[dict[str, Any]]

    async def _run_loops(self, stop_event: Any) -> None:
        generating = self._loop.create_task(self._generate_loop(stop_event=stop_event))
        await self._score_group_once(stop_event)
        await generating

    async def _score_group_once(self, stop_event: Any) -> None:
        group = await self._groups_to_score.get()
        samples = await self._score_group(group)
        stop_event.set()
        told = [[str(sample.metrics["rewards/Miroir"]), sample.advantage] for sample in samples]
        self.rollout_buffer.put([sorted(told), self.offered])

    async def _generate_one_turn(self, prompt_ids: list[int]) -> tuple[list[int], list[float]]:
        prompt = self.tokenizer.decode(prompt_ids)
        self.offered, told = offered(prompt), prompt.rpartition("</tools>")[2]
        answers = told.count("<tool_response>")
        if "I am " in told:
            rollout = int(told.rpartition("I am ")[2][0])
        else:
            rollout, self.begun = self.begun, self.begun + 1
        calls = PLAYS[rollout % GROUP]
        ids = self.tokenizer(say(rollout, calls[answers] if answers < len(calls) else None))["input_ids"]
        return ids, [0.0] * len(ids)


def child(pickled: bytes, results: Any, shared: dict[str, Any]) -> None:
    """What the spawned process does."""
    PartialState(cpu=True)
    options = pickle.loads(pickled)
    words = options["processing_class"]
    ForcedLoop(**options, **shared, rollout_buffer=results, eos_token_ids=[words.convert_tokens_to_ids(ENDED)]).run()


def main() -> None:
    """Have a child roll out; tell the group's advantages."""
    context = multiprocessing.get_context("spawn")
    *urls, records, out = sys.argv[1:]
    with Spec(urls, tasks=["plain"], eval_split=None, records=records) as spec:
        options = {
            "model_name": "tiny",
            "dataset": spec.train_dataset,
            "reward_funcs": [],
            "processing_class": tiny_qwen.tokenizer(map(str, PLAYS)),
            "environment_factory": spec.async_environment_factory,
            "num_generations": GROUP,
            "max_inflight_tasks": GROUP,
        }
        shared = {
            "model_version_value": context.Value("i", 0),
            "heartbeat_value": context.Value("d", time.time()),
            "failed_event": context.Event(),
            "exception_info_queue": context.Queue(1),
            "metrics_queue": context.Queue(),
        }
        results = context.Queue()
        process = context.Process(target=child, args=[pickle.dumps(options), results, shared], daemon=True)
        process.start()
        told = results.get(timeout=40)
        process.join(20)
        Path(out).write_text(json.dumps([*told, process.exitcode]))


if __name__ == "__main__":
    main()
