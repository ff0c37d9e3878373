"""`demur approvals`: what waits for a person; approve, decline, wait, and do what is due."""

import json
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from demur.audit.report import format_amount, request_intent, request_subject
from demur.cli.main import Arguments, UsageError
from demur.cli.options import parse_period
from demur.cli.people import read_password
from demur.cli.records import ID_HELP, describe_request, find_record, label_lines
from demur.cli.terminal import Paint, format_table
from demur.cli.workspace import (
    add_config_option,
    add_tenant_option,
    load_settings,
    open_existing_gate,
    open_existing_store,
)
from demur.enforce.approval_wait import ApprovalAnswer, wait_steps
from demur.enforce.context import drive
from demur.errors import InputError, one_line
from demur.gate.approval_queue import ApprovalLimits, ApprovalQueue, ApprovalResult
from demur.gate.approvals import describe_limits, describe_next_step, shown_state
from demur.gate.clock import format_timestamp, system_clock
from demur.gate.config import Config
from demur.gate.gate import Gate
from demur.grants.person_keys import ServiceKey
from demur.model.record import DecisionRecord
from demur.observe.approval_notices import NoticeDelivery
from demur.service.people import Passwords, fold_login, log_in_person
from demur.store.rows import ApprovalRow, ApprovalState, ApprovalVote
from demur.store.store import Store

DECLINED, STILL_WAITING = 3, 4
NOTICE_FAILED = 1
_LIMIT = 500
_MAX_WAIT_S = 86_400
_COMMAND_LINE_HELP = "the password is asked for, or read as one line of standard input"


def configure_approvals_list(add: Arguments) -> None:
    """Add the command's arguments."""
    add("--state STATE", "only this state; default: waiting", choices=[*ApprovalState, "all"])
    add_tenant_option(add)
    add("--json", "one JSON object per request")
    add_config_option(add)


def run_approvals_list(args: Namespace) -> int:
    """Print what waits, the oldest first, or the requests in other states, the newest first."""
    state = None if args.state == "all" else args.state or ApprovalState.WAITING
    waits = state == ApprovalState.WAITING
    with open_existing_store(load_settings(args)) as store:
        rows = store.list_approvals(args.tenant, state, limit=_LIMIT, oldest_first=waits)
        given = store.count_votes([row.decision_id for row in rows], _now())
        table = [] if args.json else [_list_row(store, row, given) for row in rows]
    if args.json:
        for row in rows:
            print(json.dumps(_describe_row(row, given.get(row.decision_id, 0))))
        return 0
    paint = Paint()
    if not table:
        print(paint(f"nothing {'waits for a person' if waits else 'is in this state'}", "dim"))
        return 0
    # A column that says nothing takes no room.
    said = {name: {line[name] for line in table} for name in table[0]}
    names = [name for name, cells in said.items() if cells - {"", str(ApprovalState.WAITING)}]
    print(format_table([[line[name] for name in names] for line in table], names, paint))
    if waits:
        words = "`demur approvals show ID` says more; `approve` and `decline` take --login NAME"
        print(paint(words, "dim"))
    return 0


def _now() -> str:
    return format_timestamp(system_clock())


def _count_given(store: Store, row: ApprovalRow) -> int:
    return store.count_votes([row.decision_id], _now()).get(row.decision_id, 0)


def _list_row(store: Store, row: ApprovalRow, given: Mapping[str, int]) -> dict[str, str]:
    """Return the cells of a request: who asks, what for, why, and since and until when."""
    record = store.get(row.decision_id, row.tenant)
    amount = "" if record is None else format_amount(record)
    return {
        "DECISION": row.decision_id,
        "STATE": shown_state(row, system_clock()),
        "TENANT": row.tenant,
        "ASKED BY": "" if record is None else request_subject(record),
        "ACTION": f"{row.action_type} {amount}".rstrip(),
        "CODES": ", ".join(row.reason_codes),
        "APPROVED": f"{given.get(row.decision_id, 0)} of {row.needed}",
        "GROUP": row.group_name,
        "SINCE (UTC)": _short_time(row.requested_at),
        "UNTIL (UTC)": _short_time(row.expires_at),
    }


def _short_time(text: str) -> str:
    return text[:16].replace("T", " ")


def _describe_row(row: ApprovalRow, given: int) -> dict[str, Any]:
    fields = row._asdict()
    del fields["notified"]
    return {**fields, "given": given}


def configure_approvals_show(add: Arguments) -> None:
    """Add the command's arguments."""
    add("id ID", ID_HELP)
    add_tenant_option(add)
    add("--json", "one JSON object, with the votes")
    add_config_option(add)


