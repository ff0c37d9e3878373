"""Plain Python: `@guarded` functions and `with guarding(...)` blocks.

The enforcer checks the call with its arguments before the body runs. Constraints of an allowed
call reach the function as its keyword-only parameter `constraints`, or by `current_check_result()`.
"""

from demur.integrations.guarded.block import guarding
from demur.integrations.guarded.current import current_check_result
from demur.integrations.guarded.decorator import guarded

__all__ = ["current_check_result", "guarded", "guarding"]
