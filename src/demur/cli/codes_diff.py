"""`demur codes diff`: check whether a new registry may replace the old one."""

import argparse
import json

from demur.cli.terminal import Paint
from demur.codes.document import read_document
from demur.codes.evolution import Evolution, Level, compare
from demur.codes.registry import Registry

__all__ = ["configure", "run"]

STATUS = {Level.NONE: 0, Level.PATCH: 0, Level.MINOR: 10, Level.MAJOR: 11, Level.REFUSED: 12}
_COLOUR = {Level.PATCH: "dim", Level.MINOR: "green", Level.MAJOR: "yellow", Level.REFUSED: "red"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("old", metavar="OLD", help="the registry file that was released")
    parser.add_argument("new", metavar="NEW", help="the registry file that would follow it")
    parser.add_argument("--json", action="store_true", help="the changes as JSON")
    parser.epilog = "exit: 0 none or patch, 10 minor, 11 major, 12 refused, 1 error, 2 usage"


def run(args: argparse.Namespace) -> int:
    """Print the changes and return the status of the most breaking one."""
    old, new = read_document(args.old), read_document(args.new)
    evolution = compare(old, new)
    if evolution.level is not Level.REFUSED:
        # An invalid registry cannot replace anything.
        Registry.of(new)
    print(_json(evolution) if args.json else _text(evolution))
    return STATUS[evolution.level]


def _json(evolution: Evolution) -> str:
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


def _text(evolution: Evolution) -> str:
    paint = Paint()
    lines = [
        f"{paint(change.level.name.lower().ljust(8), _COLOUR[change.level])}"
        f"{paint(change.subject, 'bold')}: {change.text}"
        for change in evolution.changes
    ]
    versions = f"{evolution.old_version} -> {evolution.new_version}"
    lines.append(f"{versions}: {_summary(evolution)}")
    return "\n".join(lines)


def _summary(evolution: Evolution) -> str:
    level = evolution.level
    if level is Level.REFUSED:
        return "refused; a released code never changes its meaning"
    if level is Level.NONE:
        return "no changes" + ("" if evolution.version_fits else ", but the version goes back")
    name = level.name.lower()
    return name if evolution.version_fits else f"{name}, but the version does not announce it"
