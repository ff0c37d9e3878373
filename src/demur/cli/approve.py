"""`demur approve`: sign a grant that covers one decision, and resolve the decision with it."""

import argparse
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from demur.classification.grants import GrantRejection, sign_grant
from demur.classification.keys import SigningKey
from demur.cli.commands import STATUSES
from demur.cli.key_files import read_signing_key
from demur.cli.moments import parse_period
from demur.cli.records import ID_HELP, record_to_json, describe_record, find_record, record_status
from demur.cli.terminal import Paint
from demur.cli.workspace import (
    add_config_option,
    add_tenant_option,
    open_existing_gate,
    load_settings,
)
from demur.codes.registry import Registry
from demur.codes.vocabulary import GrantKind, Verdict
from demur.errors import InputError, one_line
from demur.gate.clock import system_clock
from demur.model.grant import Grant
from demur.model.record import DecisionRecord

__all__ = ["configure_approve", "run_approve"]

# The grant covers this request only, not similar ones.
_GRANT_SCOPE = ("action", "tenant", "request")
_REJECTION_HELP = {
    GrantRejection.UNKNOWN_KEY: "`keys` in {config} lists the trusted keys; {key} is not among them",
    GrantRejection.BAD_SIGNATURE: "the trusted key `{key}` is a different key with the same name",
    GrantRejection.WRONG_ALGORITHM: "the trusted key `{key}` is a different key with the same name",
    GrantRejection.KIND_NOT_PERMITTED: "the trusted key `{key}` may not grant this kind",
}


def configure_approve(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = f"{STATUSES}; of the new decision"
    parser.add_argument("id", metavar="ID", help=ID_HELP)
    parser.add_argument(
        "--key", required=True, type=Path, metavar="FILE", help="your NAME.key.json"
    )
    parser.add_argument(
        "--kind",
        default=str(GrantKind.APPROVAL),
        choices=[str(word) for word in GrantKind],
        help="the kind of grant",
    )
    parser.add_argument("--for", dest="period", default="1h", help="validity, like 30m, 8h, 7d")
    add_tenant_option(parser, "require that the decision belongs to this tenant")
    parser.add_argument("--json", action="store_true", help="the new record as JSON")
    add_config_option(parser)


def run_approve(args: argparse.Namespace) -> int:
    """Sign the grant, resolve the decision, and return the status of the new decision."""
    key, until = read_signing_key(args.key), parse_period(args.period)
    gate, store = open_existing_gate(load_settings(args))
    with gate:
        before = find_record(store, args.id, args.tenant)
        now = system_clock().replace(microsecond=0)
        grant = _sign_approval(before, key, args.kind, (now, now + until), gate.registry)
        after = gate.resolve(before.decision_id, grants=[grant], tenant=before.tenant)
    if args.json:
        print(record_to_json(after))
    else:
        print("\n".join(_describe_approval(before, after, grant, args)))
    return record_status(after)


def _sign_approval(
    before: DecisionRecord,
    key: SigningKey,
    kind: str,
    valid: tuple[datetime, datetime],
    registry: Registry,
) -> Grant:
    personal = before.personal
    if personal is None:
        raise InputError(f"decision `{before.decision_id}` was erased, so it cannot be approved")
    if before.verdict is Verdict.ALLOW:
        raise InputError(f"decision `{before.decision_id}` is ALLOW, so it needs no approval")
    if before.verdict is Verdict.ABSTAIN:
        raise InputError(
            "demur could not judge this request, so nobody can approve it",
            help=before.what_can_be_done_now,
        )
    if personal.requester is None:
        raise InputError(
            "the request names no subject to grant anything to",
            help="add `subject` to the request: {type: agent, id: billing}",
        )
    return sign_grant(
        key,
        grant_id=os.urandom(12).hex(),
        kind=kind,
        granted_to=personal.requester,
        scope={name: personal.scope[name] for name in _GRANT_SCOPE},
        not_before=valid[0],
        expires_at=valid[1],
        codes=_find_liftable(before, kind, registry),
    )


def _find_liftable(before: DecisionRecord, kind: str, registry: Registry) -> list[str]:
    """Return the codes that a grant of this kind lifts.

    Raises:
        InputError: It lifts none of them.
    """
    entries = [registry[code] for code in before.reason_codes]
    codes = [entry.code for entry in entries if kind in entry.grants]
    if codes:
        return codes
    kinds = sorted({str(other) for entry in entries for other in entry.grants})
    names = ", ".join(before.reason_codes)
    raise InputError(
        f"a grant of {kind} does not lift {names} ({before.refusal_class})",
        help=f"try --kind {' or '.join(kinds)}" if kinds else "no grant lifts it",
    )


def _describe_approval(
    before: DecisionRecord, after: DecisionRecord, grant: Grant, args: argparse.Namespace
) -> Iterator[str]:
    paint = Paint()
    ignored = {void.grant_id: void.why for void in after.ignored_grants}
    why = ignored.get(grant.grant_id)
    if why is None:
        until = f"{grant.expires_at:%Y-%m-%d %H:%M} UTC"
        codes = ", ".join(grant.codes)
        yield one_line(f"{grant.granted_by} lifts {codes} for {grant.granted_to}, until {until}")
    else:
        yield f"{paint('the grant was rejected:', 'bold', 'yellow')} {why.replace('_', ' ')}"
        advice = _advise_on_rejection(why, grant, args)
        if advice:
            yield f"  {paint('help:', 'cyan')} {one_line(advice)}"
    yield describe_record(after, paint, f"{after.decision_id} (resolves {before.decision_id})")
    if after.may_execute and why is None:
        yield "the caller may now repeat the request:"
        yield f"  demur decide FILE --continues {after.decision_id}"


def _advise_on_rejection(why: str, grant: Grant, args: argparse.Namespace) -> str | None:
    form = _REJECTION_HELP.get(GrantRejection(why))
    shown = args.config or "demur.toml"
    return None if form is None else form.format(config=shown, key=grant.key_id)
