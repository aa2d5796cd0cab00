"""trlspawn.py URL…: play in a spawned process what a Spec pickled for it, and print the rewards."""

from __future__ import annotations

import json
import multiprocessing
import pickle
import sys
from typing import Any

from miroir.trl import Spec


def play(pickled: bytes, results: Any) -> None:
    """Play an episode with each kind of environment, and leave a third one running."""
    factory, graded, reward = pickle.loads(pickled)
    env, own, left = factory(), graded(), factory()
    for one in (env, own, left):
        one.reset(task_id="plain")
        one.say()
    results.put([*reward([[]], [[]], environments=[env]), own.get_reward()])


def main() -> None:
    """Have a child play; the Spec's own process leases nothing."""
    context = multiprocessing.get_context("spawn")
    with Spec(sys.argv[1:], tasks=["plain"], eval_split=None) as spec:
        pickled = pickle.dumps([spec.environment_factory, spec.async_environment_factory, spec.reward])
        results = context.Queue()
        process = context.Process(target=play, args=[pickled, results])
        process.start()
        rewards = results.get(timeout=60)
        process.join(20)
        print(json.dumps([rewards, process.exitcode]))


if __name__ == "__main__":
    main()
