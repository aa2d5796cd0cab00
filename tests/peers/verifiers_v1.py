"""Rollouts under verifiers 0.4 that are cut short in every way, in one process; prints what came of them as JSON.

`python verifiers_v1.py URLS MODEL FOLDER [SCENE…]`: URLS is a JSON list of a stage's containers, the last of which has
a single session, and MODEL its model's base URL.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from verifiers_scenes import cancelling, ending, serving
from verifiers_scenes.fleet import ALONE, URLS

from miroir_verifiers import offers

SCENES: dict[str, Callable[[], Awaitable[dict[str, Any]]]] = {
    "step": partial(cancelling.staged, cancelling.in_a_step, URLS),
    "model": partial(cancelling.staged, cancelling.in_the_model, URLS),
    "random": partial(cancelling.staged, cancelling.at_any_moment, URLS),
    "leasing": partial(cancelling.staged, cancelling.while_leasing, [ALONE]),
    "limits": ending.by_limits,
    "retried": ending.retried,
    "foreign": serving.foreign,
    "served": serving.served,
    "befriended": serving.befriended,
    "evaluated": serving.evaluated,
    "napping": serving.napping,
    "faults": ending.faults,
}


async def main() -> dict[str, Any]:
    """The scenes that are asked for, one after the other; how long each took, on stderr."""
    report: dict[str, Any] = {}
    for name in sys.argv[4:] or SCENES:
        began = time.monotonic()
        report[name] = await SCENES[name]()
        print(f"{name}: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
    return report


offers.WAIT_S = 1.0  # for a fleet that is not there
print(json.dumps(asyncio.run(main())))
