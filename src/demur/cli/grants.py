"""`demur grant`: make keys, sign, verify and revoke grants; read and write their files."""

import json
import os
import sys
from argparse import Namespace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from demur.cli.main import Arguments, UsageError
from demur.cli.options import STANDARD_INPUT, hint_terminal, parse_period, require_code
from demur.codes.loading import default_registry
from demur.codes.registry import Registry
from demur.codes.vocabulary import GrantKind
from demur.errors import GrantError, error_reason
from demur.grants import (
    KEY_BYTES,
    SigningKey,
    check_grant,
    read_grant_file,
    read_key_ring,
    read_revocations,
    read_signing_key,
    sign_grant,
)
from demur.model.grant import Grant


def _write_key(path: Path, content: bytes, *, secret: bool) -> None:
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
    )
    trusted = key.trusted_key()
    secret_path, trusted_path = Path(f"{args.name}.key.json"), Path(f"{args.name}.trusted.json")
    _write_key(secret_path, msgspec.json.encode(key), secret=True)
    # A trusted HMAC key is the same secret, so it is protected in the same way.
    shared = args.algorithm == "hmac-sha256"
    _write_key(trusted_path, msgspec.json.encode(trusted), secret=shared)
    print(f"{secret_path}: keep it with {args.holder} alone")
    print(f"{trusted_path}: give it to every gate that must trust {args.holder}")
    return 0


def configure_grant_create(add: Arguments) -> None:
    """Add the command's arguments."""
    add("kind", "the kind of grant", choices=[str(word) for word in GrantKind])
    add("--key KEY", "the signing key's file", required=True, type=Path)
    add("--to TO", "who may use it, e.g. `agent:billing`", required=True)
    add("--scope KEY=VALUE ...", "the scope it covers", required=True, default=None)
    add("--code CODE ...", "lift only this code")
    add("--for PERIOD", "validity, like 30m, 8h, 7d", dest="period", default="1h")
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
    why = check_grant(
        grant, read_key_ring(args.trust), now=now, revoked=read_revocations(args.revoked)
    )
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
    add("--revoked REVOKED", "the revocation list to add to", required=True, type=Path)


def run_grant_revoke(args: Namespace) -> int:
    """Add the id, and replace the list in one step, so that readers never see half of it."""
    before = read_revocations(args.revoked) if args.revoked.exists() else frozenset()
    ids = sorted(before | {args.grant_id})
    draft = args.revoked.with_name(f"{args.revoked.name}.new")
    draft.write_text(json.dumps(ids, indent=2) + "\n", encoding="utf-8")
    draft.replace(args.revoked)
    print(f"revoked {args.grant_id}: {len(ids)} on the list {args.revoked}")
    return 0
