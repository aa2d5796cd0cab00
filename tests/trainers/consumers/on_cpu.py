"""What every trainer of these tests is told: it runs on the CPU, and leaves nothing but its model."""

from __future__ import annotations

from typing import Any

ON_CPU: dict[str, Any] = {
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "report_to": "none",
    "save_strategy": "no",
    "disable_tqdm": True,
}
