"""`demur eval run`, `eval suites` and `eval import`: run suites against a target."""

import asyncio
import json
import re
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from demur.cli.main import Arguments, UsageError
from demur.cli.options import parse_pairs, usage_errors
from demur.cli.terminal import Paint, format_table, wrap_text
from demur.cli.workspace import add_config_option
from demur.errors import InputError, Problem, one_line
from demur.evals.distributed import ray_engine, run_distributed
from demur.evals.importers import open_import, suite_layouts
from demur.evals.run import make_progress, run_suite
from demur.evals.run_files import RunError
from demur.evals.run_folder import EvalRun, open_run
from demur.evals.suite import EvalSuite, builtin_suites, drop_repeated, load_suite, row_lines
from demur.evals.suite_file import NAME_PATTERN, SuiteHeader
from demur.evals.suite_row import EvalRow, LocatedRow
from demur.evals.targets import TARGET_FORMS, open_target
from demur.gate.config import find_config

UNJUDGED = 6
INTERRUPTED = 130
_RUNS_FOLDER = "runs"
# The targets to which `[guards]` of the settings file applies.
_GUARDED_TARGETS = ("guards", "policy")
# Options of targets that have an argument of their own; --set takes the others.
_TARGET_OPTIONS: dict[str, tuple[str, str]] = {
    "model": ("NAME", "the model to ask for"),
    "api_key_env": ("VARIABLE", "the environment variable that holds the endpoint's key"),
    "system": ("TEXT", "a system prompt"),
    "temperature": ("NUMBER", "passed on to the model"),
    "max_tokens": ("NUMBER", "passed on to the model"),
    "rate": ("NUMBER", "maximum requests per second"),
    "retries": ("NUMBER", "retries of a failed request (4)"),
    "timeout_s": ("SECONDS", "timeout of an answer (60)"),
    "price_in": ("PRICE", "price of a million prompt tokens"),
    "price_out": ("PRICE", "price of a million completion tokens"),
    "persona": ("NAME", "of demur-testing-server: balanced, over-refusing, under-refusing, echo"),
    "behind": ("TARGET", "the target behind `guards` or a `policy`"),
}


def configure_eval_run(add: Arguments) -> None:
    """Add the command's arguments."""
    add("--suite SUITE", "a built-in suite's name, or a file", default="builtin")
    add("--target TARGET", f"one of {', '.join(TARGET_FORMS)}", required=True)
    add("--out FOLDER", f"the folder of the run; default: `{_RUNS_FOLDER}/SUITE-TARGET`", type=Path)
    add("--limit N", "maximum number of rows", type=int)
    add("--seed N", "sample the rows with this seed, twins together", type=int)
    add("--concurrency N", "concurrent rows (16)", default=16)
    add("--cache FOLDER", "reuse answers of earlier runs from this folder", type=Path)
    for name, (metavar, text) in _TARGET_OPTIONS.items():
        add(f"--{name.replace('_', '-')} {metavar}", text)
    add("--stream", "ask for a stream", action="store_const", const=True)
    add_config_option(add)
    add("--set NAME=VALUE ...", "any other option of the target; repeatable")
    add("--engine", "where to run (local)", choices=("local", "ray"), default="local")
    add("--parts N", "with ray: concurrent parts (4)", default=4)
    add("--quiet", "hide the progress bar")
    add("--json", "one JSON object")


def run_eval_run(args: Namespace) -> int:
    """Run or resume, and print a summary."""
    with usage_errors("unknown suite"):
        suite = load_suite(args.suite)
    options = _target_options(args)
    folder: Path = args.out or Path(_RUNS_FOLDER) / _folder_name(suite, args.target, options)
    try:
        done = _ask_suite(args, suite, options, folder)
    except KeyboardInterrupt:
        return _report_interruption(folder)
    counts = _RunCounts(done)
    if args.json:
        print(json.dumps({"folder": str(folder), **counts.as_json}, indent=2))
    else:
        counts.print_summary(folder)
    return UNJUDGED if counts.errors else 0


def _ask_suite(args: Namespace, suite: EvalSuite, options: dict[str, Any], folder: Path) -> EvalRun:
    settings: dict[str, Any] = {
        "concurrency": args.concurrency,
        "limit": args.limit,
        "seed": args.seed,
        "progress": None if args.quiet else make_progress(sys.stderr),
    }
    if args.engine == "local":
        asking = _run_locally(args.target, options, suite, folder, cache=args.cache, **settings)
        return asyncio.run(asking)
    if args.cache is not None:
        raise UsageError("--engine ray does not support --cache", where="--cache")
    engine = ray_engine(args.parts)
    return run_distributed(
        suite, args.target, options, folder, engine=engine, parts_at_once=args.parts, **settings
    )


async def _run_locally(
    spec: str, options: dict[str, Any], suite: EvalSuite, folder: Path, **settings: Any
) -> EvalRun:
    with usage_errors("unknown target"):
        target = open_target(spec, **options)
    try:
        return await run_suite(suite, target, folder, **settings)
    finally:
        await target.close()


