"""`demur guard train`: make a small classifier of a domain from labelled rows or from reviews."""

import json
import re
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import msgspec

from demur.cli.eval_train import format_left_out
from demur.cli.main import Arguments, UsageError
from demur.cli.options import (
    add_registry_option,
    make_folder,
    parse_time,
    require_code,
    write_file,
)
from demur.cli.workspace import add_tenant_option, open_existing_store
from demur.codes.loading import default_registry
from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface
from demur.errors import InputError, one_line
from demur.evals.figures import format_interval, format_percent, make_excerpt
from demur.evals.from_store import EXCERPTS_HINT, NOT_RECORDED
from demur.evals.guard_rows import (
    DEFAULT_CODE,
    GuardRow,
    ReviewedRows,
    choose_code,
    collect_guard_rows,
    make_row_suite,
    read_decision_texts,
    read_guard_rows,
)
from demur.evals.line_files import replace_file, write_json
from demur.evals.pairs import SkippedRow, check_overwrite
from demur.evals.suite import save_suite
from demur.gate.clock import Clock, format_timestamp, system_clock
from demur.gate.config import load_config
from demur.model.finding import Action
from demur.scorers.contract import is_signal_name
from demur.scorers.learned import LEARNED_NAME
from demur.scorers.trained import check_guard_code, load_numpy, write_guard_file

if TYPE_CHECKING:
    from demur.evals.guard_training import TrainedGuard, TrainingReport, WrongRow

MAX_FALSE_HOLDS = 0.005
_SURFACES = (Surface.INPUT, Surface.OUTPUT, Surface.TOOL_RESULT, Surface.RETRIEVAL)
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,59}")


def configure_guard_train(add: Arguments) -> None:
    """Add the command's arguments."""
    add.epilog("needs the extra demur[learned]; the same rows and seed give the same file")
    add(
        "rows [FILE...]",
        'rows as JSON lines: {"text": …, "label": "hold" or "allow"}, with an optional "code", and '
        'a "group" for texts that say nearly the same',
        type=Path,
    )
    add("--name NAME", "the guard's name in settings, signals and files", required=True)
    add(
        "--from-store STORE",
        "also train on reviewed decisions: a store, or the settings file that names it",
        type=Path,
    )
    add(
        "--texts FILE",
        "with --from-store: the texts of decisions that record none, as JSON lines: "
        '{"decision_id": …, "text": …}',
        type=Path,
    )
    add(
        "--surface",
        "the surface that the guard is for; with --from-store, only what was said there (input)",
        choices=[str(one) for one in _SURFACES],
        default=str(Surface.INPUT),
    )
    add("--since TIME", "with --from-store: only reviews since then: 7d, 2027-01-31")
    add_tenant_option(add, "with --from-store: only this tenant's")
    add(
        "--max-false-holds RATE",
        f"the highest rate of false holds, with 95 %% confidence ({MAX_FALSE_HOLDS})",
        default=MAX_FALSE_HOLDS,
    )
    add("--code CODE", f"the code of what is held; default: that of the rows, or {DEFAULT_CODE}")
    add(
        "--action",
        "what a flagged text leads to (escalate)",
        choices=[str(action) for action in Action],
        default=str(Action.ESCALATE),
    )
    add("--out FOLDER", "write the files to this folder; default: this one", type=Path)
    add("--date DATE", "a date for the model's card")
    add("--seed N", "the seed of the folds (0)", default=0)
    add_registry_option(add)
    add("--force", "replace existing files")
    add("--json", "one JSON object")


def run_guard_train(args: Namespace, clock: Clock = system_clock) -> int:
    """Train, write the files, and print the report."""
    _check_name(args.name)
    folder: Path = args.out or Path()
    names = {"model": ".npz", "report": ".report.json", "text": ".report.txt"}
    files = {kind: folder / f"{args.name}{end}" for kind, end in names.items()}
    files["suite"] = folder / f"{args.name}.suite.jsonl"
    for path in files.values():
        check_overwrite(path, force=args.force)
    registry = default_registry(*args.registry)
    code = "" if args.code is None else require_code(args.code, registry)
    rows, left_out = _read_rows(args, registry, code, clock)
    code = choose_code(rows, code)
    check_guard_code(code, registry, where="--code" if args.code else "rows")
    guard = _train(args, rows, code)
    make_folder(folder)
    with replace_file(files["model"], "the model", InputError) as file:
        write_guard_file(guard.card, guard.weights, file)
    write_json(files["report"], guard.report, "the report", InputError)
    text = "\n".join(_format_report(guard.report))
    write_file(files["text"], f"{text}\n")
    save_suite(make_row_suite(args.name, rows, code), files["suite"])
    settings = list(_format_settings(args.name, files["model"], args.surface))
    if args.json:
        listed = {kind: str(path) for kind, path in files.items()}
        head = {"report": msgspec.to_builtins(guard.report), "files": listed}
        skipped = [one._asdict() for one in left_out]
        whole = {**head, "settings": "\n".join(settings), "left_out": skipped}
        print(json.dumps(whole, indent=2, ensure_ascii=False))
        return 0
    for line in (*format_left_out(left_out), text):
        print(line)
    for path in files.values():
        print(f"wrote        {one_line(str(path))}")
    print("\n".join(("", "add to demur.toml:", "", *settings, "", "and test it:", "")))
    print(f"  demur eval run --suite {one_line(str(files['suite']))} --target guards")
    return 0


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or not is_signal_name(name):
        help_text = "lower-case letters, digits, `_` and `-`, like `refunds`"
        raise UsageError(f"`{name[:60]}` is not a name for a guard", where="--name", help=help_text)
    if name == LEARNED_NAME:
        problem = f"`{name}` is the name of demur's own model"
        raise UsageError(problem, where="--name", help="choose another")


