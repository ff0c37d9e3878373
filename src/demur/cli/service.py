"""`demur serve`, `demur keys` and `demur monitor`: run the HTTP service and watch decisions."""

import argparse
import json
import sys
import time
import webbrowser
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from http.client import HTTPConnection, HTTPException
from importlib import import_module
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from demur.audit.report import format_amount
from demur.cli.main import Arguments, UsageError
from demur.cli.options import parse_period, usage_errors
from demur.cli.terminal import Paint, format_table
from demur.cli.workspace import (
    add_config_option,
    add_tenant_option,
    config_path,
    load_settings,
    note_default_policy,
    open_existing_store,
)
from demur.codes.vocabulary import Verdict
from demur.errors import InputError, MissingExtraError, one_line
from demur.gate.clock import format_timestamp, system_clock
from demur.gate.config import CONFIG_NAME, Config, load_config, open_configured_store
from demur.model.record import DecisionRecord
from demur.service.authentication import KEY_ROLES, Role, make_key
from demur.service.settings import read_settings
from demur.store.backend import RecordFilter
from demur.store.rows import ApiKey, hours_back
from demur.store.store import Store


def configure_serve(add: Arguments) -> None:
    """Add the command's arguments."""
    add.epilog("SIGTERM finishes open requests first, a second SIGTERM stops at once")
    add("--host ADDRESS", "the address to listen on; all but loopback require API keys")
    add("--port N", "the port; 0 picks a free port", type=int)
    add("--workers N", "the number of worker processes", type=int)
    add(
        "--access-log",
        "write a line of JSON for each call to the standard error",
        action=argparse.BooleanOptionalAction,
        default=None,
    )
    add(
        "--sample",
        "first store a day of sample decisions, under the tenant `sample`",
        action=argparse.BooleanOptionalAction,
        default=False,
    )
    add("--json", "print one JSON object when the service listens")
    add_config_option(add)


def run_serve(args: Namespace) -> int:
    """Serve until a signal stops the service."""
    path = config_path(args)
    config = load_config(path)
    note_default_policy(config)
    read_settings(config.service)
    with usage_errors():
        settings = read_settings(
            config.service,
            host=args.host,
            port=args.port,
            workers=args.workers,
            access_log=args.access_log,
        )
    try:
        running = import_module("demur.service.supervisor")
    except ImportError as error:
        if (error.name or "").startswith("demur"):
            raise
        raise MissingExtraError(
            f"the service needs the `{error.name}` package", help="pip install 'demur[service]'"
        ) from error
    count = running.add_sample(config) if args.sample else 0
    page: str | None = getattr(args, "page", None)

    def announce(url: str) -> None:
        _announce_start(args, config, url, count)
        if page is not None:
            _open_browser(f"{url}{page}")

    running.run_service(path, config, settings, on_started=announce)
    return 0


def _announce_start(args: Namespace, config: Config, url: str, count: int) -> None:
    if args.json:
        print(json.dumps({"url": url, "store": config.store, "sample": count}), flush=True)
        return
    paint = Paint()
    if count:
        print(f"stored {count} sample decisions under the tenant `sample`")
    print(f"{paint('demur', 'bold')} listens on {paint(url, 'cyan')}")
    print(paint("  Ctrl-C stops it", "dim"), flush=True)


def open_page(args: Namespace, page: str) -> None:
    """Open a page of the dashboard in the browser; start the service if it does not run.

    Raises:
        MissingExtraError: The service must be started, and is not installed.
    """
    config = load_settings(args)
    settings = read_settings(config.service)
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104 - it is called, not bound
    url = f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"
    status = _fetch_status(f"{url}{page}")
    if status in _SERVED:
        _open_browser(f"{url}{page}")
        return
    # Something else listens there, or a service with another store: take a free port.
    port = None if status is None else 0
    extra = {"host": None, "port": port, "workers": None, "sample": False, "json": False}
    run_serve(Namespace(**{**vars(args), **extra, "access_log": None, "page": page}))


# A page that needs a key redirects to the login.
_SERVED = (200, 303)


def _fetch_status(url: str) -> int | None:
    """Return the status of a page, or None if nothing listens there."""
    address = urlsplit(url)
    connection = HTTPConnection(address.hostname or "", address.port, timeout=2)
    try:
        connection.request("GET", address.path)
        return connection.getresponse().status
    except (OSError, HTTPException) as error:
        return None if isinstance(error, ConnectionError) else 0
    finally:
        connection.close()


