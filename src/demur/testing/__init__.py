"""Helpers for tests of guards and of programs that call models, for any test runner.

Names are loaded when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from demur.testing.guard_contract import (
        allow_rows,
        assert_guard_contract,
        contract_breaches,
        refuse_rows,
    )
    from demur.testing.model_server import ModelServer

__all__ = ["ModelServer", "allow_rows", "assert_guard_contract", "contract_breaches", "refuse_rows"]

_HOME_OF = {
    "ModelServer": "demur.testing.model_server",
    "allow_rows": "demur.testing.guard_contract",
    "assert_guard_contract": "demur.testing.guard_contract",
    "contract_breaches": "demur.testing.guard_contract",
    "refuse_rows": "demur.testing.guard_contract",
}


def __getattr__(name: str) -> object:
    """Load a public name from the module it lives in."""
    if name not in _HOME_OF:
        message = f"module 'demur.testing' has no attribute {name!r}"
        raise AttributeError(message)
    value: object = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, loaded or not."""
    return sorted({*globals(), *__all__})
