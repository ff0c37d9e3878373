"""The last reader: errors that nobody listed and that read like a refusal.

A newer code must not pass for an ordinary failure. Only fields that are meant for
machines are read; the words of a message decide nothing here.
"""

from demur.providers.mapping import UNSPECIFIED, looks_like_policy
from demur.providers.shape import Shape
from demur.providers.signal import Signal

__all__ = ["NAME", "read"]

NAME = "unlisted"
_STATUSES = frozenset({400, 403, 422, 446, 451})
_ORDINARY = frozenset({"permission_denied", "access_denied", "accessdeniedexception", "forbidden"})
_FIELDS = ("code", "type", "reason", "status", "error_code", "Code")


def read(shape: Shape) -> Signal | None:
    """Return an unexplained filter for an error whose code says that content was stopped."""
    if not shape.failed or (shape.status is not None and shape.status not in _STATUSES):
        return None
    for error in (shape.body["error"], shape.body["Error"], shape.body):
        for name in _FIELDS:
            word = error[name]
            if word.text and _says_blocked(word.text):
                return Signal(
                    NAME, word.path, word.raw, UNSPECIFIED, evidence={"native_reason": word.text}
                )
    return None


def _says_blocked(word: str) -> bool:
    return word.casefold().replace("-", "_") not in _ORDINARY and looks_like_policy(word)
