"""`demur grant`: make keys, sign, verify, list and revoke grants."""

import json
import os
import sys
from argparse import Namespace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from demur.cli.main import Arguments, UsageError
from demur.cli.options import STANDARD_INPUT, hint_terminal, parse_period, require_code
from demur.cli.terminal import Paint, format_table
from demur.cli.workspace import (
    add_config_option,
    add_tenant_option,
    load_settings,
    open_existing_store,
)
from demur.codes.loading import default_registry
from demur.codes.registry import Registry
from demur.codes.vocabulary import GrantKind
from demur.errors import GrantError, InputError, error_reason, one_line
from demur.gate.clock import format_timestamp, system_clock
from demur.gate.config import Config, open_configured_store
from demur.gate.grants import GrantView, list_grant_views
from demur.grants.keys import (
    KEY_BYTES,
    SigningKey,
    read_grant_file,
    read_key_ring,
    read_signing_key,
)
from demur.grants.resolution import check_grant
from demur.grants.revocations import RevocationFile
from demur.grants.signing import sign_grant
from demur.model.grant import Grant
from demur.store.grant_tables import ALL_TENANTS, Revocation


def write_key_file(path: Path, content: bytes, *, secret: bool) -> None:
    """Write a new file, readable by its owner only if it is secret; never replace one."""
    mode = 0o600 if secret else 0o644
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except OSError as error:
        raise GrantError(f"cannot write: {error_reason(error)}", where=str(path)) from error
    with os.fdopen(descriptor, "wb") as file:
        file.write(content + b"\n")


def configure_grant_keygen(add: Arguments) -> None:
    """Add the command's arguments."""
    add("name NAME", "writes NAME.key.json and NAME.trusted.json")
    add("--holder HOLDER", "who signs with it, e.g. `user:mary`", required=True)
    add("--algorithm", choices=["ed25519", "hmac-sha256"], default="ed25519")
    kinds = [str(kind) for kind in GrantKind]
    add("--kind ...", "limit the key to this kind of grant", choices=kinds)
    add("--tenant TENANT ...", "limit the key to grants for this tenant")


def run_grant_keygen(args: Namespace) -> int:
    """Write the signing key and the trusted key."""
    if not Path(args.name).name:
        raise UsageError("a key needs a name", help="like `mary`, for mary.key.json")
    key = SigningKey.from_randomness(
        os.urandom(KEY_BYTES),
        key_id=Path(args.name).name,
        holder=args.holder,
        algorithm=args.algorithm,
        kinds=[GrantKind(kind) for kind in args.kind],
        tenants=args.tenant,
    )
    trusted = key.trusted_key()
    secret_path, trusted_path = Path(f"{args.name}.key.json"), Path(f"{args.name}.trusted.json")
    write_key_file(secret_path, msgspec.json.encode(key), secret=True)
    # A trusted HMAC key is the same secret, so it is protected in the same way.
    shared = args.algorithm == "hmac-sha256"
    write_key_file(trusted_path, msgspec.json.encode(trusted), secret=shared)
    print(f"{secret_path}: keep it with {args.holder} alone")
    print(f"{trusted_path}: give it to every gate that must trust {args.holder}")
    return 0


def configure_grant_create(add: Arguments) -> None:
    """Add the command's arguments."""
    add("kind", "the kind of grant", choices=[str(word) for word in GrantKind])
    add("--key KEY", "the signing key's file", required=True, type=Path)
    add("--to TO", "who may use it, e.g. `agent:billing`", required=True)
    add(
        "--scope KEY=VALUE ...",
        "the scope it covers; without `tenant=NAME` it is for the tenant `default`",
        required=True,
        default=None,
    )
    add("--code CODE ...", "lift only this code")
    add("--for PERIOD", "validity, like 30m, 8h, 7d", dest="period", default="1h")
    add("--uses N", "how many decisions it may allow; default: any number", type=int)
    add("--id ID", "the id of the grant; default: a random id")


