"""`demur monitor`: show live decisions and top codes in a terminal."""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from demur.audit.story import amount_text
from demur.cli.terminal import Paint, table
from demur.cli.workspace import add_config, add_tenant, existing_store, settings
from demur.codes.vocabulary import Verdict
from demur.errors import InputError, one_line
from demur.gate.clock import system_clock, timestamp
from demur.model.record import DecisionRecord
from demur.store.backend import Filter
from demur.store.store import Store
from demur.store.tally import hours_back

__all__ = ["configure", "run"]

_HOME = "\x1b[H\x1b[J"
_BLOCKS = " ▁▂▃▄▅▆▇█"
_BAR = 24
_COLOURS = {
    Verdict.ALLOW: "green",
    Verdict.ESCALATE: "yellow",
    Verdict.DENY: "red",
    Verdict.ABSTAIN: "blue",
}
_MOST_HOURS = 24 * 31


class _Seen(NamedTuple):
    """The data of one screen: counts of a period, and the newest decisions."""

    now: datetime
    hours: int
    verdicts: Counter[str]
    codes: Counter[str]
    by_hour: list[int]
    newest: list[DecisionRecord]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "press Ctrl-C to stop; counts are by hour in UTC and include the current hour"
    parser.add_argument("--hours", type=int, default=24, help="hours to count (24)")
    parser.add_argument(
        "--every", type=float, default=2.0, metavar="S", help="seconds between updates (2)"
    )
    parser.add_argument("--rows", type=int, default=12, help="number of decisions and codes (12)")
    parser.add_argument("--once", action="store_true", help="print one screen and exit")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    add_tenant(parser)
    add_config(parser)


def run(args: argparse.Namespace) -> int:
    """Show decisions until Ctrl-C."""
    if not 1 <= args.hours <= _MOST_HOURS:
        raise InputError(f"--hours must be from 1 to {_MOST_HOURS}, not `{args.hours}`")
    if not 0.1 <= args.every <= 3600:
        raise InputError(f"--every must be from 0.1 to 3600 seconds, not `{args.every:g}`")
    if not 1 <= args.rows <= 200:
        raise InputError(f"--rows must be from 1 to 200, not `{args.rows}`")
    with existing_store(settings(args)) as store:
        try:
            _watch(store, args)
        except KeyboardInterrupt:
            print()
    return 0


def _watch(store: Store, args: argparse.Namespace) -> None:
    paint = Paint()
    live = not args.once and not args.json and sys.stdout.isatty()
    while True:
        seen = _look(store, args)
        if args.json:
            print(json.dumps(_plain(seen)), flush=True)
        else:
            screen = "\n".join(_screen(seen, args.rows, paint))
            print(f"{_HOME}{screen}" if live else screen, flush=True)
        if args.once:
            return
        time.sleep(args.every)


def _look(store: Store, args: argparse.Namespace) -> _Seen:
    now = system_clock()
    since = hours_back(now, args.hours)
    counted = store.tallies(args.tenant, since, now)
    verdicts: Counter[str] = Counter()
    hours: Counter[str] = Counter()
    for decision in counted.decisions:
        verdicts[decision.verdict] += decision.number
        hours[decision.hour] += decision.number
    codes: Counter[str] = Counter()
    for reason in counted.reasons:
        codes[reason.reason_code] += reason.number
    wanted = Filter(tenant=args.tenant)
    names = [timestamp(since + timedelta(hours=back))[:13] for back in range(args.hours)]
    return _Seen(
        now=now,
        hours=args.hours,
        verdicts=verdicts,
        codes=codes,
        by_hour=[hours[name] for name in names],
        newest=list(store.find(wanted, newest_first=True, limit=args.rows)),
    )


def _screen(seen: _Seen, rows: int, paint: Paint) -> Iterator[str]:
    total = seen.verdicts.total()
    head = f"demur monitor  {seen.now:%Y-%m-%d %H:%M:%S} UTC  last {seen.hours} h"
    yield paint(head, "bold")
    yield f"{total:,} decisions  {_spark(seen.by_hour)}"
    yield "  ".join(_mix(seen.verdicts, total, paint)) or paint("no decisions yet", "dim")
    yield ""
    if seen.codes:
        yield table(_top(seen.codes, total, rows), ("REASON", "COUNT", "OF ALL", ""), paint)
        yield ""
    if seen.newest:
        yield table(
            (_row(record) for record in seen.newest),
            ("TIME (UTC)", "VERDICT", "ACTION", "CODES", "DECISION"),
            paint,
        )
    else:
        yield paint("`demur decide` makes a decision; `demur serve` takes them over HTTP", "dim")


def _mix(verdicts: Counter[str], total: int, paint: Paint) -> Iterator[str]:
    for verdict, colour in _COLOURS.items():
        count = verdicts[verdict]
        if count:
            yield paint(f"{verdict} {count:,} ({100 * count / total:.1f} %)", colour)


def _top(codes: Counter[str], total: int, rows: int) -> Iterator[tuple[str, str, str, str]]:
    ordered = sorted(codes.items(), key=lambda item: (-item[1], item[0]))
    for code, count in ordered[:rows]:
        share = count / total if total else 0.0
        bar = "█" * max(1, round(_BAR * count / ordered[0][1]))
        yield code, f"{count:,}", f"{100 * share:.1f} %", bar


def _row(record: DecisionRecord) -> tuple[str, ...]:
    verdict = record.verdict if record.enforced else f"{record.verdict} (advisory)"
    action = one_line(f"{record.action_type} {amount_text(record)}".rstrip())[:40]
    codes = ", ".join(record.reason_codes)[:60]
    return record.created_at[11:19], verdict, action, codes, record.decision_id


def _spark(counts: Sequence[int]) -> str:
    most = max(counts, default=0)
    if not most:
        return ""
    steps = len(_BLOCKS) - 1
    return "".join(_BLOCKS[-(-count * steps // most)] for count in counts)


def _plain(seen: _Seen) -> dict[str, Any]:
    return {
        "at": timestamp(seen.now),
        "hours": seen.hours,
        "decisions": seen.verdicts.total(),
        "verdicts": dict(seen.verdicts),
        "reason_codes": dict(seen.codes.most_common()),
        "by_hour": seen.by_hour,
        "newest": [record.decision_id for record in seen.newest],
    }
