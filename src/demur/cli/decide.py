"""`demur decide`, `approve`, `learn` and `forget`: make decisions and act on stored ones."""

import json
import os
import shlex
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from demur.cli.main import Arguments, UsageError, match_choice
from demur.cli.options import (
    STANDARD_INPUT,
    RequestItem,
    parse_period,
    prefix_errors,
    read_requests,
    require_code,
    usage_errors,
    write_file,
)
from demur.cli.records import (
    ID_HELP,
    describe_record,
    find_record,
    record_status,
    record_to_json,
    record_to_json_line,
)
from demur.cli.refusals import COULD_NOT_JUDGE
from demur.cli.terminal import Paint, format_table
from demur.cli.workspace import (
    add_config_option,
    add_tenant_option,
    load_settings,
    note_default_policy,
    open_existing_gate,
    open_existing_store,
)
from demur.codes.registry import Registry
from demur.codes.vocabulary import GrantKind, Surface
from demur.errors import GrantError, InputError, one_line
from demur.gate.approvals import shown_state
from demur.gate.clock import format_timestamp, system_clock
from demur.gate.config import Config, open_dry_run_gate, open_gate
from demur.gate.gate import Gate
from demur.gate.inputs import check_signals
from demur.gate.memory import DEFAULT_SEVERITY
from demur.grants.keys import read_grant_file, read_signing_key
from demur.grants.resolution import GrantRejection
from demur.grants.signing import sign_approval
from demur.memory.experience import ActionOutcome
from demur.model.decision import Outcome
from demur.model.finding import Finding
from demur.model.grant import Grant
from demur.model.record import DecisionRecord
from demur.model.request import DEFAULT_TENANT, read_request
from demur.source.item import did_you_mean
from demur.store.backend import StorageError
from demur.store.rows import ApprovalState, ExperienceRow

# Exit statuses from the most permissive to the strictest.
_STATUSES_BY_STRICTNESS = (0, 5, 4, COULD_NOT_JUDGE, 3)


def configure_decide(add: Arguments) -> None:
    """Add the command's arguments."""
    add.epilog("the status is that of the strictest decision, and always 0 in advisory mode")
    add(
        "file [FILE]",
        "a request as JSON, a list, or one per line; `-` is standard input",
        default=STANDARD_INPUT,
    )
    add(
        "--finding CODE[:SURFACE] ...",
        "a finding of a guard; default surface: the first of the code; repeatable",
    )
    add("--grant FILE ...", "a signed grant", type=Path)
    add("--accept TEXT ...", "a constraint that you accept")
    add(
        "--signal NAME=VALUE ...",
        "a number, true, false or a text that rules read as `signals.NAME`; repeatable",
    )
    add("--continues ID", "the earlier decision that this request continues; or `last`")
    add_tenant_option(add, "the tenant; a request for another tenant is an error")
    add("--dry-run", "decide, and store nothing")
    add("--out FILE", "write the record to this file, as JSON", type=Path)
    add("--json", "the whole record as JSON; many records: one per line")
    add_config_option(add)


def run_decide(args: Namespace) -> int:
    """Decide, print what was decided, and return its status."""
    batch = read_requests(args.file)
    config = load_settings(args)
    note_default_policy(config)
    with open_dry_run_gate(config) if args.dry_run else open_gate(config) as gate:
        if batch.listed:
            records = _decide_many(gate, batch.requests, args)
        else:
            records = [_decide_one(gate, batch.requests[0], args)]
            command = "" if args.json else _approvals_command(gate, records[0], args)
    if args.json:
        print(_records_to_json(records, listed=batch.listed))
    elif batch.listed:
        print("\n".join(_list_decisions(records, Paint())))
    else:
        print(describe_record(records[0], Paint(), _describe_id(records[0], config, args)))
        if command:
            # In one line of its own, so that it can be copied.
            print(f"  {Paint()('wait', 'dim')} for a person: {command}")
    # Write last: the decision stands even if the file cannot be written.
    if args.out is not None:
        write_file(args.out, _records_to_json(records, listed=batch.listed) + "\n")
    return max(map(record_status, records), key=_STATUSES_BY_STRICTNESS.index, default=0)


