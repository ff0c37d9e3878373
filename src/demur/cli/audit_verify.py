"""`demur audit verify`: prove that no record was changed, moved or lost."""

import argparse
import json
from pathlib import Path
from typing import Any

from demur.cli.terminal import Paint
from demur.cli.workspace import (
    add_config_option,
    add_tenant_option,
    open_existing_store,
    load_settings,
)
from demur.errors import InputError, one_line
from demur.store.backend import Backend
from demur.store.heads import read_heads
from demur.store.rows import ChainHead
from demur.store.verify import ChainBreak, ChainVerification, verify_chain

__all__ = ["configure_audit_verify", "run_audit_verify"]


def configure_audit_verify(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "exit: 0 the chains are valid; 1 a chain is broken, or an error; 2 usage"
    add_tenant_option(parser)
    parser.add_argument(
        "--from",
        dest="first",
        type=int,
        default=1,
        metavar="SEQ",
        help="the first record to verify",
    )
    parser.add_argument(
        "--to", dest="last", type=int, metavar="SEQ", help="the last record to verify"
    )
    parser.add_argument(
        "--heads",
        type=Path,
        metavar="FILE",
        help="heads exported by `demur audit heads`: they reveal records cut off since then",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    add_config_option(parser)


def run_audit_verify(args: argparse.Namespace) -> int:
    """Print whether the chains are valid; 1 if one is not."""
    if args.first < 1 or (args.last is not None and args.last < args.first):
        raise InputError("records are numbered from 1, and --to must not be before --from")
    heads = [] if args.heads is None else _read_heads_file(args.heads)
    with open_existing_store(load_settings(args)) as store:
        if args.tenant is not None:
            _check_tenant(args.tenant, store.backend, heads)
        found = verify_chain(
            store.backend, args.tenant, first=args.first, last=args.last, heads=heads
        )
    if args.json:
        print(json.dumps(_verification_to_json(found), indent=2))
    else:
        _print_verification(found, exported=args.heads is not None)
    return int(not found.holds)


def _read_heads_file(path: Path) -> list[ChainHead]:
    try:
        return read_heads(json.loads(path.read_bytes()))
    except InputError as error:
        raise InputError(error.problem, where=str(path), help=error.help) from error
    except OSError as error:
        reason = str(error.strerror or error).lower()
        raise InputError(f"cannot read the heads: {reason}", where=str(path)) from error
    except (ValueError, RecursionError) as error:
        raise InputError("not exported heads: not JSON", where=str(path)) from error


def _check_tenant(tenant: str, backend: Backend, heads: list[ChainHead]) -> None:
    """Reject an unknown tenant: a valid empty chain would prove nothing."""
    known = sorted({*backend.list_tenants(), *(head.tenant for head in heads)})
    if tenant not in known:
        named = f"there are {', '.join(known)}" if known else "there are no records yet"
        raise InputError(f"there is no tenant `{tenant}`", help=named)


def _verification_to_json(found: ChainVerification) -> dict[str, Any]:
    breaks = [broken._asdict() for broken in found.breaks]
    return {"holds": found.holds, **found._asdict(), "breaks": breaks}


def _print_verification(found: ChainVerification, *, exported: bool) -> None:
    paint = Paint()
    for broken in found.breaks:
        print(f"{paint('broken:', 'bold', 'red')} {one_line(_describe_break(broken))}")
    records = f"{found.records} record{'s' * (found.records != 1)}"
    tenants = f"{found.tenants} tenant{'s' * (found.tenants != 1)}"
    more = [
        f"{count} {word}"
        for count, word in ((found.erased, "erased"), (found.unconfirmed, "unconfirmed"))
        if count
    ]
    said = f"{records} of {tenants}" + (f" ({', '.join(more)})" if more else "")
    if not found.holds:
        print(paint(f"{said} read up to there", "dim"))
    elif not found.records:
        print("no records yet: nothing to verify")
    else:
        print(f"{paint('ok', 'green')} the chains are valid: {said}")
        if not exported:
            hint = "--heads with an earlier export also reveals records that were cut off"
            print(paint(hint, "dim"))


def _describe_break(broken: ChainBreak) -> str:
    named = "" if broken.decision_id is None else f" ({broken.decision_id})"
    return f"tenant {broken.tenant}, record {broken.seq}{named}: {broken.problem}"
