"""Public names of a package, each loaded from its module when it is first used."""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(
    package: dict[str, Any], homes: Mapping[str, Iterable[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of the package whose globals are given.

    `homes` says which names live in which module.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def load(name: str) -> Any:
        if name not in home_of:
            message = f"module {package['__name__']!r} has no attribute {name!r}"
            raise AttributeError(message)
        value = package[name] = getattr(import_module(home_of[name]), name)
        return value

    def listed() -> list[str]:
        return sorted({*package, *home_of})

    return load, listed
