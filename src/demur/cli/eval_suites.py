"""`demur eval suites`: list the built-in suites, or show one suite."""

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from demur.cli.terminal import Paint, format_table, wrap_text
from demur.errors import one_line
from demur.evals.suite import EvalRow, EvalSuite, builtin_suites, load_suite

__all__ = ["configure_eval_suites", "run_eval_suites"]

_COUNTED_FIELDS = ("label", "pattern", "domain", "language", "category")


def configure_eval_suites(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "exit: 0 shown; 1 a suite cannot be used; 2 usage"
    parser.add_argument(
        "suite", nargs="?", metavar="SUITE", help="show this one: a built-in name or a file"
    )
    parser.add_argument(
        "--prompts", action="store_true", help="show every row of SUITE, twins side by side"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run_eval_suites(args: argparse.Namespace) -> int:
    """Print all suites, or one."""
    paint = Paint()
    if args.suite is None:
        suites = [load_suite(name) for name in builtin_suites()]
        if args.json:
            print(json.dumps([_suite_to_json(suite) for suite in suites], indent=2))
        else:
            _print_suites(suites, paint)
        return 0
    suite = load_suite(args.suite)
    if args.json:
        print(json.dumps(_suite_to_json(suite, prompts=args.prompts), indent=2, ensure_ascii=False))
    elif args.prompts:
        _print_rows(suite.rows, paint)
    else:
        _print_suite(suite, paint)
    return 0


def _count_fields(suite: EvalSuite) -> dict[str, dict[str, int]]:
    """Return the counts of each field's values, most frequent first."""
    return {
        name: dict(Counter(getattr(row, name) or "none" for row in suite.rows).most_common())
        for name in _COUNTED_FIELDS
    }


def _suite_to_json(suite: EvalSuite, *, prompts: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": suite.name,
        "version": suite.version,
        "description": suite.description,
        "digest": suite.digest,
        "rows": len(suite.rows),
        "counts": _count_fields(suite),
    }
    if prompts:
        fields = EvalRow.__struct_fields__
        found["prompts"] = [{name: getattr(row, name) for name in fields} for row in suite.rows]
    return found


def _print_suites(suites: Iterable[EvalSuite], paint: Paint) -> None:
    rows = []
    for suite in suites:
        counts = _count_fields(suite)
        rows.append(
            (
                suite.name,
                str(len(suite.rows)),
                str(counts["label"]["legitimate"]),
                str(counts["label"]["harmful"]),
                str(len(counts["pattern"])),
                str(len(counts["domain"])),
                " ".join(sorted(counts["language"])),
            )
        )
    head = ("suite", "rows", "legitimate", "harmful", "patterns", "domains", "languages")
    print(format_table(rows, head, paint))
    print(paint("`demur eval suites SUITE` shows one suite; SUITE may also be a file", "dim"))


def _print_suite(suite: EvalSuite, paint: Paint) -> None:
    print(f"{paint(one_line(suite.name), 'bold')} {one_line(suite.version)}")
    if suite.description:
        print(wrap_text(one_line(suite.description), "  "))
    print(paint(f"  {len(suite.rows)} rows, {suite.digest}", "dim"))
    for name, counts in _count_fields(suite).items():
        print(f"{name}\n{_format_counts(counts)}")


def _format_counts(counts: Mapping[str, int]) -> str:
    # A name and its count stay on one line.
    pairs = (f"{one_line(name)}\N{NO-BREAK SPACE}{count}" for name, count in counts.items())
    return wrap_text(", ".join(pairs), "  ").replace("\N{NO-BREAK SPACE}", " ")


def _print_rows(rows: Iterable[EvalRow], paint: Paint) -> None:
    for row in rows:
        colour = "red" if row.label == "harmful" else "green"
        print(f"{paint(row.label, colour)} {one_line(row.id)}")
        print(wrap_text(one_line(row.prompt), "  "))
