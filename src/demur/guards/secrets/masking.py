"""How a secret is named without being told: its first characters and its length."""

from demur.codes.reason_code import ReasonCode
from demur.guards.text_rules.seeking import Seen
from demur.model.finding import Action

__all__ = ["masked", "secret_seen"]

_SHOWN = 4
# Four characters would reveal too much of a shorter secret.
_SHORTEST_SHOWN = 16


def masked(secret: str) -> str:
    """Return the start of `secret` and its length; never more than a quarter is shown."""
    head = secret[:_SHOWN] if len(secret) >= _SHORTEST_SHOWN else ""
    return f"{head}… ({len(secret)} characters)"


def secret_seen(kind: str, secret: str, start: int, action: Action) -> Seen:
    """Return the match of a credential that begins at `start`."""
    end = start + len(secret)
    detail = f"{kind} {masked(secret)}"
    return Seen(start, end, ReasonCode.SECRET_LEAK, action, detail, {"kind": kind})
