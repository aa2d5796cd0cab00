"""The presets of installed packages: entry points of the group `miroir.verifiers`, `name = "package:preset"`."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points

from miroir.errors import InvalidArgument

from .preset import Preset

GROUP = "miroir.verifiers"


@dataclass(frozen=True)
class Listed:
    """A name that packages give to a preset: which packages, and the preset or why it cannot be had."""

    name: str
    distributions: tuple[str, ...]
    preset: Preset | None
    error: InvalidArgument | None = None


def listing() -> list[Listed]:
    """Every preset of every installed package, by name; one that cannot be had stops none of the others."""
    return [_listed(name, points) for name, points in sorted(_named().items())]


def find(name: str) -> Preset:
    """The preset of that name; InvalidArgument when there is none, several, or it cannot be loaded."""
    named = _named()
    if name not in named:
        raise InvalidArgument(_unknown(name, sorted(named)))
    listed = _listed(name, named[name])
    if listed.error is not None:
        raise listed.error
    assert listed.preset is not None
    return listed.preset


def _named() -> dict[str, list[EntryPoint]]:
    named: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=GROUP):
        named.setdefault(point.name, []).append(point)
    return named


def _listed(name: str, points: list[EntryPoint]) -> Listed:
    distributions = tuple(sorted(_distribution(point) for point in points))
    try:
        return Listed(name, distributions, _load(name, points, " and ".join(distributions)))
    except InvalidArgument as error:
        return Listed(name, distributions, None, error)


def _load(name: str, points: list[EntryPoint], distributions: str) -> Preset:
    if len(points) > 1:
        raise InvalidArgument(f"the preset {name!r} is in {distributions}; uninstall all but one of them")
    value = points[0].value
    try:
        preset = points[0].load()
    except (Exception, SystemExit) as error:  # whatever a package does when it is imported
        raise InvalidArgument(
            f"the preset {name!r} of {distributions} cannot be loaded: {value} raised {type(error).__name__}: {error}; "
            "mend that package"
        ) from error
    if not isinstance(preset, Preset):
        raise InvalidArgument(
            f"the preset {name!r} of {distributions} is a {type(preset).__name__}; "
            f"make {value} a miroir_verifiers.Preset"
        )
    return preset


def _distribution(point: EntryPoint) -> str:
    """The package as pip names it, with its version."""
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.module


def _unknown(name: str, names: list[str]) -> str:
    if not names:
        return f"there is no preset {name!r}, nor any other; install its package, or write one by miroir verifiers init"
    near = get_close_matches(name, names, 1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    return f"there is no preset {name!r}; {meant}miroir verifiers list shows {len(names)}: {', '.join(names[:5])}"
