"""demur: the refusal contract for AI agents.

One typed vocabulary of reasons, spoken by every guard, policy, model and provider.
Names are loaded when first used, so `import demur` costs next to nothing. More is public
one level down: `demur.codes`, `demur.policy`, `demur.enforce`, `demur.integrations.openai`, …
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from demur.classification import classify
    from demur.codes import KNOWN_CODES, ReasonCode, explain, format_refusal, parse_refusal
    from demur.detect import detect_refusal
    from demur.enforce import Enforcer, Refused, open_enforcer, safe_generate
    from demur.errors import DemurError
    from demur.gate import Gate, decide
    from demur.integrations.guarded import guarded
    from demur.model import Finding, Refusal
    from demur.policy import load_policy
    from demur.providers import normalize
    from demur.store import open_store
    from demur.version import __version__ as __version__

__all__ = [
    "KNOWN_CODES",
    "DemurError",
    "Enforcer",
    "Finding",
    "Gate",
    "ReasonCode",
    "Refusal",
    "Refused",
    "classify",
    "decide",
    "detect_refusal",
    "explain",
    "format_refusal",
    "guarded",
    "load_policy",
    "normalize",
    "open_enforcer",
    "open_store",
    "parse_refusal",
    "safe_generate",
]

_HOMES = {
    "demur.classification": "classify",
    "demur.codes": "KNOWN_CODES ReasonCode explain format_refusal parse_refusal",
    "demur.detect": "detect_refusal",
    "demur.enforce": "Enforcer Refused open_enforcer safe_generate",
    "demur.errors": "DemurError",
    "demur.gate": "Gate decide",
    "demur.integrations.guarded": "guarded",
    "demur.model": "Finding Refusal",
    "demur.policy": "load_policy",
    "demur.providers": "normalize",
    "demur.store": "open_store",
    "demur.version": "__version__",
}


def __getattr__(name: str) -> Any:
    """Load a public name from its home. Importing demur loads none of its modules."""
    for home, names in _HOMES.items():
        if name in names.split():
            value = globals()[name] = getattr(import_module(home), name)
            return value
    message = f"module 'demur' has no attribute {name!r}"
    raise AttributeError(message)


def __dir__() -> list[str]:
    """Return the public names, loaded or not."""
    return sorted({*globals(), *__all__})
