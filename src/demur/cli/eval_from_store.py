"""`demur eval from-store`: turn labelled decisions into test rows and training pairs."""

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from demur.cli.eval_remediate import format_left_out
from demur.cli.moments import parse_time
from demur.cli.workspace import (
    add_config_option,
    add_tenant_option,
    open_existing_store,
    load_settings,
)
from demur.errors import one_line
from demur.evals.from_store import StoreSamples, collect_from_store
from demur.evals.leaks import TEST_SHARE
from demur.evals.pairs import check_overwrite, write_pairs
from demur.evals.suite import EvalRow, iter_rows, make_suite, save_suite
from demur.gate.clock import Clock, system_clock, format_timestamp

__all__ = ["configure_eval_from_store", "run_eval_from_store"]

_SUITE_DESCRIPTION = "Decisions that people labelled as false refusals or missed harm."


def configure_eval_from_store(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "exit: 0 written; 1 an error, or no rows and no pairs; 2 usage"
    parser.add_argument(
        "--out", type=Path, required=True, metavar="SUITE", help="write the rows to this file"
    )
    parser.add_argument(
        "--pairs",
        type=Path,
        metavar="FILE",
        help="also write training pairs to this file; rows then come from the held-out labels only",
    )
    parser.add_argument(
        "--suite",
        action="append",
        default=[],
        metavar="SUITE",
        help="another test suite: decisions near its rows make no pairs; repeatable",
    )
    parser.add_argument("--name", default="from-store", help="the suite's name (from-store)")
    parser.add_argument(
        "--since", metavar="TIME", help="only labels since then: 7d, 2027-01-31, 2027-01-31T12:00Z"
    )
    parser.add_argument(
        "--test-share",
        type=float,
        default=TEST_SHARE,
        metavar="SHARE",
        help=f"with --pairs: the share of held-out labels ({TEST_SHARE})",
    )
    parser.add_argument("--chat", action="store_true", help="write messages instead of texts")
    add_config_option(parser)
    add_tenant_option(parser)
    parser.add_argument("--force", action="store_true", help="replace existing files")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run_eval_from_store(args: argparse.Namespace, clock: Clock = system_clock) -> int:
    """Write the rows and, with `--pairs`, the pairs."""
    for path in filter(None, (args.out, args.pairs)):
        check_overwrite(path, force=args.force)
    since = "" if args.since is None else format_timestamp(parse_time(args.since, clock()))
    with open_existing_store(load_settings(args)) as store:
        made = collect_from_store(
            store,
            tenant=args.tenant,
            since=since,
            pairs=args.pairs is not None,
            test_share=args.test_share,
            test_rows=_read_suite_rows(args.suite),
        )
    if made.rows:
        save_suite(make_suite(args.name, made.rows, description=_SUITE_DESCRIPTION), args.out)
    if made.pairs:
        write_pairs(made.pairs, args.pairs, chat=args.chat)
    if args.json:
        print(json.dumps(_result_to_json(made), indent=2, ensure_ascii=False))
    else:
        print("\n".join(_format_result(args, made)))
    return int(not made.rows and not made.pairs)


def _read_suite_rows(suites: list[str]) -> Iterator[EvalRow]:
    for name in suites:
        yield from iter_rows(name)


def _result_to_json(made: StoreSamples) -> dict[str, Any]:
    return {
        "labels": made.labels,
        "rows": len(made.rows),
        "pairs": len(made.pairs),
        "left_out": [one._asdict() for one in made.left_out],
    }


def _format_result(args: argparse.Namespace, made: StoreSamples) -> Iterator[str]:
    yield f"labels    {made.labels}"
    sides = ", ".join(
        f"{count} {label}" for label, count in Counter(row.label for row in made.rows).items()
    )
    yield f"rows      {len(made.rows)}{f' ({sides})' if sides else ''}"
    if args.pairs is not None:
        yield f"pairs     {len(made.pairs)}"
    yield from format_left_out(made.left_out)
    if made.rows:
        yield f"wrote     {one_line(str(args.out))}"
    if made.pairs:
        yield f"wrote     {one_line(str(args.pairs))}"
