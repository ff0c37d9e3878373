"""`demur codes list`: list the reason codes that match all filters."""

import argparse
import json

from demur.cli.terminal import Paint, format_table
from demur.codes.default import default_registry
from demur.codes.entry import Entry
from demur.codes.vocabulary import RefusalClass, Severity, Surface
from demur.errors import InputError
from demur.source.suggest import did_you_mean

__all__ = ["configure_codes_list", "run_codes_list"]


def configure_codes_list(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    # Plain strings: argparse shows the choices by `repr` where one is wrong.
    classes, surfaces, severities = (
        [str(word) for word in words] for words in (RefusalClass, Surface, Severity)
    )
    parser.add_argument(
        "--class", dest="refusal_class", choices=classes, help="only this refusal class"
    )
    parser.add_argument("--surface", choices=surfaces, help="only codes of this surface")
    parser.add_argument("--severity", choices=severities, help="only this severity")
    parser.add_argument("--family", help="only this family, e.g. guard, content, runtime")
    parser.add_argument("--json", action="store_true", help="whole entries as JSON")


def run_codes_list(args: argparse.Namespace) -> int:
    """Print the codes that pass every filter."""
    registry = default_registry()
    families = sorted({entry.family for entry in registry})
    if args.family is not None and args.family not in families:
        known = f"one of {', '.join(families)}"
        hint = did_you_mean(args.family, families) or known
        raise InputError(f"unknown family `{args.family}`", help=hint)
    entries = [entry for entry in registry if _matches_filters(entry, args)]
    if args.json:
        print(json.dumps([entry.as_json() for entry in entries], indent=2))
        return 0
    rows = [
        (
            entry.code + (" (deprecated)" if entry.deprecated else ""),
            entry.refusal_class or "allows",
            entry.severity,
            entry.family,
            entry.title,
        )
        for entry in entries
    ]
    paint = Paint()
    print(format_table(rows, ("CODE", "CLASS", "SEVERITY", "FAMILY", "TITLE"), paint))
    print(paint(f"{len(rows)} of {len(registry)} codes, {registry.label}", "dim"))
    return 0


def _matches_filters(entry: Entry, args: argparse.Namespace) -> bool:
    return (
        args.refusal_class in {None, entry.refusal_class}
        and args.severity in {None, entry.severity}
        and args.family in {None, entry.family}
        and (args.surface is None or args.surface in entry.surfaces)
    )
