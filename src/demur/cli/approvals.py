"""`demur approvals`: what waits for a person; approve, decline, wait, and do what is due."""

import json
import time
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

import msgspec

from demur.cli.main import Arguments, UsageError
from demur.cli.options import parse_period
from demur.cli.people import read_password
from demur.cli.records import ID_HELP, find_record
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
from demur.gate.approvals import describe_next_step
from demur.gate.clock import format_timestamp, system_clock
from demur.gate.config import Config
from demur.gate.gate import Gate
from demur.grants.person_keys import ServiceKey
from demur.observe.approval_notices import NoticeDelivery
from demur.service.people import Passwords, fold_login, log_in_person
from demur.store.rows import ApprovalRow, ApprovalState
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
    """Print the requests for approval, newest first."""
    state = None if args.state == "all" else args.state or ApprovalState.WAITING
    with open_existing_store(load_settings(args)) as store:
        rows = store.list_approvals(args.tenant, state, limit=_LIMIT)
        given = store.count_votes([row.decision_id for row in rows], _now())
    if args.json:
        for row in rows:
            print(json.dumps(_describe_row(row, given.get(row.decision_id, 0))))
        return 0
    paint = Paint()
    if not rows:
        print(paint("nothing waits for a person", "dim"))
        return 0
    head = ("DECISION", "STATE", "TENANT", "ACTION", "CODES", "APPROVED", "GROUP", "UNTIL")
    lines = [_table_row(row, given.get(row.decision_id, 0)) for row in rows]
    print(format_table(lines, head, paint))
    return 0


def _now() -> str:
    return format_timestamp(system_clock())


def _count_given(store: Store, row: ApprovalRow) -> int:
    return store.count_votes([row.decision_id], _now()).get(row.decision_id, 0)


def _table_row(row: ApprovalRow, given: int) -> tuple[str, ...]:
    names = map(one_line, (row.tenant, row.action_type, ", ".join(row.reason_codes)))
    until = row.expires_at[:16].replace("T", " ")
    approved = f"{given} of {row.needed}"
    return (row.decision_id, row.state, *names, approved, one_line(row.group_name), until)


def _describe_row(row: ApprovalRow, given: int) -> dict[str, Any]:
    fields = row._asdict()
    del fields["notified"]
    return {**fields, "given": given}


def configure_approvals_show(add: Arguments) -> None:
    """Add the command's arguments."""
    add("id ID", ID_HELP)
    add_tenant_option(add)
    add_config_option(add)


def run_approvals_show(args: Namespace) -> int:
    """Print a request for approval with its votes as JSON."""
    with open_existing_store(load_settings(args)) as store:
        row = _require_row(store, args)
        votes, given = store.list_votes(row.decision_id), _count_given(store, row)
    shown = {**_describe_row(row, given), "votes": [vote._asdict() for vote in votes]}
    print(json.dumps(shown, indent=2))
    return 0


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
