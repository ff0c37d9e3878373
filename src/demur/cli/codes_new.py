"""`demur codes new`: add a code to a registry file, or create the file."""

import argparse
import json
from pathlib import Path
from typing import Any

from demur.codes.document import SCHEMA_VERSION, read_document
from demur.codes.registry import Registry
from demur.codes.vocabulary import RefusalClass, Severity
from demur.errors import InputError

__all__ = ["configure_codes_new", "run_codes_new"]


def configure_codes_new(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("code", metavar="CODE", help="`domain/CODE`, or `CODE` for the core")
    parser.add_argument("--registry", required=True, type=Path, help="the file to add it to")
    parser.add_argument("--parent", help="the core code it refines")
    parser.add_argument("--description", required=True, help="what the code means, in one sentence")
    parser.add_argument(
        "--class",
        dest="refusal_class",
        choices=[str(word) for word in RefusalClass],
        help="the refusal class, if stricter than the parent's",
    )
    parser.add_argument(
        "--severity",
        choices=[str(word) for word in Severity],
        help="the severity; default: the parent's",
    )
    parser.add_argument("--alias", action="append", default=[], help="a legacy phrase it covers")
    parser.add_argument("--dry-run", action="store_true", help="print the file, write nothing")


def run_codes_new(args: argparse.Namespace) -> int:
    """Validate the registry with the new code, then write it."""
    raw = _load_registry_file(args.registry, args.code)
    raw["codes"].append(_build_entry(args, raw))
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
        raise InputError(
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


def _build_entry(args: argparse.Namespace, raw: dict[str, Any]) -> dict[str, Any]:
    given = {
        "code": args.code,
        "description": args.description,
        "parent": args.parent,
        "since": raw.get("version", "1.0.0"),
        "refusal_class": args.refusal_class,
        "severity": args.severity,
        "aliases": args.alias,
    }
    entry = {name: value for name, value in given.items() if value}
    if raw.get("domain") is None:
        entry = _build_core_entry(entry)
    return entry


def _build_core_entry(entry: dict[str, Any]) -> dict[str, Any]:
    """Return a complete core entry; missing fields come from the parent."""
    parent = entry.get("parent")
    if parent is None:
        raise InputError("a core code needs `--parent`, which provides the missing fields")
    own = {
        "title": entry["code"].replace("_", " ").capitalize(),
        "aliases": [],
        "evidence": {},
        "xref": {},
        "examples": {"refuse": [], "allow": []},
    }
    return {**Registry.load()[parent].as_json(), **own, **entry}
