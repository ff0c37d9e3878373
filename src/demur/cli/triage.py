"""`demur triage`: count the refusals in logs of any size and format."""

import argparse
import json
import sys
import time
from collections.abc import Sequence

from demur.cli.configured import configured_registries
from demur.cli.moments import moment
from demur.cli.options import add_registry
from demur.cli.terminal import Paint, table
from demur.codes.default import default_registry
from demur.codes.registry import Registry
from demur.errors import InputError, one_line
from demur.gate.clock import system_clock
from demur.triage.arrow import write_parquet
from demur.triage.counts import QUOTED, Counts
from demur.triage.follow import follow
from demur.triage.inputs import plan
from demur.triage.on_cluster import CLUSTERS, triage_on_cluster
from demur.triage.options import FORMATS, Options
from demur.triage.progress import Bar, size_text
from demur.triage.report import GROUPINGS, as_csv, as_json, groups, unknown_codes
from demur.triage.run import triage
from demur.triage.thresholds import Threshold

__all__ = ["configure", "run"]

OVER = 3
_LOCAL = "local"
_CLEAR = "\x1b[H\x1b[2J"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="files, folders, globs; `-` is standard input"
    )
    parser.add_argument(
        "--by",
        type=_groupings,
        default=("code",),
        metavar="NAME",
        help=f"group by {', '.join(GROUPINGS)}; several with commas (default: code)",
    )
    parser.add_argument("--since", metavar="TIME", help="ignore older lines, like 7d or a date")
    parser.add_argument("--until", metavar="TIME", help="ignore lines from this time on")
    parser.add_argument("--top", type=_positive, metavar="N", help="show only the largest groups")
    parser.add_argument(
        "--sample", type=_count, default=0, metavar="N", help="show examples of each code"
    )
    parser.add_argument("--format", choices=FORMATS, default="auto", help="the format of the logs")
    parser.add_argument(
        "--field",
        action="append",
        default=[],
        metavar="PATH",
        help="the message field of JSON lines, like `log.message`; repeatable",
    )
    _add_outputs(parser)
    parser.add_argument(
        "--fail-over",
        action="append",
        default=[],
        metavar="LIMIT",
        help=f"exit with {OVER} if e.g. `RCE_RISK>0`, `unknown>0`, `RATE_LIMIT>10%%`; repeatable",
    )
    parser.add_argument(
        "--engine",
        choices=(_LOCAL, *CLUSTERS),
        default=_LOCAL,
        help="read the logs on this machine, or on a cluster",
    )
    parser.add_argument(
        "--jobs", type=_positive, metavar="N", help="processes (default: one per core)"
    )
    parser.add_argument(
        "--follow", action="store_true", help="keep reading as the logs grow; stop with Ctrl-C"
    )
    parser.add_argument(
        "--interval",
        type=float,
        default=1.0,
        metavar="S",
        help="seconds between reads (default: 1)",
    )
    add_registry(parser)


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--json", action="store_true", help="one JSON object (with --follow: one per line)"
    )
    form.add_argument("--csv", action="store_true", help="the groups as CSV")
    parser.add_argument("--parquet", metavar="FILE", help="also write all counts to a Parquet file")


def run(args: argparse.Namespace) -> int:
    """Count, print, and check the counts against the limits."""
    registries = (*args.registry, *configured_registries())
    registry = default_registry(*registries)
    _check(args)
    limits = [Threshold.parse(text, registry) for text in args.fail_over]
    options = _options(args, registries)
    counts = _followed(args, options, registry) if args.follow else _counted(args, options)
    if not args.follow:
        print(_shown(counts, args, registry), end="")
    if args.parquet:
        write_parquet(counts, args.parquet, registry)
    return _status(counts, limits, registry)


def _check(args: argparse.Namespace) -> None:
    if args.engine != _LOCAL and (args.follow or args.jobs):
        option = "--follow" if args.follow else "--jobs"
        raise InputError(f"`{option}` works on this machine only, not with `{args.engine}`")


def _options(args: argparse.Namespace, registries: tuple[str, ...]) -> Options:
    now = system_clock()
    since = None if args.since is None else moment(args.since, now)
    until = None if args.until is None else moment(args.until, now)
    if since is not None and until is not None and until <= since:
        help_text = "--until is exclusive"
        raise InputError("the period from --since to --until is empty", help=help_text)
    timed = not {"hour", "day"}.isdisjoint(args.by) or args.parquet is not None
    return Options(
        registries=registries,
        format=args.format,
        fields=tuple(args.field),
        timed=timed,
        since=since,
        until=until,
        now=now,
        samples=args.sample,
    )


