"""`demur triage_logs`: count the refusals in logs of any size and format."""

import argparse
import json
import sys
import time
from argparse import Namespace

from demur.cli.main import Arguments, UsageError
from demur.cli.options import add_registry_option, parse_time, usage_errors
from demur.cli.terminal import Paint, format_table
from demur.cli.workspace import configured_registries
from demur.codes.loading import default_registry
from demur.codes.registry import Registry
from demur.errors import one_line
from demur.gate.clock import system_clock
from demur.triage.cluster import CLUSTERS, triage_on_cluster, write_parquet
from demur.triage.counts import (
    FORMATS,
    QUOTED,
    UNMAPPED,
    LineSample,
    RefusalCounts,
    TriageOptions,
)
from demur.triage.inputs import follow_logs, plan_work
from demur.triage.report import (
    GROUPINGS,
    TriageLimit,
    count_code_surfaces,
    counts_csv,
    counts_json,
    group_counts,
    largest_groups,
    unknown_codes,
)
from demur.triage.run import ProgressBar, format_size, triage_logs
from demur.triage.suggest import list_suggestions

__all__ = ["configure_triage", "run_triage"]

OVER_LIMIT = 3
_LOCAL_ENGINE = "local"
_SHOWN_SUGGESTIONS = 20
_CLEAR_SCREEN = "\x1b[H\x1b[2J"


def configure_triage(add: Arguments) -> None:
    """Add the command's arguments."""
    add("paths PATH...", "files, folders, globs; `-` is standard input")
    add(
        "--by NAME",
        f"group by {', '.join(GROUPINGS)}; several with commas (default: code)",
        type=_parse_groupings,
        default=("code",),
    )
    add("--since TIME", "ignore older lines, like 7d or a date")
    add("--until TIME", "ignore lines from this time on")
    add("--top N", "show only the largest groups", type=_parse_positive)
    add("--sample N", "show examples of each code", type=_parse_count, default=0)
    add("--suggest", "also list lines that sound like a refusal and that no phrase maps")
    add("--format", "the format of the logs", choices=FORMATS, default="auto")
    add("--field PATH ...", "the message field of JSON lines, like `log.message`; repeatable")
    form = add.either()
    form("--json", "one JSON object (with --follow: one per line)")
    form("--csv", "the groups as CSV")
    add("--parquet FILE", "also write all counts to a Parquet file")
    add(
        "--fail-over LIMIT ...",
        f"exit with {OVER_LIMIT} if e.g. `RCE_RISK>0`, `unknown>0`, `RATE_LIMIT>10%%`; repeatable",
    )
    add(
        "--engine",
        "read the logs on this machine, or on a cluster",
        choices=(_LOCAL_ENGINE, *CLUSTERS),
        default=_LOCAL_ENGINE,
    )
    add("--jobs N", "processes (default: one per core)", type=_parse_positive)
    add("--follow", "keep reading as the logs grow; stop with Ctrl-C")
    add("--interval S", "seconds between reads (default: 1)", type=float, default=1.0)
    add_registry_option(add)


def run_triage(args: Namespace) -> int:
    """Count, print, and check the counts against the limits."""
    registries = (*args.registry, *configured_registries())
    registry = default_registry(*registries)
    if args.engine != _LOCAL_ENGINE and (args.follow or args.jobs):
        option = "--follow" if args.follow else "--jobs"
        raise UsageError(f"`{option}` works on this machine only, not with `{args.engine}`")
    with usage_errors():
        limits = [TriageLimit.parse(text, registry) for text in args.fail_over]
    if not args.suggest and any(limit.name == UNMAPPED for limit in limits):
        raise UsageError("`unmapped` is not counted", help="add `--suggest`")
    options = _build_options(args, registries)
    counts = _follow(args, options, registry) if args.follow else _count_refusals(args, options)
    if not args.follow:
        print(_format_counts(counts, args, registry), end="")
    if args.parquet:
        write_parquet(counts, args.parquet, registry)
    for file, reason in counts.unread:
        print(one_line(f"{file}: {reason}"), file=sys.stderr)
    if limits and not counts.size and not counts.unread:
        raise UsageError("no input, so demur checked no limit", where=", ".join(args.paths))
    over = [limit for limit in limits if limit.is_exceeded(counts, registry)]
    for limit in over:
        value = limit.measured_value(counts, registry)
        print(f"over the limit: {limit} (it is {value:.6g})", file=sys.stderr)
    return OVER_LIMIT if over else int(bool(counts.unread))


def _build_options(args: Namespace, registries: tuple[str, ...]) -> TriageOptions:
    now = system_clock()
    since = None if args.since is None else parse_time(args.since, now)
    until = None if args.until is None else parse_time(args.until, now)
    if since is not None and until is not None and until <= since:
        help_text = "--until is exclusive"
        raise UsageError("the period from --since to --until is empty", help=help_text)
    timed = not {"hour", "day"}.isdisjoint(args.by) or args.parquet is not None
    return TriageOptions(
        registries=registries,
        format=args.format,
        fields=tuple(args.field),
        timed=timed,
        since=since,
        until=until,
        now=now,
        samples=args.sample,
        suggest=args.suggest,
    )


