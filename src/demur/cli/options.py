"""Options that several commands share."""

import argparse

__all__ = ["add_registry_option"]


def add_registry_option(parser: argparse.ArgumentParser) -> None:
    """Add `--registry FILE`, which `default_registry` reads."""
    parser.add_argument(
        "--registry",
        action="append",
        default=[],
        metavar="FILE",
        help="also load the codes of this organisation's registry; repeatable",
    )
