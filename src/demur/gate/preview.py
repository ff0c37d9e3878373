"""A short preview of a text that may be stored: one line, without secrets."""

import re
from collections.abc import Iterable, Iterator

from demur.guards.secrets.assigned import ASSIGNED_SECRETS
from demur.guards.secrets.loose import LOOSE_SECRETS
from demur.guards.secrets.personal_data import personal_data_search
from demur.guards.secrets.private_keys import PRIVATE_KEYS
from demur.guards.secrets.secret_text import FORMATTED_SECRETS
from demur.model.finding import Action, Span

__all__ = ["MAX_PREVIEW_LENGTH", "preview_text"]

MAX_PREVIEW_LENGTH = 80

_REMOVED = "[removed]"
_SEEKERS = (
    FORMATTED_SECRETS,
    PRIVATE_KEYS,
    ASSIGNED_SECRETS,
    LOOSE_SECRETS,
    personal_data_search(Action.WARN),
)
# Show some text before a finding as context.
_BEFORE = 20
# Look at more text than is shown, to recognise a secret that the cut would split.
_AROUND = 400
# Mail addresses, phone numbers and long words with digits are always hidden.
_PERSONAL = re.compile(
    r"[^\s@]{1,64}@[^\s@]{1,255}|\+?\d[\d ().-]{5,30}\d"
    r"|(?<![\w+/-])(?=[\w+/-]{0,64}\d)[\w+/=-]{16,}"
)


def preview_text(text: str | None, span: Span | None = None, *, hide: Iterable[Span] = ()) -> str:
    """Return a preview of `text` at `span`, or at its beginning, without the spans to `hide`.

    It has at most `MAX_PREVIEW_LENGTH` characters on one line, and nothing that looks like a
    credential, a card or account number, or a personal address.
    """
    if not text:
        return ""
    first = 0 if span is None else max(0, span.start - _BEFORE)
    low, high = max(0, first - _AROUND), first + MAX_PREVIEW_LENGTH + _AROUND
    window = text[low:high]
    pieces: list[str] = []
    place = first - low
    secret = [(span.start - low, span.end - low) for span in hide if span.start < high]
    for start, end in sorted([*secret, *_secret_places(window)]):
        if end <= place:
            continue
        pieces += [window[place : max(start, place)], _REMOVED]
        place = end
    shown = "".join([*pieces, window[place:]])
    line = "".join(character if character.isprintable() else " " for character in shown)
    more = len(line) > MAX_PREVIEW_LENGTH or high < len(text)
    return f"{line[: MAX_PREVIEW_LENGTH - 1]}…" if more else line


def _secret_places(window: str) -> Iterator[tuple[int, int]]:
    """Yield the places that must not be shown."""
    for seeker in _SEEKERS:
        for seen in seeker.search(window, 0, True).matches:
            yield seen.start, seen.end
    for found in _PERSONAL.finditer(window):
        yield found.span()
