"""`demur eval run_eval_run`: run a suite against a target, or resume a stopped run."""

import argparse
import asyncio
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from demur.cli.terminal import Paint
from demur.errors import InputError, one_line
from demur.evals.distributed import ray_engine, run_distributed
from demur.evals.run import EvalRun, open_run, run_suite
from demur.evals.run_manifest import RunError
from demur.evals.run_progress import make_progress
from demur.evals.suite import EvalSuite, load_suite
from demur.evals.targets.opening import TARGET_FORMS, open_target

__all__ = ["configure_eval_run", "run_eval_run"]

UNJUDGED = 6
INTERRUPTED = 130
_RUNS_FOLDER = "runs"
_RUN_EPILOG = (
    "exit: 0 every row was answered; 1 an error; 2 usage; 6 some rows failed: run the same"
    " command again to retry them; 130 interrupted: run the same command again to resume"
)
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


def configure_eval_run(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _RUN_EPILOG
    parser.add_argument(
        "--suite", default="builtin", metavar="SUITE", help="a built-in suite's name, or a file"
    )
    parser.add_argument(
        "--target", required=True, metavar="TARGET", help=f"one of {', '.join(TARGET_FORMS)}"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help=f"the folder of the run; default: `{_RUNS_FOLDER}/SUITE-TARGET`",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="maximum number of rows")
    parser.add_argument(
        "--seed", type=int, metavar="N", help="sample the rows with this seed, twins together"
    )
    parser.add_argument(
        "--concurrency", type=int, default=16, metavar="N", help="concurrent rows (16)"
    )
    parser.add_argument(
        "--cache",
        type=Path,
        metavar="FOLDER",
        help="reuse answers of earlier runs from this folder",
    )
    for name, (metavar, text) in _TARGET_OPTIONS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", metavar=metavar, help=text)
    parser.add_argument("--stream", action="store_const", const=True, help="ask for a stream")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="any other option of the target; repeatable",
    )
    parser.add_argument(
        "--engine", choices=("local", "ray"), default="local", help="where to run (local)"
    )
    parser.add_argument(
        "--parts", type=int, default=4, metavar="N", help="with ray: concurrent parts (4)"
    )
    parser.add_argument("--quiet", action="store_true", help="hide the progress bar")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run_eval_run(args: argparse.Namespace) -> int:
    """Run or resume, and print a summary."""
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


def _ask_suite(
    args: argparse.Namespace, suite: EvalSuite, options: dict[str, Any], folder: Path
) -> EvalRun:
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
        raise InputError("--engine ray does not support --cache", where="--cache")
    engine = ray_engine(args.parts)
    return run_distributed(
        suite, args.target, options, folder, engine=engine, parts_at_once=args.parts, **settings
    )


async def _run_locally(
    spec: str, options: dict[str, Any], suite: EvalSuite, folder: Path, **settings: Any
) -> EvalRun:
    target = open_target(spec, **options)
    try:
        return await run_suite(suite, target, folder, **settings)
    finally:
        await target.close()


def _target_options(args: argparse.Namespace) -> dict[str, Any]:
    given = {name: getattr(args, name) for name in (*_TARGET_OPTIONS, "stream")}
    options = {name: value for name, value in given.items() if value is not None}
    for pair in args.set:
        name, found, value = pair.partition("=")
        if not found:
            raise InputError(f"not an option: `{pair}`", where="--set", help="like `timeout_s=5`")
        options[name.replace("-", "_")] = value
    return options


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
