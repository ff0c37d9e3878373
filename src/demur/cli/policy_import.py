"""`demur policy import`: convert a Lumyn policy, and list the differences."""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from demur.cli.options import add_registry_option
from demur.cli.terminal import Paint
from demur.codes.default import default_registry
from demur.codes.document import read_document
from demur.codes.registry import Registry
from demur.errors import InputError, PolicyError, one_line
from demur.policy.peer.codes import empty_registry
from demur.policy.peer.listing import read_code_list
from demur.policy.peer.remark import ImportLevel, ImportDiagnostic
from demur.policy.peer.translate import ImportedPolicy, import_policy
from demur.source import read_text

__all__ = ["configure_policy_import", "run_policy_import"]

_LEVEL_COLOURS = {ImportLevel.ERROR: "red", ImportLevel.WARNING: "yellow", ImportLevel.NOTE: "cyan"}


def configure_policy_import(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "exit: 0 converted, differences are listed; "
        "1 something was left out, or the policy cannot be read; 2 usage"
    )
    parser.add_argument("policy", metavar="POLICY", help="a Lumyn policy, in the form policy.v1")
    parser.add_argument(
        "--codes", metavar="FILE", help="its reason_codes.v1 JSON, for descriptions"
    )
    parser.add_argument("--domain", help="the domain for codes that the core registry lacks")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the policy to this file")
    parser.add_argument(
        "--registry-out",
        type=Path,
        metavar="FILE",
        help="write new codes to this file; an existing registry of the domain is extended",
    )
    parser.add_argument(
        "--require-evidence",
        action="store_true",
        help="add rules that require evidence which other rules read",
    )
    parser.add_argument("--strict", action="store_true", help="treat warnings as errors")
    add_registry_option(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run_policy_import(args: argparse.Namespace) -> int:
    """Write the policy, and print the differences; 1 if something was left out."""
    registry = _load_target_registry(args)
    imported = import_policy(
        read_text(args.policy, "policy", PolicyError),
        args.policy,
        registry=registry,
        domain=args.domain,
        descriptions=read_code_list(args.codes, read_text(args.codes, "codes", PolicyError))
        if args.codes
        else None,
        require_evidence=args.require_evidence,
    )
    codes = _build_registry_file(args, imported, registry)
    _require_new_file(args.out)
    if codes is not None and args.registry_out is not None:
        _write_text(args.registry_out, json.dumps(codes, indent=2, ensure_ascii=False) + "\n")
    if args.out is not None:
        _write_text(args.out, imported.text)
    _show_import(args, imported, codes)
    counting = {ImportLevel.ERROR, ImportLevel.WARNING} if args.strict else {ImportLevel.ERROR}
    return int(any(remark.level in counting for remark in imported.remarks))


def _load_target_registry(args: argparse.Namespace) -> Registry:
    """Return the registry, including the codes of the file to extend."""
    registry = default_registry(*args.registry)
    if args.registry_out is None or not args.registry_out.exists():
        return registry
    document = read_document(args.registry_out)
    if document.domain != args.domain:
        problem = f"the file holds the codes of `{document.domain}`"
        help_text = "use --domain with that domain, or choose another file"
        raise InputError(problem, where=str(args.registry_out), help=help_text)
    core, others = registry.documents
    return Registry(core, [*others, document])


def _build_registry_file(
    args: argparse.Namespace, imported: ImportedPolicy, registry: Registry
) -> dict[str, Any] | None:
    """Return the registry file with the new codes, or None if there are none."""
    if not imported.entries:
        return None
    path = args.registry_out
    if path is None and not args.json:
        count = len(imported.entries)
        problem = f"{count} code{'s' * (count != 1)} must be added to a registry"
        raise InputError(problem, help="choose the file with `--registry-out FILE`")
    for document in registry.documents[1]:
        if document.domain == args.domain and not _is_same_file(Path(document.where), path):
            problem = f"the codes of `{args.domain}` are in {document.where}"
            raise InputError(problem, help=f"extend it with `--registry-out {document.where}`")
    raw = empty_registry(args.domain, registry)
    if path is not None and path.exists():
        raw = json.loads(path.read_text(encoding="utf-8"))
    return {**raw, "codes": [*raw["codes"], *_stamp_version(imported.entries, raw["version"])]}


def _is_same_file(one: Path, other: Path | None) -> bool:
    return other is not None and one.resolve() == other.resolve()


def _stamp_version(entries: Iterable[Mapping[str, Any]], version: str) -> list[dict[str, Any]]:
    return [{**entry, "since": version} for entry in entries]


def _require_new_file(path: Path | None) -> None:
    if path is not None and path.exists():
        help_text = "remove it, or choose another name: your edits would be lost"
        raise InputError("the file already exists", where=str(path), help=help_text)


def _write_text(path: Path, content: str) -> None:
    try:
        path.write_text(content, encoding="utf-8", newline="\n")
    # A path that holds a NUL is a ValueError, not an OSError.
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or error).lower()
        raise InputError(f"cannot write: {reason}", where=str(path)) from error


def _show_import(
    args: argparse.Namespace, imported: ImportedPolicy, codes: Mapping[str, Any] | None
) -> None:
    if args.json:
        remarks = [remark._asdict() for remark in imported.remarks]
        print(
            json.dumps({"policy": imported.text, "registry": codes, "remarks": remarks}, indent=2)
        )
        return
    if args.out is None:
        sys.stdout.write(imported.text)
    _print_differences(imported.remarks)


def _print_differences(remarks: Sequence[ImportDiagnostic]) -> None:
    paint = Paint(sys.stderr)
    for remark in remarks:
        label = paint(f"{remark.level}[{remark.kind}]", "bold", _LEVEL_COLOURS[remark.level])
        print(f"{one_line(remark.where)}: {label} {one_line(remark.message)}", file=sys.stderr)
        if remark.help:
            print(f"  {paint('help:', 'cyan')} {one_line(remark.help)}", file=sys.stderr)
    counts = [(sum(remark.level is level for remark in remarks), level) for level in ImportLevel]
    words = ", ".join(f"{count} {level}{'s' * (count != 1)}" for count, level in counts)
    print(paint(words if remarks else "no differences", "dim"), file=sys.stderr)
