"""`demur codes diff`: check whether a new registry may replace the old one."""

import argparse
import json

from demur.cli.terminal import Paint
from demur.codes.document import read_document
from demur.codes.evolution import Evolution, ChangeLevel, compare_registries
from demur.codes.registry import Registry

__all__ = ["configure_codes_diff", "run_codes_diff"]

LEVEL_STATUS = {
    ChangeLevel.NONE: 0,
    ChangeLevel.PATCH: 0,
    ChangeLevel.MINOR: 10,
    ChangeLevel.MAJOR: 11,
    ChangeLevel.REFUSED: 12,
}
_LEVEL_COLOURS = {
    ChangeLevel.PATCH: "dim",
    ChangeLevel.MINOR: "green",
    ChangeLevel.MAJOR: "yellow",
    ChangeLevel.REFUSED: "red",
}


def configure_codes_diff(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("old", metavar="OLD", help="the registry file that was released")
    parser.add_argument("new", metavar="NEW", help="the registry file that would follow it")
    parser.add_argument("--json", action="store_true", help="the changes as JSON")
    parser.epilog = "exit: 0 none or patch, 10 minor, 11 major, 12 refused, 1 error, 2 usage"


def run_codes_diff(args: argparse.Namespace) -> int:
    """Print the changes and return the status of the most breaking one."""
    old, new = read_document(args.old), read_document(args.new)
    evolution = compare_registries(old, new)
    if evolution.level is not ChangeLevel.REFUSED:
        # An invalid registry cannot replace anything.
        Registry.from_document(new)
    print(_evolution_to_json(evolution) if args.json else _format_evolution(evolution))
    return LEVEL_STATUS[evolution.level]


def _evolution_to_json(evolution: Evolution) -> str:
    return json.dumps(
        {
            "old_version": evolution.old_version,
            "new_version": evolution.new_version,
            "level": evolution.level.name.lower(),
            "version_fits": evolution.version_fits,
            "changes": [
                {"level": change.level.name.lower(), "code": change.subject, "change": change.text}
                for change in evolution.changes
            ],
        },
        indent=2,
    )


def _format_evolution(evolution: Evolution) -> str:
    paint = Paint()
    lines = [
        f"{paint(change.level.name.lower().ljust(8), _LEVEL_COLOURS[change.level])}"
        f"{paint(change.subject, 'bold')}: {change.text}"
        for change in evolution.changes
    ]
    versions = f"{evolution.old_version} -> {evolution.new_version}"
    lines.append(f"{versions}: {_summarize_evolution(evolution)}")
    return "\n".join(lines)


def _summarize_evolution(evolution: Evolution) -> str:
    level = evolution.level
    if level is ChangeLevel.REFUSED:
        return "refused; a released code never changes its meaning"
    if level is ChangeLevel.NONE:
        return "no changes" + ("" if evolution.version_fits else ", but the version goes back")
    name = level.name.lower()
    return name if evolution.version_fits else f"{name}, but the version does not announce it"
