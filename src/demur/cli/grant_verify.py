"""`demur grant verify`: check a grant offline."""

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from demur.classification.grants import check_grant
from demur.cli.key_files import read_file, read_revocations, read_key_ring
from demur.model.grant import Grant

__all__ = ["configure_grant_verify", "run_grant_verify"]

REJECTED = 3


def configure_grant_verify(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("grant", type=Path, help="the grant's file; `-` is standard input")
    parser.add_argument(
        "--trust", action="append", required=True, type=Path, help="a trusted key's file"
    )
    parser.add_argument("--revoked", type=Path, help="the revocation list")
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    parser.epilog = f"exit: 0 genuine and valid now, {REJECTED} rejected, 1 error, 2 usage"


def run_grant_verify(args: argparse.Namespace) -> int:
    """Print whether the grant is valid, or why it is not."""
    grant = Grant.from_json(
        sys.stdin.buffer.read() if str(args.grant) == "-" else read_file(args.grant)
    )
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
