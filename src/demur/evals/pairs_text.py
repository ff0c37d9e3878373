"""Clean text for files of pairs or rows: no secrets, no personal data, limited length."""

import re
from collections.abc import Iterator

from demur.guards.secrets.assigned import ASSIGNED_SECRETS
from demur.guards.secrets.loose import LOOSE_SECRETS
from demur.guards.secrets.personal_data import personal_data_search
from demur.guards.secrets.private_keys import PRIVATE_KEYS
from demur.guards.secrets.secret_text import FORMATTED_SECRETS
from demur.model.finding import Action

__all__ = ["MAX_TEXT_LENGTH", "REMOVED_MARK", "clean_text"]

MAX_TEXT_LENGTH = 8_000
REMOVED_MARK = "[removed]"

_SECRET_FINDERS = (
    FORMATTED_SECRETS,
    PRIVATE_KEYS,
    ASSIGNED_SECRETS,
    LOOSE_SECRETS,
    personal_data_search(Action.WARN),
)
# Email addresses, and numbers long enough to be a phone or account number.
_PERSONAL = re.compile(r"[^\s@]{1,64}@[^\s@]{1,255}\.\w{2,}|\+?\d[\d ().-]{7,30}\d")
# Look past the cut, so that a secret that it would split is still recognised.
_LOOKAHEAD = 400


def clean_text(text: str, max_length: int = MAX_TEXT_LENGTH) -> str:
    """Return a text without credentials and personal data, truncated if it is too long."""
    window = text[: max_length + _LOOKAHEAD].encode("utf-8", "replace").decode("utf-8")
    pieces: list[str] = []
    place = 0
    for start, end in sorted(_find_private_spans(window)):
        if end <= place:
            continue
        if start >= place:
            pieces += [window[place:start], REMOVED_MARK]
        place = end
    shown = "".join([*pieces, window[place:]]).strip()
    return shown if len(shown) <= max_length else f"{shown[: max_length - 1].rstrip()}…"


def _find_private_spans(window: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of secrets and personal data."""
    for seeker in _SECRET_FINDERS:
        for seen in seeker.search(window, 0, True).matches:
            yield seen.start, seen.end
    for found in _PERSONAL.finditer(window):
        yield found.span()
