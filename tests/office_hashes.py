"""Print the office's task hashes: `python tests/office_hashes.py > tests/data/office_hashes.json` stores them.

It loads neither the client nor any dependency, so that every interpreter can run it.
"""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path

for name in ("miroir", "miroir.serve"):
    package = types.ModuleType(name)
    package.__path__ = [str(Path(__file__).parents[1].joinpath(*name.split(".")))]
    sys.modules[name] = package


def main() -> None:
    """Print `{task id: task_hash}`, sorted."""
    from miroir.envs.office.scene import scenes

    hashes = {task_id: scene.task["task_hash"] for task_id, scene in scenes().items()}
    print(json.dumps(hashes, indent=1, sort_keys=True))


if __name__ == "__main__":
    main()
