"""`demur grant keygen`: create a key that can sign grants."""

import argparse
import os
from pathlib import Path

import msgspec

from demur.classification.keys import KEY_BYTES, SigningKey
from demur.cli.key_files import write_key_file, write_secret_file
from demur.codes.vocabulary import GrantKind
from demur.errors import InputError

__all__ = ["configure_grant_keygen", "run_grant_keygen"]


def configure_grant_keygen(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("name", metavar="NAME", help="writes NAME.key.json and NAME.trusted.json")
    parser.add_argument("--holder", required=True, help="who signs with it, e.g. `user:mary`")
    parser.add_argument("--algorithm", choices=["ed25519", "hmac-sha256"], default="ed25519")
    parser.add_argument(
        "--kind",
        action="append",
        default=[],
        choices=[str(word) for word in GrantKind],
        help="limit the key to this kind of grant",
    )


def run_grant_keygen(args: argparse.Namespace) -> int:
    """Write the signing key and the trusted key."""
    if not Path(args.name).name:
        raise InputError("a key needs a name", help="like `mary`, for mary.key.json")
    key = SigningKey.from_randomness(
        os.urandom(KEY_BYTES),
        key_id=Path(args.name).name,
        holder=args.holder,
        algorithm=args.algorithm,
        kinds=[GrantKind(kind) for kind in args.kind],
    )
    trusted = key.trusted_key()
    secret_path, trusted_path = Path(f"{args.name}.key.json"), Path(f"{args.name}.trusted.json")
    write_secret_file(secret_path, msgspec.json.encode(key))
    # A trusted HMAC key is the same secret, so it is protected in the same way.
    write = write_secret_file if args.algorithm == "hmac-sha256" else write_key_file
    write(trusted_path, msgspec.json.encode(trusted))
    print(f"{secret_path}: keep it with {args.holder} alone")
    print(f"{trusted_path}: give it to every gate that must trust {args.holder}")
    return 0
