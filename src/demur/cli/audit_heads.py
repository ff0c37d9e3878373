"""`demur audit heads`: export where the chains end, to be kept where nobody can rewrite it."""

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
        help="write there, not to the screen; an earlier export is never replaced",
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
        args.out, document + "\n", help_text="earlier exports are evidence: name another file"
    )
    print(f"{args.out}: {len(heads)} head{'s' * (len(heads) != 1)}")
    print(
        "  keep it where whoever writes to the store cannot; `demur audit verify --heads` reads it"
    )
    return 0
