"""What is told when an engine cannot be had, or could not finish."""

from importlib import import_module
from typing import Any

from demur.errors import DemurError, MissingExtraError

__all__ = ["EngineError", "engine_failure", "import_package"]

_MAX_ERROR_LENGTH = 300
_INSTALL = {
    "pyarrow": "pip install 'demur[arrow]'",
    "pyspark": "pip install 'pyspark[sql]'",
    "ray": "pip install ray",
}


class EngineError(DemurError):
    """An engine could not finish the work."""


def import_package(package: str) -> Any:
    """Import and return a package.

    Raises:
        MissingExtraError: The package is not installed.
    """
    try:
        return import_module(package)
    except ImportError as error:
        help_text = _INSTALL.get(package.partition(".")[0])
        raise MissingExtraError(f"this needs the `{package}` package", help=help_text) from error


def engine_failure(engine: str, error: Exception) -> EngineError:
    """Return the error to raise when an engine failed."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # Engines print whole stacks; the last line with an error is the worker's own.
    told = next((line for line in reversed(lines) if "Error: " in line), (lines or ["?"])[0])
    help_text = "demur must be installed on every worker, with the same version of Python"
    return EngineError(f"{engine} could not finish: {told[:_MAX_ERROR_LENGTH]}", help=help_text)
