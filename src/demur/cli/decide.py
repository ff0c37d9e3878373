"""`demur decide`: decide requests by policy, and store each decision."""

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from demur.cli.classify import COULD_NOT_JUDGE
from demur.cli.commands import STATUSES
from demur.cli.dry_run import open_dry_run_gate
from demur.cli.files import write_file
from demur.cli.key_files import read_file
from demur.cli.records import (
    record_to_json,
    describe_record,
    find_record,
    record_to_json_line,
    record_status,
)
from demur.cli.request_files import STANDARD_INPUT, RequestItem, prefix_errors, read_requests
from demur.cli.terminal import Paint, format_table
from demur.cli.workspace import (
    add_config_option,
    add_tenant_option,
    load_settings,
    open_workspace_gate,
)
from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface, Verdict
from demur.errors import GrantError, InputError
from demur.gate.config import Config
from demur.gate.gate import Gate
from demur.model.finding import Finding
from demur.model.grant import Grant
from demur.model.record import DecisionRecord
from demur.model.request import read_request

__all__ = ["configure_decide", "run_decide"]

# Exit statuses from the most permissive to the strictest.
_STATUSES_BY_STRICTNESS = (0, 5, 4, COULD_NOT_JUDGE, 3)


def configure_decide(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = f"{STATUSES}; the strictest of many requests; always 0 in advisory mode"
    parser.add_argument(
        "file",
        nargs="?",
        default=STANDARD_INPUT,
        metavar="FILE",
        help="a request as JSON, a list, or one per line; `-` is standard input",
    )
    parser.add_argument(
        "--finding",
        action="append",
        default=[],
        metavar="CODE[:SURFACE]",
        help="a finding of a guard; default surface: the first of the code; repeatable",
    )
    parser.add_argument(
        "--grant", action="append", default=[], type=Path, metavar="FILE", help="a signed grant"
    )
    parser.add_argument(
        "--accept", action="append", default=[], metavar="TEXT", help="a constraint that you accept"
    )
    parser.add_argument(
        "--continues",
        metavar="ID",
        help="the earlier decision that this request continues; or `last`",
    )
    add_tenant_option(parser, "the tenant; a request for another tenant is an error")
    parser.add_argument("--dry-run", action="store_true", help="decide, and store nothing")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write the record to this file, as JSON"
    )
    parser.add_argument(
        "--json", action="store_true", help="the whole record as JSON; many records: one per line"
    )
    add_config_option(parser)


def run_decide(args: argparse.Namespace) -> int:
    """Decide, print what was decided, and return its status."""
    found = read_requests(args.file)
    config = load_settings(args)
    with open_dry_run_gate(config) if args.dry_run else open_workspace_gate(config) as gate:
        if found.listed:
            records = _decide_many(gate, found.requests, args)
        else:
            records = [_decide_one(gate, found.requests[0], args)]
    if args.json:
        print(_records_to_json(records, listed=found.listed))
    elif found.listed:
        print("\n".join(_list_decisions(records, Paint())))
    else:
        print(describe_record(records[0], Paint(), _describe_id(records[0], config, args)))
    # Write last: the decision stands even if the file cannot be written.
    if args.out is not None:
        write_file(args.out, _records_to_json(records, listed=found.listed) + "\n")
    return max(map(record_status, records), key=_STATUSES_BY_STRICTNESS.index, default=0)


def _decide_one(gate: Gate, request: RequestItem, args: argparse.Namespace) -> DecisionRecord:
    findings = [_parse_finding(text, gate.registry) for text in args.finding]
    grants = [_read_grant(path) for path in args.grant]
    value = request.value
    if args.continues is not None:
        value = _attach_earlier(gate, value, args)
    with prefix_errors(request.where):
        return gate.decide(
            value, findings=findings, grants=grants, accepted=args.accept, tenant=args.tenant
        )


def _attach_earlier(gate: Gate, value: Any, args: argparse.Namespace) -> Any:
    if gate.store is None:
        raise InputError("--continues needs a store")
    earlier = find_record(gate.store, args.continues, args.tenant)
    return {**value, "continues": earlier.decision_id} if isinstance(value, dict) else value


def _decide_many(
    gate: Gate, requests: Sequence[RequestItem], args: argparse.Namespace
) -> list[DecisionRecord]:
    alone = {"--finding": args.finding, "--grant": args.grant, "--accept": args.accept}
    alone["--continues"] = args.continues
    given = [option for option, value in alone.items() if value]
    if given:
        raise InputError(
            f"{given[0]} applies to one request, and the file has {len(requests)}",
            help="decide the requests one by one",
        )
    # Check each request here, so that an error names its place; the gate takes all or none.
    for request in requests:
        with prefix_errors(request.where):
            read_request(request.value)
    return gate.decide_many([request.value for request in requests], tenant=args.tenant)


def _parse_finding(text: str, registry: Registry) -> Finding:
    code, colon, surface = text.partition(":")
    entry = registry[code]
    if colon and surface not in list(Surface):
        raise InputError(f"unknown surface `{surface}`", help=f"one of {', '.join(Surface)}")
    usual = entry.surfaces[0] if entry.surfaces else Surface.INPUT
    return Finding(code=entry.code, surface=Surface(surface) if colon else usual)


def _read_grant(path: Path) -> Grant:
    try:
        return Grant.from_json(read_file(path))
    except GrantError as error:
        raise GrantError(error.problem, where=str(path), help=error.help) from error


def _records_to_json(records: Sequence[DecisionRecord], *, listed: bool) -> str:
    return "\n".join(map(record_to_json_line, records)) if listed else record_to_json(records[0])


def _describe_id(record: DecisionRecord, config: Config, args: argparse.Namespace) -> str:
    """Return the id of a stored decision, or why it was not stored."""
    if args.dry_run:
        return "none: a dry run stores nothing"
    if record.chain is not None:
        return f"{record.decision_id} (stored, tenant {record.tenant})"
    why = "not stored" if config.store else "not stored: the settings name no store"
    return f"{record.decision_id} ({why})"


def _list_decisions(records: Sequence[DecisionRecord], paint: Paint) -> Iterator[str]:
    if records:
        rows = (
            (
                record.decision_id,
                record.verdict,
                record.decision_output,
                record.action_type,
                ", ".join(record.reason_codes),
            )
            for record in records
        )
        yield format_table(rows, ("DECISION", "VERDICT", "OUTPUT", "ACTION", "CODES"), paint)
    counts = Counter(record.verdict for record in records)
    said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])
    number = f"{len(records)} decision{'s' * (len(records) != 1)}"
    yield paint(f"{number}: {said}" if said else number, "dim")