def _open_browser(url: str) -> None:
    print(url, flush=True)
    if not webbrowser.open(url):
        print("no browser can be started; open the page yourself, or set BROWSER", file=sys.stderr)


_KEY_FIELDS = ("key_id", "tenant", "created_at", "expires_at", "revoked_at", "note")


def configure_keys_list(add: Arguments) -> None:
    """Add the command's arguments."""
    add_tenant_option(add)
    add("--json", "one JSON object per key")
    add_config_option(add)


def run_keys_list(args: Namespace) -> int:
    """Print the keys."""
    with open_existing_store(load_settings(args)) as store:
        kept = store.list_keys()
    keys = [key for key in kept if args.tenant in {None, key.tenant}]
    if args.json:
        for key in keys:
            print(json.dumps(describe_key(key)))
        return 0
    paint = Paint()
    if not keys:
        print(paint("no keys; create one with `demur keys create`", "dim"))
        return 0
    now = format_timestamp(system_clock())
    head = ("KEY", "TENANT", "ROLES", "STATE", "NOTE")
    print(format_table((_key_row(key, now) for key in keys), head, paint))
    return 0


def describe_key(key: ApiKey) -> dict[str, Any]:
    """Return a key as JSON fields."""
    lists = {"roles": key.roles.split(), "subjects": key.subjects.splitlines()}
    return {**{name: getattr(key, name) for name in _KEY_FIELDS}, **lists}


def _key_row(key: ApiKey, now: str) -> tuple[str, ...]:
    if key.revoked_at is not None:
        state = f"revoked {key.revoked_at[:10]}"
    elif key.expires_at is not None:
        state = f"{'expired' if key.expires_at <= now else 'until'} {key.expires_at[:10]}"
    else:
        state = "never expires"
    return (key.key_id, one_line(key.tenant or "(all)"), key.roles, state, one_line(key.note))


def configure_keys_create(add: Arguments) -> None:
    """Add the command's arguments."""
    whose = add.either(required=True)
    whose("--tenant TENANT", "the tenant of the key")
    whose("--all-tenants", "a key for every tenant")
    add(
        "--role ROLE ...",
        "decide, read, label, or admin, which includes the others",
        required=True,
        choices=[str(role) for role in KEY_ROLES],
        default=None,
    )
    add(
        "--subject SUBJECT ...",
        "bind the key to a subject like `agent:billing`, so that grants to it count; `*` is any",
    )
    add("--expires PERIOD", "validity, like 30d, or never; default: `key_days` of the settings")
    add("--note TEXT", "a note on the key", default="")
    add("--json", "one JSON object")
    add_config_option(add)


def run_keys_create(args: Namespace) -> int:
    """Create a key and print it."""
    if args.tenant == "":
        raise UsageError(
            "--tenant must not be empty", help="--all-tenants creates a key for every tenant"
        )
    config = load_settings(args)
    lifetime: timedelta | None = timedelta(days=read_settings(config.service).key_days)
    if args.expires is not None:
        lifetime = None if args.expires == "never" else parse_period(args.expires)
    created = make_key(
        args.tenant or "",
        args.role,
        note=args.note,
        lifetime=lifetime,
        subjects=args.subject,
    )
    store = open_configured_store(config)
    if store is None:
        raise InputError(
            "the settings name no store to keep keys in",
            help=f'set `store = "demur.db"` in {CONFIG_NAME}',
        )
    with store:
        store.add_key(created.key)
    if args.json:
        print(json.dumps({"token": created.token, **describe_key(created.key)}))
        return 0
    paint = Paint()
    whose = f"tenant {created.key.tenant}" if created.key.tenant else "all tenants"
    until = created.key.expires_at or "it is revoked"
    print(paint(created.token, "bold"))
    print(f"  key {created.key.key_id} for {whose}: {created.key.roles}; good until {until}")
    if Role.DECIDE in args.role and not args.subject:
        note = "  grants do not count for it: --subject binds a key to the subjects of its holder"
        print(paint(note, "dim"))
    print(paint("  the key is shown once: only its digest is stored", "dim"))
    return 0


def configure_keys_revoke(add: Arguments) -> None:
    """Add the command's arguments."""
    add("key_id KEY", "the id: the middle part of the key")
    add("--json", "one JSON object")
    add_config_option(add)


def run_keys_revoke(args: Namespace) -> int:
    """Revoke a key."""
    now = format_timestamp(system_clock())
    with open_existing_store(load_settings(args)) as store:
        if not store.revoke_key(args.key_id, now):
            raise InputError(
                f"there is no key `{args.key_id}` to revoke", help="`demur keys list` lists them"
            )
    if args.json:
        print(json.dumps({"key_id": args.key_id, "revoked_at": now}))
    else:
        print(f"revoked {args.key_id}; a running service rejects it within seconds")
    return 0


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


