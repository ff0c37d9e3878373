"""Code that the adapters share. Private: import from `demur.integrations.<framework>`."""

from demur.errors import MissingExtraError
from demur.integrations._kit.model_api import CallTrace, ModelAttempt, read_check_result, read_trace

__all__ = ["CallTrace", "ModelAttempt", "read_check_result", "read_trace"]


def missing_extra(extra: str, package: str | None = None) -> MissingExtraError:
    """Return the error that names the extra to install, and the package if its name differs."""
    return MissingExtraError(
        f"this adapter needs the `{package or extra}` package", help=f"pip install 'demur[{extra}]'"
    )
