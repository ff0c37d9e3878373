"""`demur grant create`: sign a grant."""

import argparse
import os
from datetime import UTC, datetime
from pathlib import Path

from demur.classification.grants import sign_grant
from demur.cli.key_files import read_signing_key
from demur.cli.moments import parse_period
from demur.codes.default import default_registry
from demur.codes.entry import Entry
from demur.codes.vocabulary import GrantKind
from demur.errors import InputError

__all__ = ["configure_grant_create", "run_grant_create"]


def configure_grant_create(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("kind", choices=[str(word) for word in GrantKind], help="the kind of grant")
    parser.add_argument("--key", required=True, type=Path, help="the signing key's file")
    parser.add_argument("--to", required=True, help="who may use it, e.g. `agent:billing`")
    parser.add_argument(
        "--scope", action="append", required=True, metavar="KEY=VALUE", help="the scope it covers"
    )
    parser.add_argument("--code", action="append", default=[], help="lift only this code")
    parser.add_argument("--for", dest="period", default="1h", help="validity, like 30m, 8h, 7d")
    parser.add_argument("--id", help="the id of the grant; default: a random id")


def run_grant_create(args: argparse.Namespace) -> int:
    """Print the signed grant as JSON."""
    registry = default_registry()
    now = datetime.now(UTC).replace(microsecond=0)  # noqa: TID251 - the command is where the clock enters
    grant = sign_grant(
        read_signing_key(args.key),
        grant_id=args.id or os.urandom(12).hex(),
        kind=args.kind,
        granted_to=args.to,
        scope=_parse_scope(args.scope),
        not_before=now,
        expires_at=now + parse_period(args.period),
        codes=[_require_liftable(registry[code], args.kind) for code in args.code],
    )
    print(grant.to_json().decode())
    return 0


def _parse_scope(texts: list[str]) -> dict[str, str]:
    scope: dict[str, str] = {}
    for key, value in map(_parse_pair, texts):
        if key in scope:
            raise InputError(f"the scope names `{key}` twice", help="sign a grant for each value")
        scope[key] = value
    return scope


def _require_liftable(entry: Entry, kind: str) -> str:
    if kind not in entry.grants:
        kinds = ", ".join(entry.grants)
        help_text = f"it is lifted by {kinds}" if kinds else "no grant lifts it"
        raise InputError(f"a grant of {kind} does not lift `{entry.code}`", help=help_text)
    return entry.code


def _parse_pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals and value):
        raise InputError(f"a scope is KEY=VALUE, not `{text}`", help="like `action=refund`")
    return key, value
