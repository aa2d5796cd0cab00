"""ORS's own client plays each task twice: `python ors_client.py URL TRIALS` prints the last rewards as JSON."""

from __future__ import annotations

import json
import sys

from openreward import OpenReward

url, trials = sys.argv[1], int(sys.argv[2])
environment = OpenReward(api_key="", base_url=url).environments.get("arith", base_url=url)
rewards = {}
for task in environment.list_tasks(split="train"):
    for trial in range(trials):
        with environment.session(task=task) as session:
            number = int(session.get_prompt()[0].text.removeprefix("Solve ").split("+")[0])
            session.call_tool("add", {"a": number, "b": number})
            said = session.call_tool("answer", {"text": str(2 * number + trial % 2)})
            rewards[f"{task.task_spec['id']} {trial}"] = said.reward
print(json.dumps(rewards))
