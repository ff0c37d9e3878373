"""Plain Python: a function that runs only if the gate lets it, and a block that does.

The call is decided by its arguments before anything happens. What was allowed within limits
reaches the function: as its keyword-only parameter `constraints`, or by `current_ruling()`.
"""

from demur.integrations.guarded.block import guarding
from demur.integrations.guarded.current import current_ruling
from demur.integrations.guarded.decorator import guarded

__all__ = ["current_ruling", "guarded", "guarding"]