def run_approvals_show(args: Namespace) -> int:
    """Print a request for approval with its votes."""
    with open_existing_store(load_settings(args)) as store:
        row = _require_row(store, args)
        record = store.get(row.decision_id, row.tenant)
        votes, given = store.list_votes(row.decision_id), _count_given(store, row)
    if args.json:
        shown = {**_describe_row(row, given), "votes": [vote._asdict() for vote in votes]}
        print(json.dumps(shown, indent=2))
        return 0
    paint = Paint()
    row = row._replace(state=shown_state(row, system_clock()))
    print(paint(row.state, "bold"))
    print("\n".join(label_lines(_describe_request(row, record, votes, given), paint)))
    return 0


def _describe_request(
    row: ApprovalRow, record: DecisionRecord | None, votes: Sequence[ApprovalVote], given: int
) -> Iterator[tuple[str, str]]:
    """Yield what somebody reads before they decide, what people said, and what comes next."""
    if record is not None:
        facts = dict(describe_request(record))
        yield "what", facts["what"]
        if intent := request_intent(record):
            yield "text", intent
        yield "who", facts["who"]
        yield "why", record.explanation.summary
        yield "by", facts["by"]
    yield "code", ", ".join(row.reason_codes)
    yield "when", f"{row.requested_at}, open until {row.expires_at}"
    group = f"the group {row.group_name}" if row.group_name else "any approver"
    yield "need", f"{group}; {given} of {row.needed} approve"
    for vote in votes:
        limits, note = describe_limits(vote.limits), f": {vote.note}" if vote.note else ""
        words = f"{vote.vote}d {limits}" if limits else f"{vote.vote}d"
        yield "vote", f"{vote.person} {words}{note} ({vote.voted_at})"
    if row.state == ApprovalState.WAITING:
        command = f"demur approvals approve {row.decision_id} --login NAME"
        yield "then", f"`{command}`, or `decline`"
    else:
        yield "then", describe_next_step(row)
    yield "id", f"{row.decision_id} (tenant {row.tenant})"


def _require_row(store: Store, args: Namespace) -> ApprovalRow:
    record = find_record(store, args.id, args.tenant)
    row = store.get_approval(record.decision_id)
    if row is None and record.basis == "resolution":
        # `last` is the resolution, once there is one.
        row = store.get_approval(record.continues or "")
    if row is None:
        problem = f"decision `{record.decision_id}` asked nobody for approval"
        raise InputError(problem, help="`demur approvals list --state all` lists what was")
    return row


def configure_approvals_approve(add: Arguments) -> None:
    """Add the command's arguments."""
    add.epilog(_COMMAND_LINE_HELP)
    add("id ID", ID_HELP)
    add("--login LOGIN", "the name you log in with", required=True)
    add("--for PERIOD", "validity, like 30m, 8h, 7d", dest="period", default="1h")
    add("--scope", "approve the action for its requester, not only this request")
    add("--uses N", "with --scope: how many decisions it may allow; default: 1", type=int)
    add("--note TEXT", "a note for the requester and the chain", default="")
    add_tenant_option(add, "require that the decision belongs to this tenant")
    add("--json", "the request as one JSON object")
    add_config_option(add)


def run_approvals_approve(args: Namespace) -> int:
    """Approve a refused decision as a person."""
    if args.uses is not None and not args.scope:
        raise UsageError("one request has one use", help="--scope approves more of the same action")
    wanted: dict[str, Any] = {
        "covers": "scope" if args.scope else "request",
        "valid_s": int(parse_period(args.period).total_seconds()),
        "uses": 1 if args.uses is None else args.uses,
    }
    try:
        limits = msgspec.convert(wanted, ApprovalLimits)
    except msgspec.ValidationError as error:
        raise UsageError(str(error), help="a minute to 30 days, and 1 to 1000 uses") from error
    config = load_settings(args)
    gate, store = open_existing_gate(config)
    with gate:
        row = _require_row(store, args)
        login = _log_in(store, args.login)
        result = _open_queue(gate, config).approve(
            row.decision_id, login, limits=limits, note=args.note, tenant=row.tenant
        )
        given = _count_given(store, row)
        shown = store.get_approval(row.decision_id) or result.row
    return _print_vote(args, result, shown, given)


