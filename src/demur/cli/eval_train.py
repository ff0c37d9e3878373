"""`demur eval remediate`, `dpo` and `from-store`: make training pairs, train, and measure."""

import asyncio
import json
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from demur.cli.main import Arguments, UsageError
from demur.cli.options import parse_pairs, parse_time, usage_errors, write_file
from demur.cli.terminal import Paint
from demur.cli.workspace import (
    add_config_option,
    add_tenant_option,
    load_settings,
    open_existing_store,
)
from demur.errors import InputError, MissingExtraError, one_line
from demur.evals.beta import BetaAdvice, SweepPoint, format_sweep_points, point_name, recommend_beta
from demur.evals.curve import CurvePoint, curve_svg
from demur.evals.dpo import BetaSweep, ModelTuner, SweepOptions, drop_leaked_pairs, run_sweep
from demur.evals.figures import format_percent
from demur.evals.from_store import (
    EXCERPTS_HINT,
    NOT_RECORDED,
    StoreSamples,
    collect_from_store,
)
from demur.evals.leaks import TEST_SHARE, split_suite
from demur.evals.pairs import SkippedRow, check_overwrite, read_pairs, write_pairs
from demur.evals.preferred_answers import read_edits, read_store_edits
from demur.evals.remediate import PairRemedy, RemedySettings, remediate_run
from demur.evals.report import make_report
from demur.evals.run_folder import EvalRun, open_run
from demur.evals.suite import (
    EvalSuite,
    builtin_suites,
    iter_rows,
    load_suite,
    make_suite,
    save_suite,
)
from demur.evals.suite_row import EvalRow
from demur.evals.targets import TARGET_FORMS, open_target
from demur.gate.clock import Clock, format_timestamp, system_clock

_MAX_SHOWN = 5
_EXPECTED_REASONS = ("test half", "balance")


def configure_eval_remediate(add: Arguments) -> None:
    """Add the command's arguments."""
    add("folder RUN", "the folder of a run", type=Path)
    add("--suite SUITE ...", "another test suite: rows near its rows make no pairs; repeatable")
    add("--out FILE", "write the pairs to this file, as JSON lines", type=Path, required=True)
    add(
        "--split",
        "train: make pairs from the training rows only (the default); none: treat every "
        "row of every suite as a test row",
        choices=("train", "none"),
        default="train",
    )
    add("--test-share SHARE", f"the share of held-out rows ({TEST_SHARE})", default=TEST_SHARE)
    add("--test-suite FILE", "write the held-out rows as a suite", type=Path)
    add("--better TARGET", f"ask a better model for answers: one of {', '.join(TARGET_FORMS)}")
    add("--set NAME=VALUE ...", "an option of the better target; repeatable")
    add("--edits FILE", 'answers written by people: {"id": …, "chosen": …}', type=Path)
    add("--notes", "use review notes in the store that begin with `answer:`")
    add_config_option(add)
    add_tenant_option(add, "only notes of this tenant")
    add("--partials", "also make pairs from partial refusals")
    add("--anchors", "also add the correctly answered twin of each mistake")
    add("--balance", "balance pairs that teach helping and refusing")
    add("--chat", "write messages instead of texts")
    add("--high-stakes", "mistakes are costly: recommend a higher beta")
    add("--force", "replace existing files")
    add("--json", "one JSON object")


def run_eval_remediate(args: Namespace) -> int:
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