def run_grant_create(args: Namespace) -> int:
    """Print the signed grant as JSON."""
    registry = default_registry()
    now = datetime.now(UTC).replace(microsecond=0)  # noqa: TID251 - the command is where the clock enters
    scope: dict[str, str] = {}
    for key, value in map(_parse_pair, args.scope):
        if key in scope:
            raise UsageError(f"the scope names `{key}` twice", help="sign a grant for each value")
        scope[key] = value
    grant = sign_grant(
        read_signing_key(args.key),
        grant_id=args.id or os.urandom(12).hex(),
        kind=args.kind,
        granted_to=args.to,
        scope=scope,
        not_before=now,
        expires_at=now + parse_period(args.period),
        codes=[_require_liftable(code, args.kind, registry) for code in args.code],
        uses=args.uses,
    )
    print(grant.to_json().decode())
    return 0


def _require_liftable(code: str, kind: str, registry: Registry) -> str:
    entry = registry[require_code(code, registry)]
    if kind not in entry.grants:
        kinds = ", ".join(entry.grants)
        help_text = f"it is lifted by {kinds}" if kinds else "no grant lifts it"
        raise UsageError(f"a grant of {kind} does not lift `{entry.code}`", help=help_text)
    return entry.code


def _parse_pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals and value):
        raise UsageError(f"a scope is KEY=VALUE, not `{text}`", help="like `action=refund`")
    return key, value


REJECTED = 3


def configure_grant_verify(add: Arguments) -> None:
    """Add the command's arguments."""
    add("grant", "the grant's file; `-` is standard input", type=Path)
    add("--trust TRUST ...", "a trusted key's file", required=True, type=Path, default=None)
    add("--revoked REVOKED", "the revocation list", type=Path)
    add("--json", "the result as JSON")


def run_grant_verify(args: Namespace) -> int:
    """Print whether the grant is valid, or why it is not."""
    if str(args.grant) == STANDARD_INPUT:
        hint_terminal("the grant")
        grant = Grant.from_json(sys.stdin.buffer.read())
    else:
        grant = Grant.from_json(read_grant_file(args.grant))
    now = datetime.now(UTC)  # noqa: TID251 - the command is where the clock enters
    revoked = () if args.revoked is None else RevocationFile(args.revoked).read()
    why = check_grant(grant, read_key_ring(args.trust), now=now, revoked=revoked)
    if args.json:
        print(json.dumps({"grant_id": grant.grant_id, "valid": why is None, "why": why}))
    elif why is None:
        scope = ", ".join(f"{key}={value}" for key, value in grant.scope.items())
        print(f"valid: {grant.granted_by} grants {grant.kind} to {grant.granted_to} for {scope}")
        print(f"  until {grant.expires_at.isoformat()}")
    else:
        print(f"rejected: {why.replace('_', ' ')}")
    return 0 if why is None else REJECTED


def configure_grant_revoke(add: Arguments) -> None:
    """Add the command's arguments."""
    add("grant_id GRANT_ID", "the id of the grant")
    add("--revoked FILE", "write to this revocation file only", type=Path)
    add_tenant_option(add, "only for this tenant; default: for all tenants")
    add("--note TEXT", "why it is revoked", default="")
    add("--json", "one JSON object")
    add_config_option(add)


def run_grant_revoke(args: Namespace) -> int:
    """Revoke the grant where gates look, and say who will see it."""
    if not args.grant_id.strip() or not args.grant_id.isprintable():
        raise UsageError("a grant id is printable text", help="`demur grant list` lists them")
    if args.revoked is not None:
        if args.tenant or args.note:
            raise UsageError("a revocation file holds ids only", help="drop --tenant and --note")
        places = [_revoke_in_file(args.revoked, args.grant_id)]
    else:
        places = _revoke_by_settings(args, load_settings(args))
    if args.json:
        written = [place for place, _ in places]
        print(json.dumps({"grant_id": args.grant_id, "written_to": written}))
        return 0
    print(f"revoked {args.grant_id}")
    for place, seen_by in places:
        print(f"  {place}: {seen_by}")
    return 0


