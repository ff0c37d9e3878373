"""The guards: each looks at one surface and says what it saw, by registered codes.

Names are loaded when first used, so that `import demur.guards` costs next to nothing.
"""

from typing import TYPE_CHECKING

from demur.source.lazy import lazy_names

if TYPE_CHECKING:
    from demur.guards.builtin import BUILTIN, check
    from demur.guards.contract import Guard, GuardError, find_installed

__all__ = ["BUILTIN", "Guard", "GuardError", "check", "find_installed"]

_HOMES = {
    "demur.guards.builtin": ("BUILTIN", "check"),
    "demur.guards.contract": ("Guard", "GuardError", "find_installed"),
}
__getattr__, __dir__ = lazy_names(globals(), _HOMES)
