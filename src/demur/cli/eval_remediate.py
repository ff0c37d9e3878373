"""`demur eval remediate_run`: make training pairs from the mistakes of a model in a run."""

import argparse
import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from demur.cli.terminal import Paint
from demur.cli.workspace import (
    add_config_option,
    add_tenant_option,
    open_existing_store,
    load_settings,
)
from demur.errors import InputError, one_line
from demur.evals.beta import BetaAdvice, recommend_beta
from demur.evals.leaks import TEST_SHARE, split_suite
from demur.evals.pairs import SkippedRow, check_overwrite, write_pairs
from demur.evals.remediate import PairRemedy, RemedySettings, remediate_run
from demur.evals.remediate_edits import read_store_edits, read_edits
from demur.evals.report import make_report
from demur.evals.run import EvalRun, open_run
from demur.evals.suite import (
    EvalRow,
    EvalSuite,
    builtin_suites,
    iter_rows,
    load_suite,
    make_suite,
    save_suite,
)
from demur.evals.targets.opening import TARGET_FORMS, open_target

__all__ = ["configure_eval_remediate", "format_left_out", "run_eval_remediate"]

_MAX_SHOWN = 5
_EXPECTED_REASONS = ("test half", "balance")


def configure_eval_remediate(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "exit: 0 pairs written, or no mistakes; 1 an error, or no usable pairs; 2 usage"
    parser.add_argument("folder", type=Path, metavar="RUN", help="the folder of a run")
    parser.add_argument(
        "--suite",
        action="append",
        default=[],
        metavar="SUITE",
        help="another test suite: rows near its rows make no pairs; repeatable",
    )
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FILE",
        help="write the pairs to this file, as JSON lines",
    )
    parser.add_argument(
        "--split",
        choices=("train", "none"),
        default="train",
        help="train: make pairs from the training rows only (the default); none: treat every "
        "row of every suite as a test row",
    )
    parser.add_argument(
        "--test-share",
        type=float,
        default=TEST_SHARE,
        metavar="SHARE",
        help=f"the share of held-out rows ({TEST_SHARE})",
    )
    parser.add_argument(
        "--test-suite", type=Path, metavar="FILE", help="write the held-out rows as a suite"
    )
    _add_sources(parser)
    parser.add_argument(
        "--partials", action="store_true", help="also make pairs from partial refusals"
    )
    parser.add_argument(
        "--anchors",
        action="store_true",
        help="also add the correctly answered twin of each mistake",
    )
    parser.add_argument(
        "--balance", action="store_true", help="balance pairs that teach helping and refusing"
    )
    parser.add_argument("--chat", action="store_true", help="write messages instead of texts")
    parser.add_argument(
        "--high-stakes", action="store_true", help="mistakes are costly: recommend a higher beta"
    )
    parser.add_argument("--force", action="store_true", help="replace existing files")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def _add_sources(parser: argparse.ArgumentParser) -> None:
    """Add the sources of preferred answers; the default is templates."""
    parser.add_argument(
        "--better",
        metavar="TARGET",
        help=f"ask a better model for answers: one of {', '.join(TARGET_FORMS)}",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the better target; repeatable",
    )
    parser.add_argument(
        "--edits",
        type=Path,
        metavar="FILE",
        help='answers written by people: {"id": …, "chosen": …}',
    )
    parser.add_argument(
        "--notes",
        action="store_true",
        help="use review notes in the store that begin with `answer:`",
    )
    add_config_option(parser)
    add_tenant_option(parser, "only notes of this tenant")


def run_eval_remediate(args: argparse.Namespace) -> int:
    """Write the pairs, and print what was left out and the recommended beta."""
    for path in filter(None, (args.out, args.test_suite)):
        check_overwrite(path, force=args.force)
    measured = open_run(args.folder)
    remedy = asyncio.run(_make_remedy(args, measured))
    advice = recommend_beta(make_report(measured), high_stakes=args.high_stakes)
    if remedy.pairs:
        write_pairs(remedy.pairs, args.out, chat=args.chat)
    if args.test_suite is not None:
        save_suite(split_suite(_whole_twins(measured), "test", args.test_share), args.test_suite)
    if args.json:
        print(json.dumps(_remedy_to_json(remedy, advice), indent=2, ensure_ascii=False))
    else:
        print("\n".join(_format_remedy(args, remedy, advice)))
    return int(bool(remedy.wrong) and not remedy.pairs)