def _count_refusals(args: Namespace, options: TriageOptions) -> RefusalCounts:
    work = plan_work(args.paths)
    if args.engine != _LOCAL_ENGINE:
        return triage_on_cluster(work, options, engine=args.engine)
    if not sys.stderr.isatty():
        return triage_logs(work, options, jobs=args.jobs)
    bar = ProgressBar(sys.stderr, work.size, time.monotonic)
    try:
        return triage_logs(work, options, jobs=args.jobs, progress=bar)
    finally:
        bar.close()


def _follow(args: Namespace, options: TriageOptions, registry: Registry) -> RefusalCounts:
    """Print the counts whenever they change, until Ctrl-C; return the last."""

    def wait() -> bool:
        time.sleep(max(args.interval, 0.01))
        return True

    counts = RefusalCounts()
    clear = _CLEAR_SCREEN if sys.stdout.isatty() and not (args.json or args.csv) else ""
    try:
        for counts in follow_logs(args.paths, options, wait=wait):
            print(clear + _format_counts(counts, args, registry, compact=True), end="", flush=True)
    except KeyboardInterrupt:
        pass
    return counts


def _format_counts(
    counts: RefusalCounts, args: Namespace, registry: Registry, *, compact: bool = False
) -> str:
    if args.json:
        document = counts_json(counts, args.by, registry, top=args.top)
        return json.dumps(document, indent=None if compact else 2) + "\n"
    if args.csv:
        return counts_csv(counts, args.by, registry, top=args.top)
    total = counts.count_kinds()
    files = _count_noun(counts.files, "file")
    facts = [f"{_count_noun(total, 'refusal')} in {files}, {format_size(counts.size)}"]
    if counts.cut:
        facts.append(f"{_count_noun(counts.cut, 'line')} too long to be read completely")
    if counts.undated:
        facts.append(f"{_count_noun(counts.undated, 'refusal')} without a time left out")
    if "surface" in args.by and (implied := count_code_surfaces(counts, registry)):
        facts.append(f"{implied} with the only surface of their code")
    if counts.unread:
        facts.append(f"{len(counts.unread)} not read or not to the end")
    return "\n".join([*_format_tables(counts, args, registry), "; ".join(facts)]) + "\n"


def _format_tables(counts: RefusalCounts, args: Namespace, registry: Registry) -> list[str]:
    paint = Paint()
    found = group_counts(counts, args.by, registry)
    by_code = tuple(args.by) == ("code",)
    rows = []
    for group in largest_groups(found, args.top):
        entry = registry.get(group.names[0]) if by_code else None
        names = [*group.names, *([str(entry and entry.refusal_class)] if by_code else [])]
        numbers = [str(group.canonical), str(group.legacy), str(group.total_count)]
        rows.append([*names, *numbers, f"{group.share:.1%}"])
    head = [*args.by, *(["class"] if by_code else []), "canonical", "legacy", "total", "share"]
    parts = [format_table(rows, head, paint)] if rows else []
    if len(found) > len(rows):
        parts.append(f"and {len(found) - len(rows)} more")
    for title, kind in (("unknown code", "unknown"), ("quoted, not counted", QUOTED)):
        others = unknown_codes(counts, kind)[: args.top]
        if others:
            parts += [
                "",
                format_table([(code, str(n)) for code, n in others], (title, "number"), paint),
            ]
    if args.suggest:
        parts += _format_suggestions(counts, registry, args.top or _SHOWN_SUGGESTIONS, paint)
    shown = [
        (code, kind, f"{sample.file}:{sample.offset}", sample.text)
        for (code, kind), samples in counts.samples.items()
        for sample in samples
        if kind != UNMAPPED
    ]
    if shown:
        parts += ["", format_table(shown, ("example of", "kind", "file:byte", "line"), paint)]
    return [*parts[parts[0] == "" :], ""] if parts else []


def _format_suggestions(
    counts: RefusalCounts, registry: Registry, top: int, paint: Paint
) -> list[str]:
    found = list_suggestions(counts, registry)
    if not found:
        return []
    rows = [
        (one.pattern, str(one.number), one.nearest or "-", _format_place(one.sample))
        for one in found[:top]
    ]
    more = [f"and {len(found) - top} more"] if len(found) > top else []
    head = ("sounds like a refusal", "number", "nearest code", "first at")
    return ["", format_table(rows, head, paint), *more]


def _format_place(sample: LineSample | None) -> str:
    return "-" if sample is None else f"{sample.file}:{sample.offset}"


def _count_noun(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _parse_groupings(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    for name in names:
        if name not in GROUPINGS:
            raise argparse.ArgumentTypeError(f"`{name}` is not one of {', '.join(GROUPINGS)}")
    return names


def _parse_positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"`{text}` is not a positive number")
    return int(text)


def _parse_count(text: str) -> int:
    return 0 if text == "0" else _parse_positive(text)
