"""The guards: each looks at one surface and says what it saw, by registered codes.

Names are loaded when first used, so that `import demur.guards` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from demur.guards.builtin import BUILTIN
    from demur.guards.checking import check
    from demur.guards.guard import Guard
    from demur.guards.installed import GuardError, find_installed

__all__ = ["BUILTIN", "Guard", "GuardError", "check", "find_installed"]

_HOME_OF = {
    "BUILTIN": "demur.guards.builtin",
    "Guard": "demur.guards.guard",
    "GuardError": "demur.guards.installed",
    "check": "demur.guards.checking",
    "find_installed": "demur.guards.installed",
}


def __getattr__(name: str) -> object:
    """Load a public name from the module it lives in."""
    if name not in _HOME_OF:
        message = f"module 'demur.guards' has no attribute {name!r}"
        raise AttributeError(message)
    value: object = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, loaded or not."""
    return sorted({*globals(), *__all__})
