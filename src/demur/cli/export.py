"""`demur export`: write one decision as JSON or as a pack, or many as JSON lines."""

import argparse
import os
from collections.abc import Iterable
from pathlib import Path

from demur.audit.exporting import export_pack
from demur.audit.lines import write_line
from demur.audit.pack import write_pack
from demur.cli.key_files import read_signing_key
from demur.cli.moments import parse_time
from demur.cli.records import ID_HELP, record_to_json, find_record
from demur.cli.workspace import (
    add_config_option,
    add_tenant_option,
    open_existing_store,
    load_settings,
)
from demur.codes.vocabulary import Verdict
from demur.errors import InputError
from demur.gate.clock import system_clock, format_timestamp
from demur.model.record import DecisionRecord
from demur.store.backend import RecordFilter
from demur.store.store import Store

__all__ = ["add_period_options", "configure_export", "run_export", "build_filter"]

_OWNER_ONLY = 0o600
_SELECTION_OPTIONS = ("verdict", "code", "action", "subject", "since", "until")


def configure_export(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "a pack holds all inputs of one decision, for `demur replay`; JSON lines are for "
        "`demur diff` and for auditors. Both hold the inputs, which may be personal data. "
        "exit: 0 exported, 1 error, 2 usage"
    )
    parser.add_argument("id", nargs="?", metavar="ID", help=ID_HELP)
    parser.add_argument("--all", action="store_true", help="every decision, as JSON lines")
    parser.add_argument(
        "--verdict", choices=[str(word) for word in Verdict], help="only this verdict"
    )
    parser.add_argument("--code", metavar="CODE", help="only decisions with this reason code")
    parser.add_argument("--action", metavar="TYPE", help="only decisions on this type of action")
    parser.add_argument("--subject", metavar="WHO", help="only decisions for this subject")
    add_period_options(parser)
    add_tenant_option(parser)
    parser.add_argument("--pack", action="store_true", help="the decision as a pack; needs --out")
    parser.add_argument("--sign", type=Path, metavar="KEYFILE", help="sign the pack with this key")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write to this file")
    add_config_option(parser)


def add_period_options(parser: argparse.ArgumentParser) -> None:
    """Add `--since WHEN` and `--until WHEN`, which `build_filter` reads."""
    when = "a day, a time, or how long ago, like 7d"
    parser.add_argument("--since", metavar="WHEN", help=f"only from this time on: {when}")
    parser.add_argument("--until", metavar="WHEN", help="only before this time")


def build_filter(args: argparse.Namespace) -> RecordFilter:
    """Return the filter that the options describe."""
    now = system_clock()
    return RecordFilter(
        tenant=args.tenant,
        verdict=getattr(args, "verdict", None),
        reason_code=getattr(args, "code", None),
        action_type=args.action,
        since=None if args.since is None else format_timestamp(parse_time(args.since, now)),
        until=None if args.until is None else format_timestamp(parse_time(args.until, now)),
        subject=getattr(args, "subject", None),
    )


def run_export(args: argparse.Namespace) -> int:
    """Write the chosen records."""
    _check_selection(args)
    with open_existing_store(load_settings(args)) as store:
        if args.id is None:
            _write_lines(args.out, store.find_records(build_filter(args)))
        else:
            record = find_record(store, args.id, args.tenant)
            if args.pack:
                _write_pack_file(args, store, record)
            else:
                _write_chunks(args.out, [record_to_json(record).encode() + b"\n"])
    return 0


def _check_selection(args: argparse.Namespace) -> None:
    chosen = [f"--{name}" for name in _SELECTION_OPTIONS if getattr(args, name) is not None]
    chosen += ["--all"] if args.all else []
    if args.id is not None and chosen:
        raise InputError(f"{chosen[0]} filters decisions, and cannot be combined with an ID")
    if args.id is None and args.pack:
        raise InputError("a pack holds one decision", help="give its id: demur export ID --pack")
    if args.id is None and not chosen and args.tenant is None:
        raise InputError(
            "no decision is chosen", help="give an ID, or select with --all, --since, ..."
        )
    if args.pack and args.out is None:
        raise InputError("--pack needs --out", help="like --out decision.zip")
    if args.sign is not None and not args.pack:
        raise InputError("only a pack can be signed", help="add --pack")


def _write_pack_file(args: argparse.Namespace, store: Store, record: DecisionRecord) -> None:
    key = None if args.sign is None else read_signing_key(args.sign)
    _write_chunks(args.out, [write_pack(export_pack(store, record), key)])
    print(f"{args.out}: decision {record.decision_id}")


def _write_lines(path: Path | None, records: Iterable[DecisionRecord]) -> None:
    count = _write_chunks(path, (write_line(record) + b"\n" for record in records))
    if path is not None:
        print(f"{path}: {count} decision{'s' * (count != 1)}")


def _write_chunks(path: Path | None, chunks: Iterable[bytes]) -> int:
    """Print the chunks, or write them to a file atomically; return their number."""
    count = 0
    if path is None:
        for count, chunk in enumerate(chunks, start=1):  # noqa: B007 - the last one is the number
            print(chunk.decode(), end="")
        return count
    part = path.with_name(f"{path.name}.part")
    try:
        # The inputs may be personal data, so only the owner may read the file.
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _OWNER_ONLY)
        with os.fdopen(descriptor, "wb") as file:
            for count, chunk in enumerate(chunks, start=1):  # noqa: B007 - see above
                file.write(chunk)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return count