def _target_options(args: Namespace) -> dict[str, Any]:
    named = {name: getattr(args, name) for name in (*_TARGET_OPTIONS, "stream")}
    options = {name: value for name, value in named.items() if value is not None}
    guarded = args.target.partition(":")[0] in _GUARDED_TARGETS
    path = args.config or (find_config() if guarded else None)
    if path is not None:
        options["config"] = str(path.absolute())
    return {**options, **parse_pairs(args.set, "--set", "timeout_s=5")}


def _folder_name(suite: EvalSuite, target: str, options: dict[str, Any]) -> str:
    """Return the default name of a run's folder; the same command gets the same name."""
    words = [suite.name, target.partition("://")[2] or target]
    words += [str(options[name]) for name in ("model", "persona") if name in options]
    return re.sub(r"[^\w.]+", "-", "-".join(words)).strip("-.")[:100]


def _report_interruption(folder: Path) -> int:
    try:
        stopped = open_run(folder)
        done = sum(answer.error is None for answer in stopped.iter_answers())
        print(
            f"stopped: {done} of {stopped.manifest.rows} rows are answered; "
            "run the same command again to resume",
            file=sys.stderr,
        )
    except RunError:
        print("stopped before anything was answered", file=sys.stderr)
    return INTERRUPTED


class _RunCounts:
    """Counts of a run, for its summary."""

    def __init__(self, done: EvalRun) -> None:
        self.manifest = done.manifest
        self.answers = self.attempts = self.tokens_in = self.tokens_out = 0
        self.cost = 0.0
        self.kinds: Counter[str] = Counter()
        self.first: str | None = None
        for answer in done.iter_answers():
            self.answers += 1
            self.attempts += answer.attempts
            self.tokens_in += answer.prompt_tokens
            self.tokens_out += answer.completion_tokens
            self.cost += answer.cost
            if answer.error is not None:
                self.kinds[str(answer.error_kind)] += 1
                self.first = self.first or f"{answer.row_id}: {answer.error}"

    @property
    def errors(self) -> int:
        """The number of rows with an error instead of an answer."""
        return self.kinds.total()

    @property
    def as_json(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "suite": self.manifest.suite.name,
            "target": self.manifest.target.name,
            "rows": self.manifest.rows,
            "answers": self.answers - self.errors,
            "errors": dict(self.kinds),
            "requests": self.attempts,
            "prompt_tokens": self.tokens_in,
            "completion_tokens": self.tokens_out,
            "cost": round(self.cost, 6),
        }

    def print_summary(self, folder: Path) -> None:
        """Print the counts and the next command."""
        paint = Paint()
        suite, target = self.manifest.suite, self.manifest.target
        print(
            f"suite   {one_line(suite.name)} {one_line(suite.version)}, {self.manifest.rows} rows"
        )
        print(f"target  {one_line(target.name)}")
        print(f"answers {self.answers - self.errors}{self._describe_usage()}")
        if self.errors:
            kinds = ", ".join(f"{kind} {count}" for kind, count in self.kinds.most_common())
            print(f"errors  {self.errors} ({kinds}); run the same command again to retry them")
            print(f"        first: {one_line(self.first or '')}")
        print(f"run     {one_line(str(folder))}")
        print(paint(f"now: demur eval report {one_line(str(folder))}", "dim"))

    def _describe_usage(self) -> str:
        parts = []
        if self.tokens_in or self.tokens_out:
            parts.append(f"{self.tokens_in} + {self.tokens_out} tokens")
        if self.cost:
            parts.append(f"cost {self.cost:.4f}")
        return f" ({', '.join(parts)})" if parts else ""


_COUNTED_FIELDS = ("label", "pattern", "domain", "language", "category")


def configure_eval_suites(add: Arguments) -> None:
    """Add the command's arguments."""
    add("suite [SUITE]", "show this one: a built-in name or a file")
    add("--prompts", "show every row of SUITE, twins side by side")
    add("--json", "print JSON")


