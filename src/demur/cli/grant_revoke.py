"""`demur grant revoke`: add a grant to a revocation list."""

import argparse
import json
from pathlib import Path

from demur.cli.key_files import read_revocations

__all__ = ["configure_grant_revoke", "run_grant_revoke"]


def configure_grant_revoke(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("grant_id", metavar="GRANT_ID", help="the id of the grant")
    parser.add_argument("--revoked", required=True, type=Path, help="the revocation list to add to")


def run_grant_revoke(args: argparse.Namespace) -> int:
    """Add the id, and replace the list in one step, so that readers never see half of it."""
    before = read_revocations(args.revoked) if args.revoked.exists() else frozenset()
    ids = sorted(before | {args.grant_id})
    draft = args.revoked.with_name(f"{args.revoked.name}.new")
    draft.write_text(json.dumps(ids, indent=2) + "\n", encoding="utf-8")
    draft.replace(args.revoked)
    print(f"revoked {args.grant_id}: {len(ids)} on the list {args.revoked}")
    return 0
