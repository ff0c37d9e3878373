"""Options that several commands share, in the same words."""

import argparse

__all__ = ["add_registry"]


def add_registry(parser: argparse.ArgumentParser) -> None:
    """Add `--registry FILE`, to be handed to `default_registry`."""
    parser.add_argument(
        "--registry",
        action="append",
        default=[],
        metavar="FILE",
        help="also know the codes of this organisation's registry; may be given often",
    )