def _revoke_by_settings(args: Namespace, config: Config) -> list[tuple[str, str]]:
    if not config.store and not config.revocations:
        raise InputError(
            "the settings name neither a store nor a revocation file",
            help='set `store` or `revocations = "revoked.json"`, or name a file with --revoked',
        )
    if args.tenant and config.revocations:
        raise UsageError(
            "the settings name a revocation file, which holds for all tenants",
            help="drop --tenant",
        )
    places = []
    # A grant can be revoked before the first decision creates the store.
    opened = open_configured_store(config)
    if opened is not None:
        with opened as store:
            revocation = Revocation(
                tenant=args.tenant or ALL_TENANTS,
                grant_id=args.grant_id,
                revoked_at=format_timestamp(system_clock()),
                revoked_by="command line",
                note=args.note,
            )
            is_new = store.revoke_grant(revocation)
        whose = f"for the tenant {args.tenant}" if args.tenant else "for all tenants"
        before = "" if is_new else " (it was revoked before)"
        seen_by = f"every gate over this store sees it at its next decision, {whose}{before}"
        places.append((config.store, seen_by))
    if config.revocations:
        places.append(_revoke_in_file(Path(config.revocations), args.grant_id))
    return places


def _revoke_in_file(path: Path, grant_id: str) -> tuple[str, str]:
    count = len(RevocationFile(path).add([grant_id]))
    seen_by = "gates whose settings name it as `revocations` see it at their next decision"
    return str(path), f"{count} on the list; {seen_by}"


def configure_grant_list(add: Arguments) -> None:
    """Add the command's arguments."""
    add_tenant_option(add)
    add("--json", "one JSON object per grant")
    add_config_option(add)


def run_grant_list(args: Namespace) -> int:
    """Print the grants that came with decisions, and those that were revoked."""
    config = load_settings(args)
    now = format_timestamp(system_clock())
    with open_existing_store(config) as store:
        views = list_grant_views(store, now, tenant=args.tenant)
    views = [_add_revocations(view, config) for view in views]
    if args.json:
        for view in views:
            print(msgspec.json.encode(view).decode())
        return 0
    paint = Paint()
    if not views:
        print(paint("no grants; they are listed once a decision was made with them", "dim"))
        return 0
    head = ("GRANT", "STATE", "TENANT", "KIND", "BY", "TO", "UNTIL")
    print(format_table(map(_grant_row, views), head, paint))
    return 0


def _add_revocations(view: GrantView, config: Config) -> GrantView:
    """Return the view, revoked if the settings or their revocation file say so."""
    in_file: frozenset[str] = frozenset()
    if config.revocations:
        in_file = RevocationFile(config.revocations).read()
    is_revoked = view.grant_id in in_file or view.grant_id in config.revoked
    return msgspec.structs.replace(view, state="revoked") if is_revoked else view


def _grant_row(view: GrantView) -> tuple[str, ...]:
    grant = view.grant
    tenant = one_line(view.tenant or "(all)")
    if grant is None:
        return (one_line(view.grant_id), view.state, tenant, "", "", "", "")
    used = "" if grant.max_uses is None else f", used {view.used} of {grant.max_uses}"
    names = map(one_line, (grant.kind, grant.granted_by, grant.granted_to))
    until = f"{grant.expires_at:%Y-%m-%d %H:%M}"
    return (one_line(view.grant_id), f"{view.state}{used}", tenant, *names, until)


def configure_grant_show(add: Arguments) -> None:
    """Add the command's arguments."""
    add("grant_id GRANT_ID", "the id of the grant")
    add_tenant_option(add)
    add("--signed", "the grant as it was signed, for an audit: keep it to yourself")
    add_config_option(add)


def run_grant_show(args: Namespace) -> int:
    """Print what is known of a grant as JSON."""
    config = load_settings(args)
    now = format_timestamp(system_clock())
    with open_existing_store(config) as store:
        views = list_grant_views(store, now, tenant=args.tenant, grant_id=args.grant_id)
        rows = store.list_grants(args.tenant, args.grant_id)
    if not views:
        help_text = "`demur grant list` lists those that came with decisions"
        raise InputError(f"there is no grant `{args.grant_id}`", help=help_text)
    if args.signed:
        for row in rows:
            print(row.signed_grant)
        return 0
    for view in views:
        print(msgspec.json.format(msgspec.json.encode(_add_revocations(view, config))).decode())
    return 0
