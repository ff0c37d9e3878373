"""`demur eval from-store`: turn labelled decisions into test rows and training pairs."""

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from demur.cli.eval_remediate import left_out_lines
from demur.cli.moments import moment
from demur.cli.workspace import add_config, add_tenant, existing_store, settings
from demur.errors import one_line
from demur.evals.from_store import FromStore, from_store
from demur.evals.leaks import TEST_SHARE
from demur.evals.pairs import check_new, write_pairs
from demur.evals.suite import Row, iter_rows, make_suite, save_suite
from demur.gate.clock import Clock, system_clock, timestamp

__all__ = ["configure", "run"]

_DESCRIPTION = "Decisions that people labelled as false refusals or missed harm."


def configure(parser: argparse.ArgumentParser) -> None:
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
    add_config(parser)
    add_tenant(parser)
    parser.add_argument("--force", action="store_true", help="replace existing files")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(args: argparse.Namespace, clock: Clock = system_clock) -> int:
    """Write the rows and, with `--pairs`, the pairs."""
    for path in filter(None, (args.out, args.pairs)):
        check_new(path, force=args.force)
    since = "" if args.since is None else timestamp(moment(args.since, clock()))
    with existing_store(settings(args)) as store:
        made = from_store(
            store,
            tenant=args.tenant,
            since=since,
            pairs=args.pairs is not None,
            test_share=args.test_share,
            tested=_tested(args.suite),
        )
    if made.rows:
        save_suite(make_suite(args.name, made.rows, description=_DESCRIPTION), args.out)
    if made.pairs:
        write_pairs(made.pairs, args.pairs, chat=args.chat)
    if args.json:
        print(json.dumps(_as_json(made), indent=2, ensure_ascii=False))
    else:
        print("\n".join(_lines(args, made)))
    return int(not made.rows and not made.pairs)


def _tested(suites: list[str]) -> Iterator[Row]:
    for name in suites:
        yield from iter_rows(name)


def _as_json(made: FromStore) -> dict[str, Any]:
    return {
        "labels": made.labels,
        "rows": len(made.rows),
        "pairs": len(made.pairs),
        "left_out": [one._asdict() for one in made.left_out],
    }


def _lines(args: argparse.Namespace, made: FromStore) -> Iterator[str]:
    yield f"labels    {made.labels}"
    sides = ", ".join(
        f"{count} {label}" for label, count in Counter(row.label for row in made.rows).items()
    )
    yield f"rows      {len(made.rows)}{f' ({sides})' if sides else ''}"
    if args.pairs is not None:
        yield f"pairs     {len(made.pairs)}"
    yield from left_out_lines(made.left_out)
    if made.rows:
        yield f"wrote     {one_line(str(args.out))}"
    if made.pairs:
        yield f"wrote     {one_line(str(args.pairs))}"
