"""Find numbers that stand for a person: cards, bank accounts, US identities. Code: PII_DETECTED.

Each must satisfy its own arithmetic. Digits without a form of their own or a word that
names them only go on record, and so do numbers that are published as examples. Digits of other
scripts and forms, and digits with something invisible between them, are read as plain ones.
Limits: names, addresses, phone numbers and e-mail addresses are not looked for; an answer is
full of them for good reasons.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from demur.codes.reason_code import ReasonCode
from demur.guards.secrets.ascii_view import search_as_ascii
from demur.guards.secrets.checksums import luhn_holds, mod97_holds
from demur.guards.secrets.published import is_published
from demur.guards.text_rules.seeking import NO_MATCHES, TextSearch, TextMatch, SearchStep
from demur.model.finding import Action

__all__ = ["personal_data_search"]

_REACH = 48
_WIDTH = 48
_DIGIT = re.compile(r"[0-9]")
# Expressions begin with a digit or letter class, so the engine skips other text quickly.
_CARD = re.compile(
    r"\d(?<![\w.+-]\d)(?:\d{3}([ .-])\d{4}\1\d{4}\1\d{1,7}|\d{3}([ .-])\d{6}\2\d{4,5}|\d{12,18}"
    r"|([ .-])\d(?:\3\d){11,17})(?!\w|[.-]\d)",
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
_IBAN_SIZES = {
    size: frozenset(countries.split())
    for size, countries in (
        (15, "NO"),
        (16, "BE"),
        (18, "DK FI FK FO GL NL SD"),
        (19, "MK SI"),
        (20, "AT BA EE KZ LT LU MN XK"),
        (21, "CH HR LI LV"),
        (22, "BG BH CR DE GB GE IE ME RS VA"),
        (23, "AE GI IL IQ OM SO TL"),
        (24, "AD CZ ES MD PK RO SA SE SK TN VG"),
        (25, "LY PT ST"),
        (26, "IS TR"),
        (27, "BI DJ FR GR IT MC MR SM"),
        (28, "AL AZ BY CY DO GT HN HU LB NI PL SV"),
        (29, "BR EG PS QA UA"),
        (30, "JO KW MU YE"),
        (31, "MT SC"),
        (32, "LC"),
        (33, "RU"),
    )
}
_IBAN_SIZE = {country: size for size, group in _IBAN_SIZES.items() for country in group}
_SSN = re.compile(
    r"[0-8](?<![\w.-]\d)(?<!0(?=00))(?<!6(?=66))\d\d-(?!00)\d\d-(?!0000)\d{4}(?![\w-])", re.ASCII
)
_SSN_WORD = re.compile(r"\b(?:ssn|social security|social insurance|tax ?payer)\b", re.IGNORECASE)

# Start, end, kind, the number itself, and whether it is certain.
_FoundNumber = tuple[int, int, str, str, bool]
_SEPARATORS = re.compile(r"[ .-]")


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
    wanted = _IBAN_SIZE.get(match[0][:2], 0)
    number = ""
    for place, character in enumerate(match[0]):
        number += character.strip()
        if len(number) == wanted:
            return match.start() + place + 1 if mod97_holds(number) else None
    return None


def _find_social_numbers(text: str, begin: int) -> Iterator[_FoundNumber]:
    for match in _SSN.finditer(text, begin):
        named = _has_word_before(_SSN_WORD, text, match.start())
        number = match[0].replace("-", "")
        yield match.start(), match.end(), "social security number", number, named


def _has_word_before(words: re.Pattern[str], text: str, place: int) -> bool:
    return words.search(text, max(0, place - _REACH), place) is not None


_KINDS: tuple[Callable[[str, int], Iterator[_FoundNumber]], ...] = (
    _find_cards,
    _find_accounts,
    _find_social_numbers,
)


def personal_data_search(sure: Action) -> TextSearch:
    """Return a search with the action `sure` for certain matches; others are only recorded."""

    def seek(text: str, begin: int, final: bool) -> SearchStep:  # noqa: FBT001 - the signature of all searches
        decided = len(text) if final else max(begin, len(text) - _WIDTH)
        if not _DIGIT.search(text, begin):
            return SearchStep(NO_MATCHES, decided)
        seen = [
            _make_match(found, sure)
            for kind in _KINDS
            for found in kind(text, begin)
            if found[0] < decided
        ]
        return SearchStep(tuple(seen), decided)

    return search_as_ascii(TextSearch(seek, reach=_REACH + 1))


def _make_match(found: _FoundNumber, sure: Action) -> TextMatch:
    start, end, entity, number, certain = found
    detail = f"{entity} of {end - start} characters"
    evidence: dict[str, Any] = {"entity": entity}
    if is_published(entity, number):
        certain, evidence["published"] = False, True
    action = sure if certain else Action.WARN
    return TextMatch(start, end, ReasonCode.PII_DETECTED, action, detail, evidence)