def _decide_one(gate: Gate, request: RequestItem, args: Namespace) -> DecisionRecord:
    findings = [_parse_finding(text, gate.registry) for text in args.finding]
    grants = [_read_grant(path) for path in args.grant]
    signals = parse_signals(args.signal)
    value = request.value
    if args.continues is not None:
        if gate.store is None:
            raise InputError("--continues needs a store")
        earlier = find_record(gate.store, args.continues, args.tenant)
        value = {**value, "continues": earlier.decision_id} if isinstance(value, dict) else value
    with prefix_errors(request.where):
        return gate.decide(
            value,
            findings=findings,
            grants=grants,
            accepted=args.accept,
            signals=signals,
            tenant=args.tenant,
        )


def _decide_many(
    gate: Gate, requests: Sequence[RequestItem], args: Namespace
) -> list[DecisionRecord]:
    single_only = {"--finding": args.finding, "--grant": args.grant, "--accept": args.accept}
    single_only |= {"--continues": args.continues, "--signal": args.signal}
    options = [option for option, value in single_only.items() if value]
    if options:
        raise UsageError(
            f"{options[0]} applies to one request, and the file has {len(requests)}",
            help="decide the requests one by one",
        )
    # Check each request here, so that an error names its place; the gate takes all or none.
    for request in requests:
        with prefix_errors(request.where):
            read_request(request.value)
    return gate.decide_many([request.value for request in requests], tenant=args.tenant)


def _parse_finding(text: str, registry: Registry) -> Finding:
    code, colon, name = text.partition(":")
    entry = registry[require_code(code, registry)]
    surface = match_choice(name, Surface)
    if colon and surface not in list(Surface):
        meant = did_you_mean(name, Surface) or f"one of {', '.join(Surface)}"
        raise UsageError(f"unknown surface `{name}`", help=meant)
    default_surface = entry.surfaces[0] if entry.surfaces else Surface.INPUT
    return Finding(code=entry.code, surface=Surface(surface) if colon else default_surface)


def parse_signals(texts: Sequence[str]) -> dict[str, Any]:
    """Return signals by name; a dot in a name makes a group.

    Raises:
        UsageError: A text is not `NAME=VALUE`, or a name occurs twice or belongs to demur.
    """
    signals: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not all(name.split(".")):
            raise UsageError(
                f"`{text}` is no signal", help="write NAME=VALUE, like fraud_score=0.2"
            )
        *groups, last = name.split(".")
        inner: Any = signals
        for group in groups:
            inner = inner.setdefault(group, {}) if isinstance(inner, dict) else inner
        if not isinstance(inner, dict) or last in inner:
            raise UsageError(f"the signal `{name}` is given twice")
        inner[last] = _parse_signal_value(value)
    with usage_errors():
        return check_signals(signals)


def _parse_signal_value(text: str) -> Any:
    """Return a number, a boolean or a quoted text of JSON, and anything else as a text."""
    try:
        value = json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, bool | int | float | str) else text


def _read_grant(path: Path) -> Grant:
    try:
        return Grant.from_json(read_grant_file(path))
    except GrantError as error:
        raise GrantError(error.problem, where=str(path), help=error.help) from error


def _records_to_json(records: Sequence[DecisionRecord], *, listed: bool) -> str:
    return "\n".join(map(record_to_json_line, records)) if listed else record_to_json(records[0])


def _describe_id(record: DecisionRecord, config: Config, args: Namespace) -> str:
    """Return the id of a stored decision, or why it was not stored."""
    if args.dry_run:
        return "none: a dry run stores nothing"
    if record.chain is not None:
        return f"{record.decision_id} (stored, tenant {record.tenant})"
    why = "not stored" if config.store else "not stored: the settings name no store"
    return f"{record.decision_id} ({why})"