def configure_approvals_decline(add: Arguments) -> None:
    """Add the command's arguments."""
    add.epilog(_COMMAND_LINE_HELP)
    add("id ID", ID_HELP)
    add("--login LOGIN", "the name you log in with", required=True)
    add("--note TEXT", "a note for the requester and the chain", default="")
    add_tenant_option(add, "require that the decision belongs to this tenant")
    add("--json", "the request as one JSON object")
    add_config_option(add)


def run_approvals_decline(args: Namespace) -> int:
    """Decline a refused decision as a person."""
    config = load_settings(args)
    gate, store = open_existing_gate(config)
    with gate:
        row = _require_row(store, args)
        login = _log_in(store, args.login)
        queue = _open_queue(gate, config)
        result = queue.decline(row.decision_id, login, note=args.note, tenant=row.tenant)
        given = _count_given(store, row)
    return _print_vote(args, result, result.row, given)


def _log_in(store: Store, login: str) -> str:
    """Return the login of the person whose password is given.

    Raises:
        InputError: The name or the password is wrong.
    """
    person = log_in_person(store, Passwords(), login, read_password(confirm=False))
    if person is None:
        raise InputError(f"wrong password, or no person `{fold_login(login)[:100]}`")
    return person.login


def _open_queue(gate: Gate, config: Config) -> ApprovalQueue:
    return ApprovalQueue(gate, lambda: ServiceKey.from_file(config.people.key))


def _print_vote(args: Namespace, result: ApprovalResult, row: ApprovalRow, given: int) -> int:
    if args.json:
        print(json.dumps(_describe_row(row, given)))
        return 0
    if row.state == ApprovalState.WAITING:
        left = row.needed - given
        print(f"noted: {given} of {row.needed}, so {left} more must approve {row.decision_id}")
        return 0
    print(f"{row.state} {row.decision_id}")
    if result.resolution is not None:
        outcome = result.resolution.outcome.label
        print(Paint()(f"  resolved as {result.resolution.decision_id}: {outcome}", "dim"))
    return 0


def configure_approvals_wait(add: Arguments) -> None:
    """Add the command's arguments."""
    add("id ID", ID_HELP)
    add("--seconds N", "how long to wait", type=float, default=300.0)
    add_tenant_option(add, "require that the decision belongs to this tenant")
    add("--json", "one JSON object")
    add_config_option(add)


def run_approvals_wait(args: Namespace) -> int:
    """Wait until people decide, and print what they said."""
    if not 0 <= args.seconds <= _MAX_WAIT_S:
        raise UsageError(f"`--seconds` is from 0 to {_MAX_WAIT_S}, not {args.seconds:g}")
    gate, store = open_existing_gate(load_settings(args))
    with gate:
        row = _require_row(store, args)
        answer = drive(wait_steps(gate, row.decision_id, args.seconds, time.monotonic))
        row = store.get_approval(row.decision_id) or row
    if args.json:
        names = ("decision_id", "state", "by", "note", "continues")
        print(json.dumps({name: getattr(answer, name) for name in names}))
    else:
        print("\n".join(_describe_answer(answer, row)))
    if answer:
        return 0
    return STILL_WAITING if answer.state is ApprovalState.WAITING else DECLINED


def _describe_answer(answer: ApprovalAnswer, row: ApprovalRow) -> Iterator[str]:
    by = f" by {answer.by}" if answer.by else ""
    yield one_line(f"{answer.state}{by}{f': {answer.note}' if answer.note else ''}")
    yield Paint()(f"  {describe_next_step(row)}", "dim")


def configure_approvals_run_due(add: Arguments) -> None:
    """Add the command's arguments."""
    add("--json", "one JSON object per step")
    add_config_option(add)


def run_approvals_run_due(args: Namespace) -> int:
    """Expire and escalate what is due, and send notices, as a running service does by itself."""
    gate, _ = open_existing_gate(load_settings(args))
    with gate:
        queue = ApprovalQueue(gate)
        steps = queue.run_due()
        sent = NoticeDelivery(queue.store, gate.registry, gate.approvals).deliver_due()
    if args.json:
        for step in steps:
            fields = {"decision_id": step.row.decision_id, "step": step.kind, "group": step.group}
            print(json.dumps(fields))
        return NOTICE_FAILED if sent["failed"] else 0
    for step in steps:
        to = f" to {step.group}" if step.group else ""
        print(one_line(f"{step.kind} {step.row.decision_id}{to}"))
    for result, count in sent.items():
        if count:
            print(f"{count} {'notice' if count == 1 else 'notices'} {result}")
    if not steps and not any(sent.values()):
        print(Paint()("nothing is due", "dim"))
    return NOTICE_FAILED if sent["failed"] else 0
