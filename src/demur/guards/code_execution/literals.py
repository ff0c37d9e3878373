"""Credentials that stand in the text of a command itself, as the other surfaces find them."""

from collections.abc import Iterator
from typing import NamedTuple

from demur.guards.secrets.assigned import ASSIGNED_SECRETS
from demur.guards.secrets.private_keys import PRIVATE_KEYS
from demur.guards.secrets.secret_text import FORMATTED_SECRETS
from demur.model.finding import Action

__all__ = ["Literal", "literals"]

_SEEKERS = (PRIVATE_KEYS, FORMATTED_SECRETS, ASSIGNED_SECRETS)
_SHORTEST = 16


class Literal(NamedTuple):
    """A credential in a command: its kind, its span, and whether it is certain."""

    kind: str
    start: int
    end: int
    certain: bool


def literals(text: str) -> Iterator[Literal]:
    """Yield each credential in `text`."""
    if len(text) < _SHORTEST:
        return
    for seeker in _SEEKERS:
        for seen in seeker.seek(text, 0, True).seen:
            kind = str(seen.evidence.get("kind", "credential"))
            yield Literal(kind, seen.start, seen.end, seen.action is not Action.WARN)
