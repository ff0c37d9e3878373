"""Clean text for files of pairs or rows: no secrets, no personal data, limited length."""

import re
from collections.abc import Iterator

from demur.guards.secrets.assigned import ASSIGNED_SECRETS
from demur.guards.secrets.loose import LOOSE_SECRETS
from demur.guards.secrets.personal_data import personal_data
from demur.guards.secrets.private_keys import PRIVATE_KEYS
from demur.guards.secrets.secret_text import FORMATTED_SECRETS
from demur.model.finding import Action

__all__ = ["LONGEST_TEXT", "REMOVED", "clean_text"]

LONGEST_TEXT = 8_000
REMOVED = "[removed]"

_SEEKERS = (
    FORMATTED_SECRETS,
    PRIVATE_KEYS,
    ASSIGNED_SECRETS,
    LOOSE_SECRETS,
    personal_data(Action.WARN),
)
# Email addresses, and numbers long enough to be a phone or account number.
_PERSONAL = re.compile(r"[^\s@]{1,64}@[^\s@]{1,255}\.\w{2,}|\+?\d[\d ().-]{7,30}\d")
# Look past the cut, so that a secret that it would split is still recognised.
_BEYOND = 400


def clean_text(text: str, longest: int = LONGEST_TEXT) -> str:
    """Return a text without credentials and personal data, truncated if it is too long."""
    window = text[: longest + _BEYOND].encode("utf-8", "replace").decode("utf-8")
    pieces: list[str] = []
    place = 0
    for start, end in sorted(_hidden(window)):
        if end <= place:
            continue
        if start >= place:
            pieces += [window[place:start], REMOVED]
        place = end
    shown = "".join([*pieces, window[place:]]).strip()
    return shown if len(shown) <= longest else f"{shown[: longest - 1].rstrip()}…"


def _hidden(window: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of secrets and personal data."""
    for seeker in _SEEKERS:
        for seen in seeker.seek(window, 0, True).seen:
            yield seen.start, seen.end
    for found in _PERSONAL.finditer(window):
        yield found.span()