async def _make_remedy(args: argparse.Namespace, measured: EvalRun) -> PairRemedy:
    better = None
    if args.better is not None:
        better = open_target(args.better, **_parse_target_options(args.set))
    try:
        given = RemedySettings(
            split=args.split == "train",
            test_share=args.test_share,
            edits=_collect_edits(args, measured),
            better=better,
            partials=args.partials,
            anchors=args.anchors,
            balance=args.balance,
        )
        return await remediate_run(
            measured, test_rows=_list_tested_rows(args.suite, measured), settings=given
        )
    finally:
        if better is not None:
            await better.close()


def _list_tested_rows(suites: Iterable[str], measured: EvalRun) -> Iterator[EvalRow]:
    """Yield the rows of all test suites, including rows of the run's suite that were not asked."""
    asked = measured.manifest.suite
    if asked.name in builtin_suites() and load_suite(asked.name).digest == asked.digest:
        yield from load_suite(asked.name).rows
    for name in suites:
        yield from iter_rows(name)


def _whole_twins(measured: EvalRun) -> EvalSuite:
    """Return the asked rows as a suite, without rows whose twin was not asked."""
    asked = {row.id for row in measured.iter_rows()}
    rows = [row for row in measured.iter_rows() if row.twin is None or row.twin in asked]
    suite = measured.manifest.suite
    return make_suite(suite.name, rows, version=suite.version)


def _collect_edits(args: argparse.Namespace, measured: EvalRun) -> Mapping[str, str]:
    known = {row.id for row in measured.iter_rows()}
    edits: dict[str, str] = {}
    if args.notes:
        with open_existing_store(load_settings(args)) as store:
            edits.update(read_store_edits(store, known, tenant=args.tenant))
    if args.edits is not None:
        edits.update(read_edits(args.edits, known))
    return edits


def _parse_target_options(pairs: Iterable[str]) -> dict[str, Any]:
    options = {}
    for pair in pairs:
        name, found, value = pair.partition("=")
        if not found:
            raise InputError(f"not an option: `{pair}`", where="--set", help="like `model=large`")
        options[name.replace("-", "_")] = value
    return options


def _remedy_to_json(remedy: PairRemedy, advice: BetaAdvice) -> dict[str, Any]:
    return {
        "wrong": remedy.wrong,
        "pairs": len(remedy.pairs),
        "counts": remedy.count_pairs(),
        "left_out": [one._asdict() for one in remedy.left_out],
        "beta": {"beta": advice.beta, "balance": advice.balance, "why": advice.why},
    }


def _format_remedy(
    args: argparse.Namespace, remedy: PairRemedy, advice: BetaAdvice
) -> Iterator[str]:
    paint = Paint()
    wrong = [
        f"{remedy.wrong.get(why, 0)} {word}"
        for why, word in (("false_refusal", "false refusals"), ("missed_harm", "missed harm"))
    ]
    yield f"wrong     {', '.join(wrong)}"
    counts = ", ".join(f"{count} {name}" for name, count in remedy.count_pairs().items())
    yield f"pairs     {len(remedy.pairs)}{f' ({one_line(counts)})' if counts else ''}"
    yield from format_left_out(remedy.left_out)
    yield f"beta      {advice.beta}: {advice.why}"
    if not remedy.pairs:
        yield paint("no usable pairs, so nothing was written", "yellow")
        return
    yield f"wrote     {one_line(str(args.out))}"
    if args.test_suite is not None:
        yield f"wrote     {one_line(str(args.test_suite))}, to test on"
    if "chosen by template" in remedy.count_pairs():
        hint = (
            "templates teach willingness, not knowledge: use --better or --edits for real answers"
        )
        yield paint(hint, "dim")
    if len(remedy.wrong) == 1 and not args.anchors:
        yield paint("all pairs teach the same behaviour: --anchors adds their twins", "dim")


def format_left_out(left_out: Iterable[SkippedRow]) -> Iterator[str]:
    """Yield the rows left out, by kind of reason, and the first unexpected ones."""
    kinds: dict[str, int] = {}
    for one in left_out:
        kinds[one.kind] = kinds.get(one.kind, 0) + 1
    if not kinds:
        return
    yield f"left out  {', '.join(f'{count} {kind}' for kind, count in kinds.items())}"
    odd = [one for one in left_out if one.kind not in _EXPECTED_REASONS]
    for one in odd[:_MAX_SHOWN]:
        yield f"          {one_line(one.row_id)}: {one_line(one.reason)}"
    if len(odd) > _MAX_SHOWN:
        yield f"          and {len(odd) - _MAX_SHOWN} more; --json names all"
