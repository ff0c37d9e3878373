"""The optional libraries of memory, or None where they are not installed."""

import importlib
from functools import cache
from typing import Any

__all__ = ["numpy", "usearch"]


@cache
def numpy() -> Any:
    """Return the module `numpy`, or None where it is not installed."""
    return _found("numpy")


@cache
def usearch() -> Any:
    """Return the module `usearch.index`, or None where it or numpy is not installed."""
    return None if numpy() is None else _found("usearch.index")


def _found(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
