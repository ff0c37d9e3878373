"""The optional libraries of watching, asked for when they are used."""

from importlib import import_module
from typing import Any

from demur.errors import MissingExtraError

__all__ = ["require_module"]


def require_module(module: str, what: str, extra: str = "observe") -> Any:
    """Return an optional module that `what` needs.

    Raises:
        MissingExtraError: The module is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0].replace("_", "-")
        raise MissingExtraError(
            f"{what} need the `{package}` package", help=f"pip install 'demur[{extra}]'"
        ) from error
