"""Credentials that stand in the text of a command itself, as the other surfaces find them."""

from collections.abc import Iterator
from typing import NamedTuple

from demur.guards.secrets.assigned import ASSIGNED_SECRETS
from demur.guards.secrets.private_keys import PRIVATE_KEYS
from demur.guards.secrets.secret_text import FORMATTED_SECRETS
from demur.model.finding import Action

__all__ = ["SecretLiteral", "find_secret_literals"]

_SEEKERS = (PRIVATE_KEYS, FORMATTED_SECRETS, ASSIGNED_SECRETS)
_MIN_SECRET_LENGTH = 16


class SecretLiteral(NamedTuple):
    """A credential in a command: its kind, its span, and whether it is certain."""

    kind: str
    start: int
    end: int
    certain: bool


def find_secret_literals(text: str) -> Iterator[SecretLiteral]:
    """Yield each credential in `text`."""
    if len(text) < _MIN_SECRET_LENGTH:
        return
    for seeker in _SEEKERS:
        for seen in seeker.search(text, 0, True).matches:
            kind = str(seen.evidence.get("kind", "credential"))
            yield SecretLiteral(kind, seen.start, seen.end, seen.action is not Action.WARN)