def _counted(args: argparse.Namespace, options: Options) -> Counts:
    work = plan(args.paths)
    if args.engine != _LOCAL:
        return triage_on_cluster(work, options, engine=args.engine)
    if not sys.stderr.isatty():
        return triage(work, options, jobs=args.jobs)
    bar = Bar(sys.stderr, work.size, time.monotonic)
    try:
        return triage(work, options, jobs=args.jobs, progress=bar)
    finally:
        bar.close()


def _followed(args: argparse.Namespace, options: Options, registry: Registry) -> Counts:
    """Print the counts whenever they change, until Ctrl-C; return the last."""

    def wait() -> bool:
        time.sleep(max(args.interval, 0.01))
        return True

    counts = Counts()
    clear = _CLEAR if sys.stdout.isatty() and not (args.json or args.csv) else ""
    try:
        for counts in follow(args.paths, options, wait=wait):
            print(clear + _shown(counts, args, registry, compact=True), end="", flush=True)
    except KeyboardInterrupt:
        pass
    return counts


def _status(counts: Counts, limits: Sequence[Threshold], registry: Registry) -> int:
    for file, reason in counts.unread:
        print(one_line(f"{file}: {reason}"), file=sys.stderr)
    over = [limit for limit in limits if limit.exceeded(counts, registry)]
    for limit in over:
        value = limit.value(counts, registry)
        print(f"over the limit: {limit} (it is {value:.6g})", file=sys.stderr)
    return OVER if over else int(bool(counts.unread))


def _shown(
    counts: Counts, args: argparse.Namespace, registry: Registry, *, compact: bool = False
) -> str:
    if args.json:
        document = as_json(counts, args.by, registry, top=args.top)
        return json.dumps(document, indent=None if compact else 2) + "\n"
    if args.csv:
        return as_csv(counts, args.by, registry, top=args.top)
    return "\n".join([*_tables(counts, args, registry), _summary(counts)]) + "\n"


def _tables(counts: Counts, args: argparse.Namespace, registry: Registry) -> list[str]:
    paint = Paint()
    found = groups(counts, args.by, registry)
    by_code = tuple(args.by) == ("code",)
    rows = []
    for group in found[: args.top]:
        entry = registry.get(group.names[0]) if by_code else None
        names = [*group.names, *([str(entry and entry.refusal_class)] if by_code else [])]
        numbers = [str(group.canonical), str(group.legacy), str(group.total)]
        rows.append([*names, *numbers, f"{group.share:.1%}"])
    head = [*args.by, *(["class"] if by_code else []), "canonical", "legacy", "total", "share"]
    parts = [table(rows, head, paint)] if rows else []
    if len(found) > len(rows):
        parts.append(f"and {len(found) - len(rows)} more")
    for title, kind in (("unknown code", "unknown"), ("quoted, not counted", QUOTED)):
        others = unknown_codes(counts, kind)[: args.top]
        if others:
            parts += ["", table([(code, str(n)) for code, n in others], (title, "number"), paint)]
    shown = [
        (code, kind, f"{sample.file}:{sample.offset}", sample.text)
        for (code, kind), samples in counts.samples.items()
        for sample in samples
    ]
    if shown:
        parts += ["", table(shown, ("example of", "kind", "file:byte", "line"), paint)]
    return [*parts[parts[0] == "" :], ""] if parts else []


def _summary(counts: Counts) -> str:
    total = counts.total()
    files = _number(counts.files, "file")
    facts = [f"{_number(total, 'refusal')} in {files}, {size_text(counts.size)}"]
    if counts.cut:
        facts.append(f"{_number(counts.cut, 'line')} too long to be read completely")
    if counts.undated:
        facts.append(f"{_number(counts.undated, 'refusal')} without a time left out")
    if counts.unread:
        facts.append(f"{len(counts.unread)} not read or not to the end")
    return "; ".join(facts)


def _number(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _groupings(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    for name in names:
        if name not in GROUPINGS:
            raise argparse.ArgumentTypeError(f"`{name}` is not one of {', '.join(GROUPINGS)}")
    return names


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"`{text}` is not a positive number")
    return int(text)


def _count(text: str) -> int:
    return 0 if text == "0" else _positive(text)
