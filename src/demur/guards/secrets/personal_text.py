"""Numbers that stand for a person, in a text that is whole. Code: PII_DETECTED.

A person may write their own card number, and a tool may return a customer's: on these
surfaces it is put on record by default. Limits: as in `demur.guards.secrets.personal_data_search`.
"""

from collections.abc import Iterator

import re2

from demur.codes.vocabulary import Surface
from demur.guards.secrets.ascii_view import make_ascii_view, search_view
from demur.guards.secrets.personal_data import personal_data_search
from demur.model.finding import Action, Finding, Span

__all__ = ["find_personal_data"]

# All of these numbers have this many digits close together; most texts have none.
_MIN_DIGITS = 8
_DIGITS = re2.compile(rb"[0-9](?:[ .-]?[0-9]){7}")
_NO_DIGITS = bytes(byte for byte in range(256) if byte not in b"0123456789")


def find_personal_data(text: str, action: Action | None, surface: Surface) -> Iterator[Finding]:
    """Yield a finding for each personal number in `text`; none if `action` is None."""
    if action is None:
        return
    view = make_ascii_view(text)
    read = view.text.encode("ascii", "replace")
    # Counting digits costs half of a search, and rules out most texts.
    if len(read.translate(None, _NO_DIGITS)) < _MIN_DIGITS or not _DIGITS.search(read):
        return
    search = personal_data_search(action).search_ascii
    assert search is not None
    for seen in search_view(view, search, text, 0, final=True).matches:
        yield Finding(
            code=seen.code,
            surface=surface,
            span=Span(start=seen.start, end=seen.end),
            detail=seen.detail,
            evidence={"rule": "PERSONAL_DATA", **seen.evidence},
            action=seen.action,
        )