def run_eval_suites(args: Namespace) -> int:
    """Print all suites, or one."""
    paint = Paint()
    if args.suite is None:
        suites = [load_suite(name) for name in builtin_suites()]
        if args.json:
            print(json.dumps([_suite_to_json(suite) for suite in suites], indent=2))
        else:
            _print_suites(suites, paint)
        return 0
    with usage_errors("unknown suite"):
        suite = load_suite(args.suite)
    if args.json:
        print(json.dumps(_suite_to_json(suite, prompts=args.prompts), indent=2, ensure_ascii=False))
    elif args.prompts:
        for row in suite.rows:
            colour = "red" if row.label == "harmful" else "green"
            print(f"{paint(row.label, colour)} {one_line(row.id)}")
            print(wrap_text(one_line(row.prompt), "  "))
    else:
        print(f"{paint(one_line(suite.name), 'bold')} {one_line(suite.version)}")
        if suite.description:
            print(wrap_text(one_line(suite.description), "  "))
        print(paint(f"  {len(suite.rows)} rows, {suite.digest}", "dim"))
        for field, counts in _count_fields(suite).items():
            # A name and its count stay on one line.
            pairs = (f"{one_line(name)}\N{NO-BREAK SPACE}{count}" for name, count in counts.items())
            listed = wrap_text(", ".join(pairs), "  ").replace("\N{NO-BREAK SPACE}", " ")
            print(f"{field}\n{listed}")
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
                str(len(counts["pattern"].keys() - {"none"})),
                str(len(counts["domain"].keys() - {"none"})),
                " ".join(sorted(counts["language"])),
            )
        )
    head = ("suite", "rows", "legitimate", "harmful", "patterns", "domains", "languages")
    print(format_table(rows, head, paint))
    print(paint("`demur eval suites SUITE` shows one suite; SUITE may also be a file", "dim"))


_MAX_SHOWN_PROBLEMS = 20


class _ImportResult(NamedTuple):
    """The result of an import."""

    form: str
    labels: Counter[str]
    left_out: Counter[str]
    problems: list[Problem]


def configure_eval_import(add: Arguments) -> None:
    """Add the command's arguments."""
    add("file FILE", "the downloaded file", type=Path)
    layouts = ", ".join(layout.name for layout in suite_layouts())
    add("--format NAME", f"the format, if its columns are ambiguous: {layouts}", dest="form")
    add("--out SUITE", "write JSON lines to this file", type=Path, required=True)
    add("--name NAME", "the suite's name; default: the file's")
    add("--force", "replace an existing SUITE")
    add("--json", "one JSON object")


def run_eval_import(args: Namespace) -> int:
    """Write the suite; 1 if a record could not be read."""
    if args.out.exists() and not args.force:
        help_text = "choose another file, or replace it with `--force`"
        raise InputError("the file already exists", where=str(args.out), help=help_text)
    done = _import_rows(args, _suite_name(args))
    if args.json:
        print(json.dumps(_import_to_json(done), indent=2))
    else:
        paint = Paint()
        for problem in done.problems[:_MAX_SHOWN_PROBLEMS]:
            where = one_line(problem.where or "")
            print(f"{where}: {paint('not imported:', 'yellow')} {one_line(problem.problem)}")
        if len(done.problems) > _MAX_SHOWN_PROBLEMS:
            print(paint(f"and {len(done.problems) - _MAX_SHOWN_PROBLEMS} more", "dim"))
        for reason, count in done.left_out.items():
            print(f"{count} left out: {reason}")
        labels = ", ".join(f"{count} {label}" for label, count in sorted(done.labels.items()))
        bad = f"; {len(done.problems)} could not be read" if done.problems else ""
        total = done.labels.total()
        print(f"{done.form}: {total} row{'s' * (total != 1)} ({labels}){bad}")
        print(f"wrote {one_line(str(args.out))}")
    return int(bool(done.problems))


def _suite_name(args: Namespace) -> str:
    if args.name is not None:
        if not re.fullmatch(NAME_PATTERN, args.name):
            help_text = "small letters, digits, `-`, `_`, `.`"
            raise UsageError(f"`{args.name}` is not a valid suite name", help=help_text)
        return str(args.name)
    plain = re.sub(r"[^a-z0-9._-]+", "-", args.file.stem.casefold()).strip("-._")
    return plain[:100] or "imported"


def _import_rows(args: Namespace, name: str) -> _ImportResult:
    """Write the rows as they are read, to a `.part` file that is renamed when complete."""
    problems: list[Problem] = []
    left_out: Counter[str] = Counter()
    labels: Counter[str] = Counter()

    def note_left_out(reason: str) -> None:
        left_out[reason] += 1

    opened = open_import(args.file, problems.append, form=args.form, left_out=note_left_out)
    header = SuiteHeader(name, "1", f"Imported from {opened.layout.title}.")
    rows = _count_labels(drop_repeated(opened.rows, problems.append), labels)
    part = args.out.with_name(f"{args.out.name}.part")
    try:
        with part.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(row_lines(header, rows))
        if not labels:
            problem = f"none of the {len(problems) + left_out.total()} records became a row"
            first = str(problems[0]).splitlines()[0] if problems else None
            raise InputError(problem, where=str(args.file), help=first)
        part.replace(args.out)
    finally:
        part.unlink(missing_ok=True)
    return _ImportResult(opened.layout.name, labels, left_out, problems)


def _count_labels(rows: Iterator[LocatedRow], labels: Counter[str]) -> Iterator[EvalRow]:
    for placed in rows:
        labels[placed.row.label] += 1
        yield placed.row


def _import_to_json(done: _ImportResult) -> dict[str, object]:
    return {
        "format": done.form,
        "rows": done.labels.total(),
        "labels": dict(done.labels),
        "left_out": dict(done.left_out),
        "problems": [problem._asdict() for problem in done.problems],
    }