def _approvals_command(gate: Gate, record: DecisionRecord, args: Namespace) -> str:
    """Return the command that shows the request for approval of a decision, if it waits."""
    waiting = None
    # The decision stands, also if the store fails now.
    with suppress(StorageError):
        if gate.store is not None and record.chain is not None:
            waiting = gate.store.get_approval(record.decision_id)
    if waiting is None or shown_state(waiting, system_clock()) != ApprovalState.WAITING:
        return ""
    settings = f" --config {shlex.quote(str(args.config))}" if args.config else ""
    return f"demur approvals show {record.decision_id}{settings}"


def _list_decisions(records: Sequence[DecisionRecord], paint: Paint) -> Iterator[str]:
    if records:
        rows = (
            (
                record.decision_id,
                record.outcome.label,
                record.action_type,
                ", ".join(record.reason_codes),
            )
            for record in records
        )
        yield format_table(rows, ("DECISION", "OUTCOME", "ACTION", "CODES"), paint)
    counts = Counter(record.outcome for record in records)
    summary = ", ".join(f"{counts[one]} {one.label}" for one in Outcome if counts[one])
    number = f"{len(records)} decision{'s' * (len(records) != 1)}"
    yield paint(f"{number}: {summary}" if summary else number, "dim")


_OTHER_KEY = "the trusted key `{key}` is a different key with the same name"
_REJECTION_HELP = {
    GrantRejection.UNKNOWN_KEY: "`keys` in {config} does not list the key {key}",
    GrantRejection.KEY_RETIRED: "its person may no longer approve; somebody else can",
    GrantRejection.KEY_NOT_CERTIFIED: "`people.trusted` of {config} does not hold its issuer",
    GrantRejection.BAD_SIGNATURE: _OTHER_KEY,
    GrantRejection.WRONG_ALGORITHM: _OTHER_KEY,
    GrantRejection.KIND_NOT_PERMITTED: "the trusted key `{key}` may not grant this kind",
    GrantRejection.TENANT_NOT_PERMITTED: "the trusted key `{key}` may not grant for this tenant",
    GrantRejection.REVOCATIONS_UNKNOWN: "the `revocations` of {config} cannot be read",
}


def configure_approve(add: Arguments) -> None:
    """Add the command's arguments."""
    add.epilog("the status is that of the new decision")
    add("id ID", ID_HELP)
    add("--key FILE", "your NAME.key.json", required=True, type=Path)
    add(
        "--kind",
        "the kind of grant",
        default=str(GrantKind.APPROVAL),
        choices=[str(word) for word in GrantKind],
    )
    add("--for PERIOD", "validity, like 30m, 8h, 7d", dest="period", default="1h")
    add_tenant_option(add, "require that the decision belongs to this tenant")
    add("--json", "the new record as JSON")
    add_config_option(add)


def run_approve(args: Namespace) -> int:
    """Sign the grant, resolve the decision, and return the status of the new decision."""
    key, validity = read_signing_key(args.key), parse_period(args.period)
    gate, store = open_existing_gate(load_settings(args))
    with gate:
        before = find_record(store, args.id, args.tenant)
        now = system_clock().replace(microsecond=0)
        grant = sign_approval(
            before,
            key,
            grant_id=os.urandom(12).hex(),
            kind=args.kind,
            not_before=now,
            expires_at=now + validity,
            registry=gate.registry,
        )
        after = gate.resolve(before.decision_id, grants=[grant], tenant=before.tenant)
    if args.json:
        print(record_to_json(after))
    else:
        print("\n".join(_describe_approval(before, after, grant, args)))
    return record_status(after)


def _describe_approval(
    before: DecisionRecord, after: DecisionRecord, grant: Grant, args: Namespace
) -> Iterator[str]:
    paint = Paint()
    rejections = {ignored.grant_id: ignored.why for ignored in after.ignored_grants}
    rejection = rejections.get(grant.grant_id)
    if rejection is None:
        until = f"{grant.expires_at:%Y-%m-%d %H:%M} UTC"
        codes = ", ".join(grant.codes)
        yield one_line(f"{grant.granted_by} lifts {codes} for {grant.granted_to}, until {until}")
    else:
        yield f"{paint('the grant was rejected:', 'bold', 'yellow')} {rejection.replace('_', ' ')}"
        advice = _REJECTION_HELP.get(GrantRejection(rejection))
        if advice:
            advice = advice.format(config=args.config or "demur.toml", key=grant.key_id)
            yield f"  {paint('help:', 'cyan')} {one_line(advice)}"
    yield describe_record(after, paint, f"{after.decision_id} (resolves {before.decision_id})")
    if after.may_execute and rejection is None:
        yield "the caller may now repeat the request:"
        yield f"  demur decide FILE --continues {after.decision_id}"