def _read_rows(
    args: Namespace, registry: Registry, code: str, clock: Clock
) -> tuple[list[GuardRow], list[SkippedRow]]:
    if not args.rows and args.from_store is None:
        help_text = "name a file of rows, or a store with --from-store"
        raise UsageError("there are no rows to train on", help=help_text)
    rows = [row for path in args.rows for row in read_guard_rows(path, registry)]
    if args.from_store is None:
        return rows, []
    since = "" if args.since is None else format_timestamp(parse_time(args.since, clock()))
    texts = {} if args.texts is None else read_decision_texts(args.texts)
    with open_existing_store(load_config(args.from_store)) as store:
        reviewed = collect_guard_rows(
            store,
            tenant=args.tenant,
            since=since,
            code=code,
            texts=texts,
            surface=Surface(args.surface),
        )
    if not reviewed.rows and not rows:
        _report_no_rows(reviewed, str(args.from_store))
    return [*rows, *reviewed.rows], reviewed.left_out


def _report_no_rows(reviewed: ReviewedRows, where: str) -> NoReturn:
    if not reviewed.labels:
        help_text = "label decisions in Review, or by `POST /v1/decisions/ID/labels`"
        raise InputError("no decision has been reviewed", where=where, help=help_text)
    kinds = Counter(one.kind for one in reviewed.left_out)
    counted = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    problem = f"none of {reviewed.labels} reviewed decisions gives a row: {counted}"
    texts = "give the texts by --texts"
    help_text = f"{EXCERPTS_HINT}, or {texts}" if NOT_RECORDED in kinds else texts
    raise InputError(problem, where=where, help=help_text)


def _train(args: Namespace, rows: list[GuardRow], code: str) -> "TrainedGuard":
    load_numpy()
    training = import_module("demur.evals.guard_training")
    options = training.TrainingOptions(
        name=args.name,
        code=code,
        action=Action(args.action),
        max_false_holds=args.max_false_holds,
        seed=args.seed,
        date=args.date or "",
    )
    places = [*map(str, args.rows), *([str(args.from_store)] if args.from_store else [])]
    guard: TrainedGuard = training.train_guard(rows, options, where=", ".join(places))
    return guard


def _format_report(report: "TrainingReport") -> Iterator[str]:
    card = report.card
    confidence = f"{100 * card.confidence:.0f} %"
    recall, precision, wrong = report.recall, report.precision, report.false_holds
    yield f"guard        {card.name}: {card.action}, {card.code}"
    yield (
        f"rows         {card.hold_rows} to hold ({report.hold_groups} different), "
        f"{card.allow_rows} to allow ({card.allow_groups} different)"
    )
    if report.alike:
        yield f"             {report.alike} differ from another in a few words: these count once"
    yield f"             and {card.ordinary_rows} ordinary requests of demur, to allow, not counted"
    yield f"             {card.rows_digest}"
    yield f"threshold    {card.threshold:.2f}, chosen on {card.folds} folds that were held out"
    yield (
        f"false holds  {wrong.hits} of {wrong.of} to allow; "
        f"at most {format_percent(report.false_hold_bound)} with {confidence} confidence"
    )
    yield (
        f"recall       {recall.hits} of {recall.of} to hold: {format_percent(recall.value)} "
        f"({format_interval(recall)})"
    )
    yield (
        f"precision    {precision.hits} of {precision.of} held: "
        f"{format_percent(precision.value)} ({format_interval(precision)})"
    )
    yield (
        f"elsewhere    {report.elsewhere.hits} of {report.elsewhere.of} legitimate rows of the "
        f"suite `builtin` are held{': add such texts to allow' if report.elsewhere.hits else ''}"
    )
    yield f"calibration  scores are off by {report.calibration_error:.3f} on average"
    yield f"more rows    {report.hint}"
    yield ""
    yield "highest scores of rows to allow:"
    yield from map(_format_row, report.held_wrongly)
    if report.missed:
        yield "lowest scores of rows to hold:"
        yield from map(_format_row, report.missed)
    yield ""


def _format_row(row: "WrongRow") -> str:
    return f"  {row.score:.2f}  {make_excerpt(row.text, 76)}"


def _format_settings(name: str, model: Path, surface: str) -> Iterator[str]:
    yield f"[guards.models.{name}]"
    yield 'kind = "trained"'
    yield f"file = {json.dumps(model.as_posix())}"
    yield f'surfaces = ["{surface}"]'
