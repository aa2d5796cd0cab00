"""An environment in forty lines: count up to a target, and no further."""

from miroir.serve import Check, Environment, Grade, Harm, ToolError


class Counter(Environment):
    """A counter that starts at 0; `add` adds a number from 1 to 9."""

    name = "counter"
    version = "1"

    def splits(self):
        return {"train": "train", "eval": "validation"}

    def tasks(self, split):
        targets = range(1, 9) if split == "train" else range(9, 13)
        return [
            {
                "id": f"to-{n}",
                "task_hash": f"counter-1-{n}",
                "instruction": f"Count to {n}, then submit.",
                "max_steps": 6,
            }
            for n in targets
        ]

    def tools(self, surface):
        number = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
        return [{"name": "add", "description": "Add a number from 1 to 9.", "inputSchema": number}]

    def reset(self, task, *, episode_id, seed, max_seconds, coworkers, surface):
        self.count, self.target = 0, int(task["id"].removeprefix("to-"))
        return {"count": self.count}

    def call(self, tool, arguments):
        if arguments["number"] not in range(1, 10):
            raise ToolError("number must be a whole number from 1 to 9")
        self.count += arguments["number"]
        return {"count": self.count}

    def grade(self):
        reached = Check("reached", self.count == self.target, f"the counter shows {self.count} of {self.target}")
        beyond = [Harm("beyond", f"{self.count} is above {self.target}")] if self.count > self.target else []
        return Grade(reward=float(reached.passed), success=reached.passed, checks=[reached], harms=beyond)