_MAX_DAYS = 36_500


def configure_learn(add: Arguments) -> None:
    """Add the command's arguments."""
    add("id ID", ID_HELP)
    add("--outcome", "the outcome", required=True, choices=[str(word) for word in ActionOutcome])
    add(
        "--severity 1-5",
        "severity of a failure; mild failures only escalate later requests",
        type=int,
        choices=range(1, 6),
        default=DEFAULT_SEVERITY,
    )
    add("--note TEXT", "a note that is stored with the decision", default="")
    add("--by WHO", "the reporter", default="")
    add("--expires DAYS", "days after which the experience expires", type=int)
    add_tenant_option(add, "require that the decision belongs to this tenant")
    add("--json", "one JSON object")
    add_config_option(add)


def run_learn(args: Namespace) -> int:
    """Store the experience, and print its effect."""
    config = load_settings(args)
    gate, store = open_existing_gate(config)
    with gate:
        experience = gate.learn(
            find_record(store, args.id, args.tenant).decision_id,
            args.outcome,
            severity=args.severity,
            note=args.note,
            reviewer=args.by,
            expires_at=None if args.expires is None else system_clock() + _parse_days(args.expires),
        )
    if args.json:
        fields = experience._asdict()
        del fields["vector"]
        print(json.dumps(fields, indent=2))
    else:
        print(f"learned: {one_line(_describe_experience(experience))}")
        print(f"  {gate.describe_effect(experience)}")
        print(f"  memory {experience.memory_id}; `demur forget` deletes it")
    return 0


def _parse_days(number: int) -> timedelta:
    if not 0 < number <= _MAX_DAYS:
        raise UsageError(f"--expires must be from 1 to {_MAX_DAYS} days, not `{number}`")
    return timedelta(days=number)


def _describe_experience(experience: ExperienceRow) -> str:
    failed = experience.outcome == ActionOutcome.FAILURE
    severity = f", severity {experience.severity}" if failed else ""
    expiry = experience.expires_at
    until = "" if expiry is None else f", until {expiry[:10]}"
    what = f"{experience.outcome} of {experience.action_type}"
    return f"{what}{severity}, tenant {experience.tenant}{until}"


def configure_forget(add: Arguments) -> None:
    """Add the command's arguments."""
    add("ids [MEMORY_ID...]", "an id that `demur learn` or `demur explain` printed")
    add("--expired", "delete all expired experiences")
    add_tenant_option(add, f"the tenant of the memory; default: `{DEFAULT_TENANT}`")
    add("--json", "one JSON object")
    add_config_option(add)


def run_forget(args: Namespace) -> int:
    """Delete, and print how many; raise if a given id does not exist."""
    if bool(args.ids) == args.expired:
        raise UsageError("give either memory ids or --expired")
    tenant = args.tenant or DEFAULT_TENANT
    now = format_timestamp(system_clock())
    with open_existing_store(load_settings(args)) as store:
        before = now if args.expired else None
        deleted = store.forget_experiences(tenant, list(dict.fromkeys(args.ids)), before)
    if args.json:
        print(json.dumps({"tenant": tenant, "forgotten": deleted}))
    else:
        print(f"forgot {deleted} experience{'s' * (deleted != 1)} of tenant {tenant}")
    missing = len(set(args.ids)) - deleted
    if missing > 0:
        raise InputError(
            f"{missing} of these memories {'does' if missing == 1 else 'do'} not exist",
            help=f"is --tenant right? The tenant was `{tenant}`",
        )
    return 0
