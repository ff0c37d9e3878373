"""How a secret is named without being told: its first characters and its length."""

from demur.codes.reason_code import ReasonCode
from demur.guards.text_rules.seeking import Seen
from demur.model.finding import Action

__all__ = ["masked", "secret_seen"]

_SHOWN = 4
# Of a shorter secret, four characters would be too large a part.
_SHORTEST_SHOWN = 16


def masked(secret: str) -> str:
    """Return what may be said of `secret`: never more than a quarter of it."""
    head = secret[:_SHOWN] if len(secret) >= _SHORTEST_SHOWN else ""
    return f"{head}… ({len(secret)} characters)"


def secret_seen(kind: str, secret: str, start: int, action: Action) -> Seen:
    """Return the sighting of a credential that begins at `start`."""
    end = start + len(secret)
    detail = f"{kind} {masked(secret)}"
    return Seen(start, end, ReasonCode.SECRET_LEAK, action, detail, {"kind": kind})
