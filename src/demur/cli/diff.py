"""`demur diff`: compare a candidate policy with past decisions."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from demur.audit.diff import DecisionChange, PolicyComparison, compare_policy
from demur.audit.lines import read_lines
from demur.cli.export import add_period_options, build_filter
from demur.cli.options import add_registry_option
from demur.cli.terminal import Paint, format_table
from demur.cli.workspace import (
    add_config_option,
    add_tenant_option,
    config_path,
    open_existing_store,
    read_settings,
)
from demur.codes.default import default_registry
from demur.codes.registry import Registry
from demur.codes.vocabulary import Verdict
from demur.errors import InputError, one_line
from demur.policy.loader import load_policy

__all__ = ["configure_diff", "run_diff"]

_DEFAULT_SHOWN = 20
_STORE_OPTIONS = ("since", "until", "tenant", "action", "config")


def configure_diff(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "exit: 0 no changes (or --allow-changes); 1 changes, errors, or nothing to compare; 2 usage"
    )
    parser.add_argument(
        "records",
        nargs="?",
        type=Path,
        metavar="RECORDS",
        help="lines of `demur export --all`; default: the decisions in the store",
    )
    parser.add_argument("--policy", required=True, metavar="FILE", help="the candidate policy")
    parser.add_argument("--action", metavar="TYPE", help="only decisions on this type of action")
    add_period_options(parser)
    add_tenant_option(parser)
    add_registry_option(parser)
    parser.add_argument(
        "--allow-changes",
        action="store_true",
        help="exit with 0 despite changes; errors still fail",
    )
    parser.add_argument(
        "--limit",
        type=int,
        default=_DEFAULT_SHOWN,
        metavar="N",
        help=f"the number of changed decisions to show (default: {_DEFAULT_SHOWN}); all are counted",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    add_config_option(parser)


def run_diff(args: argparse.Namespace) -> int:
    """Print the changes; 0 if there are none and all decisions were compared."""
    if args.limit < 0:
        raise InputError(f"--limit must be 0 or more, not `{args.limit}`")
    found = _compare_store(args) if args.records is None else _compare_file(args)
    if args.json:
        print(json.dumps(_comparison_to_json(found), indent=2))
    else:
        print("\n".join(_format_comparison(found, Paint())))
    return int(not found.sound or (found.changed > 0 and not args.allow_changes))


def _compare_store(args: argparse.Namespace) -> PolicyComparison:
    config = read_settings(config_path(args))
    registry = default_registry(*config.registries, *args.registry)
    with open_existing_store(config) as store:
        return _compare_records(args, registry, store.find_records(build_filter(args)))


def _compare_file(args: argparse.Namespace) -> PolicyComparison:
    given = [name for name in _STORE_OPTIONS if getattr(args, name) is not None]
    if given:
        problem = f"--{given[0]} selects in the store, and you named a file"
        raise InputError(problem, help="filter when you export")
    registry = default_registry(*args.registry)
    with args.records.open("rb") as lines:
        return _compare_records(args, registry, read_lines(lines))


def _compare_records(
    args: argparse.Namespace, registry: Registry, records: Iterator[Any]
) -> PolicyComparison:
    policy = load_policy(args.policy, registry=registry)
    return compare_policy(policy, records, registry=registry, keep=args.limit)


def _comparison_to_json(found: PolicyComparison) -> dict[str, Any]:
    return {
        "sound": found.sound,
        "compared": found.compared,
        "changed": found.changed,
        "failed": found.failed,
        "skipped": found.skipped,
        "erased": found.erased,
        "verdicts": [
            {"before": before, "after": after, "count": count}
            for (before, after), count in sorted(found.verdicts.items())
        ],
        "codes": dict(sorted(found.codes.items())),
        "also": dict(sorted(found.also.items())),
        "changes": [change._asdict() for change in found.changes],
        "failures": [failure._asdict() for failure in found.failures],
    }


def _format_comparison(found: PolicyComparison, paint: Paint) -> Iterator[str]:
    if found.changed:
        yield from _format_matrix(found, paint)
        yield from _format_counts(found, paint)
        yield from _format_changes(found, paint)
    for failure in found.failures:
        yield (
            one_line(f"{failure.decision_id}: ")
            + paint("error: ", "bold", "red")
            + one_line(failure.problem)
        )
    if found.failed > len(found.failures):
        yield paint(f"... and {found.failed - len(found.failures)} more errors", "dim")
    yield _summarize_comparison(found, paint)


def _format_matrix(found: PolicyComparison, paint: Paint) -> Iterator[str]:
    shown = [verdict for verdict in Verdict if any(verdict in pair for pair in found.verdicts)]
    rows = (
        (before, *(str(found.verdicts[before, after] or "-") for after in shown))
        for before in shown
    )
    yield format_table(rows, ("WAS \\ WOULD BE", *shown), paint)
    yield ""


def _format_counts(found: PolicyComparison, paint: Paint) -> Iterator[str]:
    rows = [(str(count), name) for name, count in found.codes.most_common()]
    rows += [(str(count), f"another {name}") for name, count in found.also.most_common()]
    yield format_table(rows, ("COUNT", "CHANGE"), paint)
    yield ""


def _format_changes(found: PolicyComparison, paint: Paint) -> Iterator[str]:
    if not found.changes:
        return
    rows = (
        (
            change.decision_id,
            change.action_type,
            change.before
            if change.before is change.after
            else f"{change.before} -> {change.after}",
            _describe_change(change),
        )
        for change in found.changes
    )
    yield format_table(rows, ("DECISION", "ACTION", "VERDICT", "CHANGE"), paint)
    if found.changed > len(found.changes):
        yield paint(f"... and {found.changed - len(found.changes)} more", "dim")
    yield ""


def _describe_change(change: DecisionChange) -> str:
    codes = [
        *(f"-{code}" for code in change.codes_gone),
        *(f"+{code}" for code in change.codes_new),
    ]
    return ", ".join(codes) or f"another {', '.join(change.also)}"


def _summarize_comparison(found: PolicyComparison, paint: Paint) -> str:
    counts = [f"{found.compared} compared", f"{found.changed} would change"]
    counts += [f"{found.failed} could not be compared"] if found.failed else []
    counts += [f"{found.skipped} skipped (no policy decided)"] if found.skipped else []
    counts += [f"{found.erased} erased"] if found.erased else []
    words = ", ".join(counts)
    if not found.compared:
        words += ": nothing to compare"
    colour = "red" if not found.sound else "yellow" if found.changed else "green"
    return paint(words, colour)
