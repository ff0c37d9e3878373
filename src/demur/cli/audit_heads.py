"""`demur audit heads`: export the heads of the chains, to keep them out of the store's reach."""

import argparse
import json
from pathlib import Path

from demur.cli.files import write_new
from demur.cli.workspace import add_config, existing_store, settings
from demur.gate.clock import system_clock, timestamp
from demur.store.heads import heads_document

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="write to this file; an existing file is never replaced",
    )
    add_config(parser)


def run(args: argparse.Namespace) -> int:
    """Export the heads as JSON."""
    with existing_store(settings(args)) as store:
        heads = store.heads()
    document = json.dumps(heads_document(heads, timestamp(system_clock())), indent=2)
    if args.out is None:
        print(document)
        return 0
    write_new(
        args.out, document + "\n", help_text="earlier exports are evidence: choose another file"
    )
    print(f"{args.out}: {len(heads)} head{'s' * (len(heads) != 1)}")
    print(
        "  keep it where the store's writers have no access; `demur audit verify --heads` reads it"
    )
    return 0
