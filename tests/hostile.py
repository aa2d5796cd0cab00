"""A trace that tries everything: markup, scripts, escapes, disguises, sizes and depths."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PLANT = "window.planted = true"
TEXTS = (
    f"</script><script>{PLANT}</script>",
    f"<!--<script>{PLANT}</script>-->",
    f"<!-- <script> --!> {PLANT}",
    f"]]><img src=x onerror='{PLANT}'>",
    f"<svg/onload='{PLANT}'><iframe srcdoc=\"<script>parent.{PLANT}</script>\">",
    f"javascript:{PLANT}",
    f'<a href="javascript:{PLANT}">click</a>',
    "<style>body { display: none }</style><link rel=stylesheet href=http://192.0.2.1/x.css>",
    "<base href=http://192.0.2.1/><meta http-equiv=refresh content='0;url=http://192.0.2.1/'>",
    "{{title}} ${planted} `planted` \\u003cscript>",
    "gnp.\u202egpj.exe \u2066hidden\u2069 \u200bzero\ufeff \U000e0041\U000e0042",
    "lone \ud800 and \udfff surrogates",
    "NUL \x00 BEL \x07 BS \x08\x08 DEL \x7f C1 \x9b31m \x85 LS \u2028 PS \u2029",
    "\x1b[31mred\x1b[0m \x1b[2J\x1b[H cleared \x1b]0;title\x07 \x1bc reset \x1b[?1049h",
    "\x1b]52;c;ZWNobyBwd25lZA==\x07 clipboard \x1b]8;;http://192.0.2.1/\x1b\\link\x1b]8;;\x1b\\ \x1bP+q\x1b\\",
    "a\r\nb\rc\td",
    "A" * 300 + "\n" * 300,
    "\u4e2d\u6587\U0001f468\u200d\U0001f469 e\u0301",
)


def hostile(path: Path) -> Path:
    """Write the trace file: every text in every place, 5,000 steps, a line of 10 MB, 900 levels, and odd shapes."""
    rows = [_record(number, text) for number, text in enumerate(TEXTS)]
    rows += [
        {**_record(100, "many steps"), "steps": [_step(f"{at} {TEXTS[at % len(TEXTS)]}") for at in range(5000)]},
        {**_record(101, "a long line"), "steps": [_step("x" * 10_000_000), _step(["word " * 50] * 2000)]},
        {**_record(102, "deep"), "steps": [_step(_deep(900)), _step("[" * 2000 + "]" * 2000)]},
        *(_odd(200 + at, key, value) for at, (key, value) in enumerate(_oddities())),
    ]
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return path


def _record(number: int, text: str) -> dict[str, Any]:
    success = number % 2 == 0
    return {
        "schema": 1,
        "episode_id": f"{number:032x}",
        "task_id": f"task {number // 2} {text[:200]}",
        "split": text,
        "env": {"name": text, "version": text},
        "reward": 1.0 if success else 0.25,
        "metadata": {
            "task_hash": "0" * 64,
            "success": success,
            "harm": not success,
            "ended_by": text,
            "void_reason": None,
            "checks": [{"name": text, "passed": success, "detail": text}],
            "harms": [] if success else [{"name": text, "detail": text}],
        },
        "diagnostics": {text: 1},
        "timings": {"started_at": text, "episode_s": 1.5},
        "steps": [_step(text), {"tool": text, "arguments": {text: text}, "result": text, "error": text}],
        "task": {"id": text, "instruction": text, "tags": [text, text]},
        "prompt": text,
        "agent": {"name": text, "model": text, "params": {text: text}},
        "messages": [{"role": text, "content": text, "tool_calls": [{"function": {"name": text, "arguments": text}}]}],
        "tools": [{"function": {"name": text, "description": text}}],
        "container": f"javascript:{PLANT}",
        "usage": {text: text},
        "trial": number % 2,
    }


def _step(result: Any) -> dict[str, Any]:
    return {"tool": "read", "arguments": {"a": 1}, "result": result, "error": None, "at_s": 1.0, "seconds": 0.1}


def _deep(levels: int) -> Any:
    value: Any = "bottom"
    for _ in range(levels):
        value = {"down": value}
    return value


def _odd(number: int, key: str, value: Any) -> dict[str, Any]:
    record = _record(number, f"odd {key}")
    holder = record["metadata"] if key in record["metadata"] else record
    holder[key] = value
    return record


def _oddities() -> list[tuple[str, Any]]:
    keys = ("env", "checks", "harms", "diagnostics", "timings", "steps", "task", "agent", "messages", "tools", "usage")
    return [(key, value) for key in keys for value in (None, 7, "text", [None, 1, "x", [[]]], {"a": [{}]})]
