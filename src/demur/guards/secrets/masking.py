"""How a secret is named without being told: its first characters and its length."""

from demur.codes.reason_code import ReasonCode
from demur.guards.text_rules.seeking import TextMatch
from demur.model.finding import Action

__all__ = ["mask_secret", "secret_match"]

_SHOWN_CHARACTERS = 4
# Four characters would reveal too much of a shorter secret.
_MIN_SHOWN_LENGTH = 16


def mask_secret(secret: str) -> str:
    """Return the start of `secret` and its length; never more than a quarter is shown."""
    head = secret[:_SHOWN_CHARACTERS] if len(secret) >= _MIN_SHOWN_LENGTH else ""
    return f"{head}… ({len(secret)} characters)"


def secret_match(kind: str, secret: str, start: int, action: Action) -> TextMatch:
    """Return the match of a credential that begins at `start`."""
    end = start + len(secret)
    detail = f"{kind} {mask_secret(secret)}"
    return TextMatch(start, end, ReasonCode.SECRET_LEAK, action, detail, {"kind": kind})
