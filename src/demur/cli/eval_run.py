"""`demur eval run`: put a suite to a target; a run that was stopped goes on."""

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
from demur.evals.run import Run, open_run, run_suite
from demur.evals.run_manifest import RunError
from demur.evals.run_progress import progress_for
from demur.evals.suite import Suite, load_suite
from demur.evals.targets.opening import FORMS, open_target

__all__ = ["configure", "run"]

UNJUDGED = 6
INTERRUPTED = 130
_FOLDER = "runs"
_EPILOG = (
    "exit: 0 every row was answered; 1 an error; 2 usage; 6 some rows have an error instead of"
    " an answer: the same command asks them again; 130 interrupted: the same command goes on"
)
# Options of targets that have a word of their own; the others are given by --set.
_OWN: dict[str, tuple[str, str]] = {
    "model": ("NAME", "the model to ask for"),
    "api_key_env": ("VARIABLE", "the environment variable that holds the endpoint's key"),
    "system": ("TEXT", "a system prompt"),
    "temperature": ("NUMBER", "passed on to the model"),
    "max_tokens": ("NUMBER", "passed on to the model"),
    "rate": ("NUMBER", "at most so many requests a second"),
    "retries": ("NUMBER", "how often a request that failed is sent again (4)"),
    "timeout_s": ("SECONDS", "how long an answer may take (60)"),
    "price_in": ("PRICE", "for a million tokens that are asked"),
    "price_out": ("PRICE", "for a million tokens that are answered"),
    "persona": ("NAME", "of demur-testing-server: balanced, over-refusing, under-refusing, echo"),
    "behind": ("TARGET", "what stands behind `guards` or a `policy`"),
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "--suite", default="builtin", metavar="SUITE", help="a built-in suite's name, or a file"
    )
    parser.add_argument(
        "--target", required=True, metavar="TARGET", help=f"one of {', '.join(FORMS)}"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help=f"where the run is kept; `{_FOLDER}/SUITE-TARGET` if not given",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="ask at most so many rows")
    parser.add_argument(
        "--seed", type=int, metavar="N", help="draw the rows by this number, twins together"
    )
    parser.add_argument(
        "--concurrency", type=int, default=16, metavar="N", help="rows under way at once (16)"
    )
    parser.add_argument(
        "--cache", type=Path, metavar="FOLDER", help="use answers of earlier runs kept here"
    )
    for name, (metavar, text) in _OWN.items():
        parser.add_argument(f"--{name.replace('_', '-')}", metavar=metavar, help=text)
    parser.add_argument("--stream", action="store_const", const=True, help="ask for a stream")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="any other option of the target; may be given often",
    )
    parser.add_argument(
        "--engine", choices=("local", "ray"), default="local", help="where rows are asked (local)"
    )
    parser.add_argument("--parts", type=int, default=4, metavar="N", help="of ray: at once (4)")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(args: argparse.Namespace) -> int:
    """Run, or go on, and say how it ended."""
    suite = load_suite(args.suite)
    options = _options(args)
    folder: Path = args.out or Path(_FOLDER) / _name(suite, args.target, options)
    try:
        done = _asked(args, suite, options, folder)
    except KeyboardInterrupt:
        return _interrupted(folder)
    counts = _Counts(done)
    if args.json:
        print(json.dumps({"folder": str(folder), **counts.as_json}, indent=2))
    else:
        counts.print(folder)
    return UNJUDGED if counts.errors else 0


def _asked(args: argparse.Namespace, suite: Suite, options: dict[str, Any], folder: Path) -> Run:
    settings: dict[str, Any] = {
        "concurrency": args.concurrency,
        "limit": args.limit,
        "seed": args.seed,
        "progress": None if args.quiet else progress_for(sys.stderr),
    }
    if args.engine == "local":
        asking = _here(args.target, options, suite, folder, cache=args.cache, **settings)
        return asyncio.run(asking)
    if args.cache is not None:
        raise InputError("a distributed run has no cache", where="--cache")
    engine = ray_engine(args.parts)
    return run_distributed(
        suite, args.target, options, folder, engine=engine, parts_at_once=args.parts, **settings
    )


async def _here(
    spec: str, options: dict[str, Any], suite: Suite, folder: Path, **settings: Any
) -> Run:
    target = open_target(spec, **options)
    try:
        return await run_suite(suite, target, folder, **settings)
    finally:
        await target.close()


def _options(args: argparse.Namespace) -> dict[str, Any]:
    given = {name: getattr(args, name) for name in (*_OWN, "stream")}
    options = {name: value for name, value in given.items() if value is not None}
    for pair in args.set:
        name, found, value = pair.partition("=")
        if not found:
            raise InputError(f"no option: `{pair}`", where="--set", help="like `timeout_s=5`")
        options[name.replace("-", "_")] = value
    return options


def _name(suite: Suite, target: str, options: dict[str, Any]) -> str:
    """Return the usual name of a run's folder, the same for the same command."""
    words = [suite.name, target.partition("://")[2] or target]
    words += [str(options[name]) for name in ("model", "persona") if name in options]
    return re.sub(r"[^\w.]+", "-", "-".join(words)).strip("-.")[:100]


def _interrupted(folder: Path) -> int:
    try:
        stopped = open_run(folder)
        done = sum(answer.error is None for answer in stopped.answers())
        print(
            f"stopped: {done} of {stopped.manifest.rows} rows are answered; "
            "the same command goes on",
            file=sys.stderr,
        )
    except RunError:
        print("stopped before anything was answered", file=sys.stderr)
    return INTERRUPTED


class _Counts:
    """What a run holds, for the last lines."""

    def __init__(self, done: Run) -> None:
        self.manifest = done.manifest
        self.answers = self.attempts = self.tokens_in = self.tokens_out = 0
        self.cost = 0.0
        self.kinds: Counter[str] = Counter()
        self.first: str | None = None
        for answer in done.answers():
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
        """How many rows have an error instead of an answer."""
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

    def print(self, folder: Path) -> None:
        """Print the counts, and the way on."""
        paint = Paint()
        suite, target = self.manifest.suite, self.manifest.target
        print(
            f"suite   {one_line(suite.name)} {one_line(suite.version)}, {self.manifest.rows} rows"
        )
        print(f"target  {one_line(target.name)}")
        print(f"answers {self.answers - self.errors}{self._used()}")
        if self.errors:
            kinds = ", ".join(f"{kind} {count}" for kind, count in self.kinds.most_common())
            print(f"errors  {self.errors} ({kinds}); the same command asks them again")
            print(f"        first: {one_line(self.first or '')}")
        print(f"run     {one_line(str(folder))}")
        print(paint(f"now: demur eval report {one_line(str(folder))}", "dim"))

    def _used(self) -> str:
        parts = []
        if self.tokens_in or self.tokens_out:
            parts.append(f"{self.tokens_in} + {self.tokens_out} tokens")
        if self.cost:
            parts.append(f"cost {self.cost:.4f}")
        return f" ({', '.join(parts)})" if parts else ""
