"""Find numbers that stand for a person: cards, bank accounts, US identities. Code: PII_DETECTED.

Each must satisfy its own arithmetic. Digits without a form of their own or a word that names
them are only recorded, and so are numbers that are published as examples. Digits of other
scripts, and digits with something invisible between them, are read as plain ones. Limits:
names, addresses, phone numbers and e-mail addresses are not looked for; an answer is full of
them for good reasons. The list of published numbers holds those that are shown most often.
"""

import json
import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

import re2

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.guards.secret_values import luhn_holds, mod97_holds
from demur.guards.text_search import (
    NO_MATCHES,
    SearchStep,
    TextMatch,
    TextSearch,
    make_ascii_view,
    search_as_ascii,
    search_view,
)
from demur.model.finding import Action, Finding, Span

_NUMBERS = json.loads((files("demur.guards") / "data" / "personal_numbers.json").read_bytes())
_CARDS, _ACCOUNTS = frozenset(_NUMBERS["cards"]), frozenset(_NUMBERS["accounts"])
_SOCIAL = frozenset(_NUMBERS["social"])
# Test numbers are padded with zeros; about one real number in ten thousand has this many.
_MAX_ZEROS = 8


def is_published(entity: str, number: str) -> bool:
    """Return whether a number, without separators, is published as an example."""
    if entity == "payment card":
        return number in _CARDS or number.count("0") >= _MAX_ZEROS
    if entity == "bank account":
        return number in _ACCOUNTS
    return number in _SOCIAL or len(set(number)) == 1


_REACH = 48
_WIDTH = 48
_DIGIT = re.compile(r"[0-9]")
# Between the groups of a card number, the same three times: a table writes ` | `.
_GAP = r"[ \t./_|-]{1,3}"
# Expressions begin with a digit or letter class, so the engine skips other text quickly.
_CARD = re.compile(
    rf"\d(?<![\w.+-]\d)(?:\d{{3}}({_GAP})\d{{4}}\1\d{{4}}\1\d{{1,7}}|\d{{3}}({_GAP})\d{{6}}\2\d{{4,5}}"
    r"|\d{12,18}|([ .-])\d(?:\3\d){11,17})(?!\w|[.-]\d)",
    re.ASCII,
)
_CARD_WORD = re.compile(
    r"\b(?:cards?|visa|master ?card|amex|american express|discover|debit|credit|pan)\b",
    re.IGNORECASE,
)
# First digits of the networks, and the lengths that go with them.
_NETWORKS = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}"
    r"|3[47]\d{13}|(?:6011|65\d\d|64[4-9]\d)\d{12}|35(?:2[89]|[3-8]\d)\d{12}|3(?:0[0-5]|[68]\d)\d{11}"
    r"|62\d{14,17}",
    re.ASCII,
)
_IBAN = re.compile(r"[A-Z](?<![A-Za-z0-9][A-Z])[A-Z]\d\d(?: ?[A-Z0-9]){11,30}", re.ASCII)
_IBAN_SIZE: Mapping[str, int] = _NUMBERS["iban_sizes"]
_SSN = re.compile(
    r"[0-8](?<![\w.-]\d)(?<!0(?=00))(?<!6(?=66))\d\d-(?!00)\d\d-(?!0000)\d{4}(?![\w-])", re.ASCII
)
_SSN_WORD = re.compile(r"\b(?:ssn|social security|social insurance|tax ?payer)\b", re.IGNORECASE)

# Start, end, kind, the number itself, and whether it is certain.
_FoundNumber = tuple[int, int, str, str, bool]
_SEPARATORS = re.compile(r"[ \t./_|-]")


def _find_cards(text: str, begin: int) -> Iterator[_FoundNumber]:
    while match := _CARD.search(text, begin):
        digits = _SEPARATORS.sub("", match[0])
        begin = match.start() + 1
        if _NETWORKS.fullmatch(digits) and len(set(digits)) > 1 and luhn_holds(digits):
            # A table of single digits may pass the checksum; only groups look like a card.
            grouped = (match[1] or match[2]) is not None
            sure = grouped or _has_word_before(_CARD_WORD, text, match.start())
            yield match.start(), match.end(), "payment card", digits, sure


def _find_accounts(text: str, begin: int) -> Iterator[_FoundNumber]:
    while match := _IBAN.search(text, begin):
        begin = match.start() + 1
        end = _account_end(match)
        if end and not text[end : end + 1].isalnum():
            number = text[match.start() : end].replace(" ", "")
            yield match.start(), end, "bank account", number, True


def _account_end(match: re.Match[str]) -> int | None:
    """Return where the account number ends by its country's length, if its checksum holds."""
    size = _IBAN_SIZE.get(match[0][:2], 0)
    number = ""
    for place, character in enumerate(match[0]):
        number += character.strip()
        if len(number) == size:
            return match.start() + place + 1 if mod97_holds(number) else None
    return None


def _find_social_numbers(text: str, begin: int) -> Iterator[_FoundNumber]:
    for match in _SSN.finditer(text, begin):
        named = _has_word_before(_SSN_WORD, text, match.start())
        number = match[0].replace("-", "")
        yield match.start(), match.end(), "social security number", number, named


def _has_word_before(words: re.Pattern[str], text: str, place: int) -> bool:
    return words.search(text, max(0, place - _REACH), place) is not None


_KINDS = (_find_cards, _find_accounts, _find_social_numbers)


def personal_data_search(sure: Action) -> TextSearch:
    """Return a search with the action `sure` for certain matches; others are only recorded."""

    def search_text(text: str, begin: int, final: bool) -> SearchStep:  # noqa: FBT001 - the signature of all searches
        decided = len(text) if final else max(begin, len(text) - _WIDTH)
        if not _DIGIT.search(text, begin):
            return SearchStep(NO_MATCHES, decided)
        numbers = (number for kind in _KINDS for number in kind(text, begin))
        matches = tuple(_make_match(number, sure) for number in numbers if number[0] < decided)
        return SearchStep(matches, decided)

    return search_as_ascii(TextSearch(search_text, reach=_REACH + 1))


def _make_match(found: _FoundNumber, sure: Action) -> TextMatch:
    start, end, entity, number, certain = found
    detail = f"{entity} of {end - start} characters"
    evidence: dict[str, Any] = {"entity": entity}
    if is_published(entity, number):
        certain, evidence["published"] = False, True
    action = sure if certain else Action.WARN
    return TextMatch(start, end, ReasonCode.PII_DETECTED, action, detail, evidence)


# All of these numbers have this many digits close together; most texts have none.
_MIN_DIGITS = 8
_DIGITS = re2.compile(rb"[0-9](?:[ \t./_|-]{0,3}[0-9]){7}")
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
    for matches in search_view(view, search, text, 0, final=True).matches:
        yield Finding(
            code=matches.code,
            surface=surface,
            span=Span(start=matches.start, end=matches.end),
            detail=matches.detail,
            evidence={"rule": "PERSONAL_DATA", **matches.evidence},
            action=matches.action,
        )
