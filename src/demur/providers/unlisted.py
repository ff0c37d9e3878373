"""The last reader: errors that no mapping lists and that look like a refusal.

A new error code must not pass as an ordinary failure. Only typed fields are read, never the
text of a message.
"""

import re

from demur.providers.shape import ResponseShape
from demur.providers.signals import UNSPECIFIED_CODE, Signal, looks_like_policy

__all__ = ["NAME", "read"]

NAME = "unlisted"
_STATUSES = frozenset({400, 403, 422, 446, 451})
# Errors about permissions, settings and malformed requests use similar words.
_ORDINARY = re.compile(
    r"access|auth|permission|feature|subscription|_key|credential|network|firewall"
    r"|^(?:request_)?forbidden|^(?:invalid|malformed|missing|unknown|unsupported)_"
)
_OF_CONTENT = re.compile(r"content|guardrail|harm|moderat|nsfw|safety|toxic|prompt|jailbr|violat")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_FIELDS = ("code", "type", "reason", "status", "error_code", "Code")


def read(shape: ResponseShape) -> Signal | None:
    """Return an unspecified filter for an error whose code looks like blocked content."""
    if not shape.failed or (shape.status is not None and shape.status not in _STATUSES):
        return None
    for error in (shape.body["error"], shape.body["Error"], shape.body):
        for name in _FIELDS:
            word = error[name]
            if word.text and _says_blocked(word.text):
                return Signal(
                    NAME,
                    word.path,
                    word.raw,
                    UNSPECIFIED_CODE,
                    evidence={"native_reason": word.text},
                )
    return None


def _says_blocked(word: str) -> bool:
    if not looks_like_policy(word):
        return False
    plain = _HUMP.sub("_", word).lower().replace("-", "_").replace(" ", "_")
    return _OF_CONTENT.search(plain) is not None or _ORDINARY.search(plain) is None