def configure_monitor(add: Arguments) -> None:
    """Add the command's arguments."""
    add.epilog("press Ctrl-C to stop; counts are by hour in UTC and include the current hour")
    add("--hours HOURS", "hours to count (24)", default=24)
    add("--every S", "seconds between updates (2)", type=float, default=2.0)
    add("--rows ROWS", "number of decisions and codes (12)", default=12)
    add("--once", "print one screen and exit")
    add("--json", "one JSON object per line")
    add_tenant_option(add)
    add_config_option(add)


def run_monitor(args: Namespace) -> int:
    """Show decisions until Ctrl-C."""
    if not 1 <= args.hours <= _MAX_HOURS:
        raise UsageError(f"--hours must be from 1 to {_MAX_HOURS}, not `{args.hours}`")
    if not 0.1 <= args.every <= 3600:
        raise UsageError(f"--every must be from 0.1 to 3600 seconds, not `{args.every:g}`")
    if not 1 <= args.rows <= 200:
        raise UsageError(f"--rows must be from 1 to 200, not `{args.rows}`")
    with open_existing_store(load_settings(args)) as store:
        try:
            _refresh_screen(store, args)
        except KeyboardInterrupt:
            print()
    return 0


def _refresh_screen(store: Store, args: Namespace) -> None:
    paint = Paint()
    live = not args.once and not args.json and sys.stdout.isatty()
    while True:
        snapshot = _take_snapshot(store, args)
        if args.json:
            print(json.dumps(_snapshot_to_json(snapshot)), flush=True)
        else:
            screen = "\n".join(_draw_screen(snapshot, args.rows, paint))
            print(f"{_CLEAR_SCREEN}{screen}" if live else screen, flush=True)
        if args.once:
            return
        time.sleep(args.every)


def _take_snapshot(store: Store, args: Namespace) -> _MonitorSnapshot:
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
    record_filter = RecordFilter(tenant=args.tenant)
    names = [format_timestamp(since + timedelta(hours=back))[:13] for back in range(args.hours)]
    return _MonitorSnapshot(
        now=now,
        hours=args.hours,
        verdicts=verdicts,
        codes=codes,
        by_hour=[hours[name] for name in names],
        newest=list(store.find_records(record_filter, newest_first=True, limit=args.rows)),
    )


def _draw_screen(snapshot: _MonitorSnapshot, rows: int, paint: Paint) -> Iterator[str]:
    total = snapshot.verdicts.total()
    head = f"demur monitor  {snapshot.now:%Y-%m-%d %H:%M:%S} UTC  last {snapshot.hours} h"
    yield paint(head, "bold")
    yield f"{total:,} decisions  {_draw_sparkline(snapshot.by_hour)}"
    yield "  ".join(_verdict_shares(snapshot.verdicts, total, paint)) or paint(
        "no decisions yet", "dim"
    )
    yield ""
    if snapshot.codes:
        yield format_table(
            _top_codes(snapshot.codes, total, rows), ("REASON", "COUNT", "OF ALL", ""), paint
        )
        yield ""
    if snapshot.newest:
        yield format_table(
            (_decision_row(record) for record in snapshot.newest),
            ("TIME (UTC)", "OUTCOME", "ACTION", "CODES", "DECISION"),
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
    outcome = record.outcome.label if record.enforced else f"{record.outcome.label} (advisory)"
    action = one_line(f"{record.action_type} {format_amount(record)}".rstrip())[:40]
    codes = ", ".join(record.reason_codes)[:60]
    return record.created_at[11:19], outcome, action, codes, record.decision_id


def _draw_sparkline(counts: Sequence[int]) -> str:
    most = max(counts, default=0)
    if not most:
        return ""
    steps = len(_SPARK_BLOCKS) - 1
    return "".join(_SPARK_BLOCKS[-(-count * steps // most)] for count in counts)


def _snapshot_to_json(snapshot: _MonitorSnapshot) -> dict[str, Any]:
    return {
        "at": format_timestamp(snapshot.now),
        "hours": snapshot.hours,
        "decisions": snapshot.verdicts.total(),
        "verdicts": dict(snapshot.verdicts),
        "reason_codes": dict(snapshot.codes.most_common()),
        "by_hour": snapshot.by_hour,
        "newest": [record.decision_id for record in snapshot.newest],
    }
