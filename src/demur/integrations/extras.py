"""What to say where a framework is not installed."""

from demur.errors import MissingExtraError

__all__ = ["missing_extra"]


def missing_extra(extra: str, package: str | None = None) -> MissingExtraError:
    """Return the error that says what to install; `package` is its name if it differs."""
    return MissingExtraError(
        f"this adapter needs the `{package or extra}` package", help=f"pip install 'demur[{extra}]'"
    )
