"""`miroir verifiers`: the presets of installed packages, and a package to begin with."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from miroir_verifiers.presets import Listed

HELP = "show the presets that verifiers can play, or begin a package of one"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the two actions and their arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="list [--json] | init NAME [--path DIR]")
    listed = "show the presets of installed packages"
    lister = actions.add_parser("list", help=listed, description=listed, allow_abbrev=False)
    lister.add_argument("--json", action="store_true", help="JSON instead of the table")
    begun = "write a package that fixes a fleet, its tasks and rewards"
    starter = actions.add_parser("init", help=begun, description=begun, allow_abbrev=False)
    starter.add_argument("name", metavar="NAME", help="its name, and what vf-eval calls it")
    starter.add_argument("--path", default=".", metavar="DIR", help="the folder to write it into (default: this one)")


def command(args: argparse.Namespace) -> int:
    """List the presets, or write the package."""
    return _init(args) if args.action == "init" else _list(args)


def _init(args: argparse.Namespace) -> int:
    from miroir_verifiers.scaffold import create

    folder = create(args.name, args.path)
    print(folder)
    print(f"go on with: pip install -e {folder} && miroir verifiers list", file=sys.stderr)
    return 0


def _list(args: argparse.Namespace) -> int:
    """0 when every preset can be had, 2 when one cannot."""
    from miroir_verifiers.presets import listing

    presets = listing()
    if args.json:
        print(json.dumps([_row(listed) for listed in presets], indent=2, ensure_ascii=False))
    else:
        _table(presets)
    for listed in presets:
        if listed.error is not None:
            print(f"error: {' '.join(str(listed.error).split())}", file=sys.stderr)
    return 2 if any(listed.error for listed in presets) else 0


def _table(presets: list[Listed]) -> None:
    from ..columns import aligned

    if not presets:
        print("no installed package has a preset; miroir verifiers init NAME begins one", file=sys.stderr)
        return
    rows = [["preset", "package", "split", "surface", "urls"]]
    for row in (_row(listed) for listed in presets if listed.preset):
        urls = row["urls"] if isinstance(row["urls"], str) else " ".join(row["urls"])
        rows.append([row["name"], *row["distributions"], row["split"], row["surface"] or "-", urls])
    print(aligned(rows))


def _row(listed: Listed) -> dict[str, Any]:
    """What is shown of a preset: nothing that is secret."""
    row: dict[str, Any] = {"name": listed.name, "distributions": list(listed.distributions)}
    preset = listed.preset
    if preset is None:
        return {**row, "error": str(listed.error)}
    return {
        **row,
        "urls": str(preset.urls) if isinstance(preset.urls, str | os.PathLike) else list(preset.urls),
        "split": preset.split,
        "surface": preset.surface,
        "token_env": preset.token_env,
        "coworker_model": preset.coworker_model and preset.coworker_model.model,
        "metrics": sorted(preset.metrics),
        "rewards": sorted(preset.rewards),
    }
