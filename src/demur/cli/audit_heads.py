"""`demur audit list_heads`: export the heads of the chains, to keep them out of the store's reach."""

import argparse
import json
from pathlib import Path

from demur.cli.files import write_new_file
from demur.cli.workspace import add_config_option, open_existing_store, load_settings
from demur.gate.clock import system_clock, format_timestamp
from demur.store.heads import heads_document

__all__ = ["configure_audit_heads", "run_audit_heads"]


def configure_audit_heads(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="write to this file; an existing file is never replaced",
    )
    add_config_option(parser)


def run_audit_heads(args: argparse.Namespace) -> int:
    """Export the heads as JSON."""
    with open_existing_store(load_settings(args)) as store:
        heads = store.list_heads()
    document = json.dumps(heads_document(heads, format_timestamp(system_clock())), indent=2)
    if args.out is None:
        print(document)
        return 0
    write_new_file(
        args.out, document + "\n", help_text="earlier exports are evidence: choose another file"
    )
    print(f"{args.out}: {len(heads)} head{'s' * (len(heads) != 1)}")
    print(
        "  keep it where the store's writers have no access; `demur audit verify --heads` reads it"
    )
    return 0
