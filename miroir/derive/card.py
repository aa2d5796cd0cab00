"""The dataset's card: what is in it, where it comes from, and how it is loaded."""

from __future__ import annotations

import json
from pathlib import Path

from .manifest import Report


def card(report: Report, name: str) -> str:
    """A dataset card in Markdown, with the header that the Hugging Face Hub reads; `name` is the file of the rows."""
    parts = [
        _header(report),
        f"# {Path(name).stem}\n\n{report.format.about[0].upper()}{report.format.about[1:]}, "
        f"derived by {report.manifest()['made_by']} from {len(report.inputs):,} trace files.",
        _sources(report),
        _block("## From record to row", [*report.lines(), *report.notes]),
    ]
    if report.format.recipe:
        parts.append(_block("## Loading", report.format.recipe.replace("{file}", name).strip().splitlines()))
    parts.append(_LIMITS)
    return "\n\n".join(parts) + "\n"


_LIMITS = """\
## Limits

Episodes of evaluation splits, void and harmful episodes were left out unless the options in the manifest say otherwise.
Tool results stand in the rows as context and must carry no loss. Redaction is as good as its expressions: read rows
before you publish them."""


def _header(report: Report) -> str:
    sides = zip(("train", "validation"), report.files, strict=False)
    files = [{"split": side, "path": name} for side, name in sides]
    lines = ["---", "tags:", "- miroir", "- tool-use", "configs:", "- config_name: default"]
    return "\n".join([*lines, f"  data_files: {json.dumps(files)}", "---"])


def _sources(report: Report) -> str:
    listed = sorted(report.sources.items(), key=lambda item: (-item[1], str(item[0])))
    return "\n".join(
        f"- {count:,} of environment {env or 'unknown'}, played by {model or 'a program'}"
        for (env, model), count in listed
    )


def _block(title: str, lines: list[str]) -> str:
    return "\n".join([title, "", "```", *lines, "```"])