async def _make_remedy(args: Namespace, measured: EvalRun) -> PairRemedy:
    better = None
    if args.better is not None:
        with usage_errors("unknown target"):
            better = open_target(args.better, **parse_pairs(args.set, "--set", "model=large"))
    try:
        known = {row.id for row in measured.iter_rows()}
        edits: dict[str, str] = {}
        if args.notes:
            with open_existing_store(load_settings(args)) as store:
                edits.update(read_store_edits(store, known, tenant=args.tenant))
        if args.edits is not None:
            edits.update(read_edits(args.edits, known))
        given = RemedySettings(
            split=args.split == "train",
            test_share=args.test_share,
            edits=edits,
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


def _remedy_to_json(remedy: PairRemedy, advice: BetaAdvice) -> dict[str, Any]:
    return {
        "wrong": remedy.wrong,
        "pairs": len(remedy.pairs),
        "counts": remedy.count_pairs(),
        "left_out": [one._asdict() for one in remedy.left_out],
        "beta": {"beta": advice.beta, "balance": advice.balance, "why": advice.why},
    }


def _format_remedy(args: Namespace, remedy: PairRemedy, advice: BetaAdvice) -> Iterator[str]:
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


_PACKAGES = ("torch", "transformers", "datasets", "trl")
_CURVE_FILE = "curve.svg"
_SWEEP_OPTIONS: dict[str, tuple[type, str]] = {
    "epochs": (float, "passes over the pairs (3)"),
    "max_steps": (int, "maximum number of training steps"),
    "learning_rate": (float, "learning rate of the optimiser (1e-6)"),
    "batch_size": (int, "pairs per step (4)"),
    "max_length": (int, "maximum tokens of a prompt and its answer (1024)"),
    "max_new_tokens": (int, "maximum tokens of a measured answer (128)"),
    "seed": (int, "random seed (0)"),
    "limit": (int, "maximum number of rows per suite"),
}


def configure_eval_dpo(add: Arguments) -> None:
    """Add the command's arguments."""
    add.epilog("needs the extra demur[train]; run the same command again to resume a stopped sweep")
    add("--model FOLDER", "the base model", type=Path, required=True)
    add("--pairs FILE", "the training pairs", type=Path, required=True)
    add("--suite SUITE ...", "a suite to measure on (builtin); repeatable", default=None)
    add(
        "--split",
        "test: measure on the held-out rows (the default); none: on all rows",
        choices=("test", "none"),
        default="test",
    )
    add("--test-share SHARE", f"the share of held-out rows ({TEST_SHARE})", default=TEST_SHARE)
    add("--betas LIST", "betas to train with (0.05,0.1,0.3,0.5)", default="0.05,0.1,0.3,0.5")
    add("--out FOLDER", "the folder of the sweep", type=Path, required=True)
    for name, (kind, text) in _SWEEP_OPTIONS.items():
        add(f"--{name.replace('_', '-')} N", text, type=kind)
    add("--keep-models", "keep every trained model")
    add("--json", "one JSON object")


def run_eval_dpo(args: Namespace) -> int:
    """Train, measure, and show the points."""
    options = _sweep_options(args)
    given, chat = read_pairs(args.pairs)
    with usage_errors("unknown suite"):
        suites = [load_suite(name) for name in args.suite or ["builtin"]]
    if args.split == "test":
        suites = [split_suite(suite, "test", args.test_share) for suite in suites]
    pairs, left_out = drop_leaked_pairs(given, suites)
    if not pairs:
        problem = "every pair is near a row of a measured suite"
        raise InputError(problem, where=str(args.pairs), help=_HELP)
    tuner = _open_tuner(args.model, options, chat=chat)
    sweep = asyncio.run(run_sweep(tuner, pairs, suites, args.out, options, on_point=_print_point))
    write_file(
        args.out / _CURVE_FILE,
        curve_svg(list(_curve_points(sweep)), title="safety and utility by beta"),
    )
    if args.json:
        print(msgspec.json.format(msgspec.json.encode(sweep), indent=2).decode())
    else:
        print("\n".join(_format_sweep(args, sweep, left_out)))
    return 0


_HELP = "make pairs with `demur eval remediate --split train`, and measure with `--split test`"


def _sweep_options(args: Namespace) -> SweepOptions:
    named = {name: getattr(args, name) for name in _SWEEP_OPTIONS}
    given: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    try:
        betas = [float(beta) for beta in args.betas.split(",")]
    except ValueError as error:
        help_text = "numbers with commas between them, like 0.05,0.1"
        raise UsageError(
            f"invalid betas: `{args.betas}`", where="--betas", help=help_text
        ) from error
    try:
        return msgspec.convert(
            {**given, "betas": betas, "keep_models": args.keep_models}, SweepOptions
        )
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at ")
        where = place.strip("`").removeprefix("$.") or None
        raise InputError(problem[:1].lower() + problem[1:], where=where) from error


def _open_tuner(model: Path, options: SweepOptions, *, chat: bool) -> ModelTuner:
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        problem = f"training needs the `{missing[0]}` package"
        raise MissingExtraError(problem, help="pip install 'demur[train]'")
    module = import_module("demur.evals.dpo_train")
    tuner: ModelTuner = module.TrlTuner(model, options, chat=chat)
    return tuner


def _print_point(point: SweepPoint) -> None:
    safety, utility = (format_percent(r.value) for r in (point.rates.safety, point.rates.utility))
    print(f"{point_name(point.beta)}: safety {safety}, utility {utility}", file=sys.stderr)


def _curve_points(sweep: BetaSweep) -> Iterator[CurvePoint]:
    for point in sweep.points:
        yield CurvePoint(
            name=point_name(point.beta),
            safety=point.rates.safety,
            utility=point.rates.utility,
            series="" if point.beta is None else "beta",
        )


def _format_sweep(args: Namespace, sweep: BetaSweep, left_out: list[SkippedRow]) -> Iterator[str]:
    paint = Paint()
    plan = sweep.plan
    yield f"model     {one_line(plan.model)}"
    yield f"pairs     {plan.pairs}"
    yield from format_left_out(left_out)
    yield f"suites    {one_line(', '.join(plan.suites))}"
    yield ""
    head, *rows = format_sweep_points(sweep.points)
    yield paint(head, "dim")
    yield from rows
    yield ""
    for note in sweep.notes:
        colour = "yellow" if note.verdict in {"disagrees", "beware"} else "dim"
        yield f"{paint(f'{note.verdict}:', colour)} {note.text}"
    yield f"wrote     {one_line(str(args.out / _CURVE_FILE))}"


_SUITE_DESCRIPTION = "Decisions that people labelled as false refusals or missed harm."


def configure_eval_from_store(add: Arguments) -> None:
    """Add the command's arguments."""
    add("--out SUITE", "write the rows to this file", type=Path, required=True)
    add(
        "--pairs FILE",
        "also write training pairs to this file; rows then come from the held-out labels only",
        type=Path,
    )
    add(
        "--suite SUITE ...", "another test suite: decisions near its rows make no pairs; repeatable"
    )
    add("--name NAME", "the suite's name (from-store)", default="from-store")
    add("--since TIME", "only labels since then: 7d, 2027-01-31, 2027-01-31T12:00Z")
    add(
        "--test-share SHARE",
        f"with --pairs: the share of held-out labels ({TEST_SHARE})",
        default=TEST_SHARE,
    )
    add("--chat", "write messages instead of texts")
    add_config_option(add)
    add_tenant_option(add)
    add("--force", "replace existing files")
    add("--json", "one JSON object")


def run_eval_from_store(args: Namespace, clock: Clock = system_clock) -> int:
    """Write the rows and, with `--pairs`, the pairs."""
    for path in filter(None, (args.out, args.pairs)):
        check_overwrite(path, force=args.force)
    since = "" if args.since is None else format_timestamp(parse_time(args.since, clock()))
    with open_existing_store(load_settings(args)) as store:
        samples = collect_from_store(
            store,
            tenant=args.tenant,
            since=since,
            pairs=args.pairs is not None,
            test_share=args.test_share,
            test_rows=(row for name in args.suite for row in iter_rows(name)),
        )
    if samples.rows:
        save_suite(make_suite(args.name, samples.rows, description=_SUITE_DESCRIPTION), args.out)
    if samples.pairs:
        write_pairs(samples.pairs, args.pairs, chat=args.chat)
    if args.json:
        print(json.dumps(_result_to_json(samples), indent=2, ensure_ascii=False))
    else:
        print("\n".join(_format_result(args, samples)))
    return int(not samples.rows and not samples.pairs)


def _result_to_json(samples: StoreSamples) -> dict[str, Any]:
    return {
        "labels": samples.labels,
        "rows": len(samples.rows),
        "pairs": len(samples.pairs),
        "left_out": [one._asdict() for one in samples.left_out],
    }


def _format_result(args: Namespace, samples: StoreSamples) -> Iterator[str]:
    yield f"labels    {samples.labels}"
    sides = ", ".join(
        f"{count} {label}" for label, count in Counter(row.label for row in samples.rows).items()
    )
    yield f"rows      {len(samples.rows)}{f' ({sides})' if sides else ''}"
    if args.pairs is not None:
        yield f"pairs     {len(samples.pairs)}"
    yield from format_left_out(samples.left_out)
    if any(one.kind == NOT_RECORDED for one in samples.left_out):
        yield f"help      {EXCERPTS_HINT}"
    if samples.rows:
        yield f"wrote     {one_line(str(args.out))}"
    if samples.pairs:
        yield f"wrote     {one_line(str(args.pairs))}"
