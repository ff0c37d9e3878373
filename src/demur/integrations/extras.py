"""The error for a framework that is not installed."""

from demur.errors import MissingExtraError

__all__ = ["missing_extra"]


def missing_extra(extra: str, package: str | None = None) -> MissingExtraError:
    """Return the error that names the extra to install, and the package if its name differs."""
    return MissingExtraError(
        f"this adapter needs the `{package or extra}` package", help=f"pip install 'demur[{extra}]'"
    )
