"""Public names of a package that are loaded from their modules on first use."""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: dict[str, Any], homes: Mapping[str, Iterable[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for the package with the globals `package`.

    `homes` maps each module to the names that it defines, as a list or a text with spaces.
    """
    home_of = {
        name: home
        for home, names in homes.items()
        for name in (names.split() if isinstance(names, str) else names)
    }

    def load(name: str) -> Any:
        if name not in home_of:
            message = f"module {package['__name__']!r} has no attribute {name!r}"
            raise AttributeError(message)
        value = package[name] = getattr(import_module(home_of[name]), name)
        return value

    def list_names() -> list[str]:
        return sorted({*package, *home_of})

    return load, list_names
