"""`demur codes`: list, explain, compare, export and add reason codes."""

import json
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from demur.cli.main import Arguments, UsageError, match_choice
from demur.cli.options import add_registry_option, require_code, write_file
from demur.cli.terminal import Paint, format_table, wrap_text
from demur.codes.document import SCHEMA_VERSION, read_document
from demur.codes.entry import Entry
from demur.codes.evolution import ChangeLevel, Evolution, compare_registries
from demur.codes.export import EXPORT_FORMATS
from demur.codes.loading import default_registry
from demur.codes.meaning import explanation_sections, render_sections
from demur.codes.registry import Registry
from demur.codes.vocabulary import RefusalClass, Severity, Surface
from demur.source.item import did_you_mean


def configure_codes_list(add: Arguments) -> None:
    """Add the command's arguments."""
    # Plain strings: argparse shows the choices by `repr` where one is wrong.
    classes, surfaces, severities = (
        [str(word) for word in words] for words in (RefusalClass, Surface, Severity)
    )
    add("--class", "only this refusal class", dest="refusal_class", choices=classes)
    add("--surface", "only codes of this surface", choices=surfaces)
    add("--severity", "only this severity", choices=severities)
    add("--family FAMILY", "only this family, e.g. guard, content, runtime")
    add("--json", "whole entries as JSON")


def run_codes_list(args: Namespace) -> int:
    """Print the codes that pass every filter."""
    registry = default_registry()
    families = sorted({entry.family for entry in registry})
    args.family = match_choice(args.family, families)
    if args.family is not None and args.family not in families:
        choices = f"one of {', '.join(families)}"
        hint = did_you_mean(args.family, families) or choices
        raise UsageError(f"unknown family `{args.family}`", help=hint)
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


def _matches_filters(entry: Entry, args: Namespace) -> bool:
    return (
        args.refusal_class in {None, entry.refusal_class}
        and args.severity in {None, entry.severity}
        and args.family in {None, entry.family}
        and (args.surface is None or args.surface in entry.surfaces)
    )


def configure_codes_explain(add: Arguments) -> None:
    """Add the command's arguments."""
    add("code CODE", "a registered reason code")
    add("--json", "the whole entry as JSON")


def run_codes_explain(args: Namespace) -> int:
    """Print the explanation, or the entry."""
    registry = default_registry()
    entry = registry[require_code(args.code, registry)]
    if args.json:
        print(json.dumps(entry.as_json(), indent=2))
        return 0
    paint = Paint()
    print(
        render_sections(
            explanation_sections(entry, registry), wrap_text, lambda heading: paint(heading, "bold")
        )
    )
    return 0


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


def configure_codes_diff(add: Arguments) -> None:
    """Add the command's arguments."""
    add("old OLD", "the registry file that was released")
    add("new NEW", "the registry file that would follow it")
    add("--json", "the changes as JSON")


def run_codes_diff(args: Namespace) -> int:
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


def configure_codes_export(add: Arguments) -> None:
    """Add the command's arguments."""
    forms = sorted(EXPORT_FORMATS)
    add("--to FORM", f"one of {', '.join(forms)}", required=True, choices=forms)
    add("--out FILE", "write to this file; default: standard output", type=Path)
    add_registry_option(add)


def run_codes_export(args: Namespace) -> int:
    """Write the registry in the chosen format."""
    content = EXPORT_FORMATS[args.to](default_registry(*args.registry))
    if args.out is None:
        sys.stdout.write(content)
    else:
        write_file(args.out, content)
    return 0


def configure_codes_new(add: Arguments) -> None:
    """Add the command's arguments."""
    add("code CODE", "`domain/CODE`, or `CODE` for the core")
    add("--registry REGISTRY", "the file to add it to", required=True, type=Path)
    add("--parent PARENT", "the core code it refines")
    add("--description DESCRIPTION", "what the code means, in one sentence", required=True)
    add(
        "--class",
        "the refusal class, if stricter than the parent's",
        dest="refusal_class",
        choices=[str(word) for word in RefusalClass],
    )
    add(
        "--severity",
        "the severity; default: the parent's",
        choices=[str(word) for word in Severity],
    )
    add("--alias ALIAS ...", "a legacy phrase it covers")
    add("--dry-run", "print the file, write nothing")


def run_codes_new(args: Namespace) -> int:
    """Validate the registry with the new code, then write it."""
    raw = _load_registry_file(args.registry, args.code)
    fields = {
        "code": args.code,
        "description": args.description,
        "parent": args.parent,
        "since": raw.get("version", "1.0.0"),
        "refusal_class": args.refusal_class,
        "severity": args.severity,
        "aliases": args.alias,
    }
    entry = {name: value for name, value in fields.items() if value}
    if raw.get("domain") is None:
        entry = _build_core_entry(entry)
    raw["codes"].append(entry)
    text = json.dumps(raw, indent=2, ensure_ascii=False) + "\n"
    Registry.from_document(read_document(args.registry, text))
    if args.dry_run:
        print(text, end="")
    else:
        args.registry.write_text(text, encoding="utf-8")
        print(f"added `{args.code}` to {args.registry}")
        print("  next: set `version`, then `demur codes diff OLD NEW` says what the change is")
    return 0


def _load_registry_file(path: Path, code: str) -> dict[str, Any]:
    if path.exists():
        read_document(path)
        raw: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return raw
    domain, slash, _ = code.rpartition("/")
    if not slash:
        raise UsageError(
            f"`{code}` has no domain, and {path} does not exist",
            help="a new registry is an organisation's: name the code `example.com/CODE`",
        )
    return {
        "schema_version": SCHEMA_VERSION,
        "version": "1.0.0",
        "domain": domain,
        "min_core": Registry.load().versions[""],
        "codes": [],
    }


def _build_core_entry(entry: dict[str, Any]) -> dict[str, Any]:
    """Return a complete core entry; missing fields come from the parent."""
    parent = entry.get("parent")
    if parent is None:
        raise UsageError("a core code needs `--parent`, which provides the missing fields")
    own = {
        "title": entry["code"].replace("_", " ").capitalize(),
        "aliases": [],
        "evidence": {},
        "xref": {},
        "examples": {"refuse": [], "allow": []},
    }
    return {**Registry.load()[parent].as_json(), **own, **entry}
