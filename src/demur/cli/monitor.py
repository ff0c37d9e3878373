"""`demur monitor`: show live decisions and top codes in a terminal."""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from demur.audit.story import format_amount
from demur.cli.terminal import Paint, format_table
from demur.cli.workspace import (
    add_config_option,
    add_tenant_option,
    open_existing_store,
    load_settings,
)
from demur.codes.vocabulary import Verdict
from demur.errors import InputError, one_line
from demur.gate.clock import system_clock, format_timestamp
from demur.model.record import DecisionRecord
from demur.store.backend import RecordFilter
from demur.store.store import Store
from demur.store.tally import hours_back

__all__ = ["configure_monitor", "run_monitor"]

_CLEAR_SCREEN = "\x1b[H\x1b[J"
_SPARK_BLOCKS = " ▁▂▃▄▅▆▇█"
_BAR_WIDTH = 24
_VERDICT_COLOURS = {
    Verdict.ALLOW: "green",
    Verdict.ESCALATE: "yellow",
    Verdict.DENY: "red",
    Verdict.ABSTAIN: "blue",
}
_MAX_HOURS = 24 * 31


class _MonitorSnapshot(NamedTuple):
    """The data of one screen: counts of a period, and the newest decisions."""

    now: datetime
    hours: int
    verdicts: Counter[str]
    codes: Counter[str]
    by_hour: list[int]
    newest: list[DecisionRecord]


def configure_monitor(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "press Ctrl-C to stop; counts are by hour in UTC and include the current hour"
    parser.add_argument("--hours", type=int, default=24, help="hours to count (24)")
    parser.add_argument(
        "--every", type=float, default=2.0, metavar="S", help="seconds between updates (2)"
    )
    parser.add_argument("--rows", type=int, default=12, help="number of decisions and codes (12)")
    parser.add_argument("--once", action="store_true", help="print one screen and exit")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    add_tenant_option(parser)
    add_config_option(parser)


def run_monitor(args: argparse.Namespace) -> int:
    """Show decisions until Ctrl-C."""
    if not 1 <= args.hours <= _MAX_HOURS:
        raise InputError(f"--hours must be from 1 to {_MAX_HOURS}, not `{args.hours}`")
    if not 0.1 <= args.every <= 3600:
        raise InputError(f"--every must be from 0.1 to 3600 seconds, not `{args.every:g}`")
    if not 1 <= args.rows <= 200:
        raise InputError(f"--rows must be from 1 to 200, not `{args.rows}`")
    with open_existing_store(load_settings(args)) as store:
        try:
            _refresh_screen(store, args)
        except KeyboardInterrupt:
            print()
    return 0


def _refresh_screen(store: Store, args: argparse.Namespace) -> None:
    paint = Paint()
    live = not args.once and not args.json and sys.stdout.isatty()
    while True:
        seen = _take_snapshot(store, args)
        if args.json:
            print(json.dumps(_snapshot_to_json(seen)), flush=True)
        else:
            screen = "\n".join(_draw_screen(seen, args.rows, paint))
            print(f"{_CLEAR_SCREEN}{screen}" if live else screen, flush=True)
        if args.once:
            return
        time.sleep(args.every)


def _take_snapshot(store: Store, args: argparse.Namespace) -> _MonitorSnapshot:
    now = system_clock()
    since = hours_back(now, args.hours)
    counted = store.read_tallies(args.tenant, since, now)
    verdicts: Counter[str] = Counter()
    hours: Counter[str] = Counter()
    for decision in counted.decisions:
        verdicts[decision.verdict] += decision.number
        hours[decision.hour] += decision.number
    codes: Counter[str] = Counter()
    for reason in counted.reasons:
        codes[reason.reason_code] += reason.number
    wanted = RecordFilter(tenant=args.tenant)
    names = [format_timestamp(since + timedelta(hours=back))[:13] for back in range(args.hours)]
    return _MonitorSnapshot(
        now=now,
        hours=args.hours,
        verdicts=verdicts,
        codes=codes,
        by_hour=[hours[name] for name in names],
        newest=list(store.find_records(wanted, newest_first=True, limit=args.rows)),
    )


def _draw_screen(seen: _MonitorSnapshot, rows: int, paint: Paint) -> Iterator[str]:
    total = seen.verdicts.total()
    head = f"demur monitor  {seen.now:%Y-%m-%d %H:%M:%S} UTC  last {seen.hours} h"
    yield paint(head, "bold")
    yield f"{total:,} decisions  {_draw_sparkline(seen.by_hour)}"
    yield "  ".join(_verdict_shares(seen.verdicts, total, paint)) or paint(
        "no decisions yet", "dim"
    )
    yield ""
    if seen.codes:
        yield format_table(
            _top_codes(seen.codes, total, rows), ("REASON", "COUNT", "OF ALL", ""), paint
        )
        yield ""
    if seen.newest:
        yield format_table(
            (_decision_row(record) for record in seen.newest),
            ("TIME (UTC)", "VERDICT", "ACTION", "CODES", "DECISION"),
            paint,
        )
    else:
        yield paint("`demur decide` makes a decision; `demur serve` takes them over HTTP", "dim")


def _verdict_shares(verdicts: Counter[str], total: int, paint: Paint) -> Iterator[str]:
    for verdict, colour in _VERDICT_COLOURS.items():
        count = verdicts[verdict]
        if count:
            yield paint(f"{verdict} {count:,} ({100 * count / total:.1f} %)", colour)


def _top_codes(codes: Counter[str], total: int, rows: int) -> Iterator[tuple[str, str, str, str]]:
    ordered = sorted(codes.items(), key=lambda item: (-item[1], item[0]))
    for code, count in ordered[:rows]:
        share = count / total if total else 0.0
        bar = "█" * max(1, round(_BAR_WIDTH * count / ordered[0][1]))
        yield code, f"{count:,}", f"{100 * share:.1f} %", bar


def _decision_row(record: DecisionRecord) -> tuple[str, ...]:
    verdict = record.verdict if record.enforced else f"{record.verdict} (advisory)"
    action = one_line(f"{record.action_type} {format_amount(record)}".rstrip())[:40]
    codes = ", ".join(record.reason_codes)[:60]
    return record.created_at[11:19], verdict, action, codes, record.decision_id


def _draw_sparkline(counts: Sequence[int]) -> str:
    most = max(counts, default=0)
    if not most:
        return ""
    steps = len(_SPARK_BLOCKS) - 1
    return "".join(_SPARK_BLOCKS[-(-count * steps // most)] for count in counts)


def _snapshot_to_json(seen: _MonitorSnapshot) -> dict[str, Any]:
    return {
        "at": format_timestamp(seen.now),
        "hours": seen.hours,
        "decisions": seen.verdicts.total(),
        "verdicts": dict(seen.verdicts),
        "reason_codes": dict(seen.codes.most_common()),
        "by_hour": seen.by_hour,
        "newest": [record.decision_id for record in seen.newest],
    }
