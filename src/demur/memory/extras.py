"""The optional libraries of memory, or None where they are not installed."""

import importlib
from functools import cache
from typing import Any

__all__ = ["load_numpy", "load_usearch"]


@cache
def load_numpy() -> Any:
    """Return the module `load_numpy`, or None where it is not installed."""
    return _import_optional("numpy")


@cache
def load_usearch() -> Any:
    """Return the module `load_usearch.index`, or None where it or numpy is not installed."""
    return None if load_numpy() is None else _import_optional("usearch.index")


def _import_optional(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
