"""Find numbers that stand for a person: cards, bank accounts, US identities. Code: PII_DETECTED.

Each must satisfy its own arithmetic. Digits without a form of their own or a word that names
them are only recorded, and so are numbers that are published as examples. Digits of other
scripts, and digits with something invisible between them, are read as plain ones. Limits:
names, addresses, phone numbers and e-mail addresses are not looked for; an answer is full of
them for good reasons. The list of published numbers holds those that are shown most often.
"""

import re
from collections.abc import Callable, Iterator
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

_CARDS = frozenset(
    (
        *("4111111111111111", "4242424242424242", "4012888888881881", "4222222222222"),
        *("4000056655665556", "4005519200000004", "4009348888881881", "4012000033330026"),
        *("4012000077777777", "4217651111111119", "4500600000000061", "4917610000000000"),
        *("5555555555554444", "5105105105105100", "5200828282828210", "5454545454545454"),
        *("2223003122003222", "2223000048400011", "2222400070000005", "5431111111111111"),
        *("378282246310005", "371449635398431", "378734493671000", "343434343434343"),
        *("6011111111111117", "6011000990139424", "6011981111111113", "6011601160116611"),
        *("3056930009020004", "36227206271667", "30569309025904", "38520000023237"),
        *("3566002020360505", "3530111333300000", "3566111111111113", "36006666333344"),
        *("6200000000000005", "6200000000000047", "6205500000000000004"),
    )
)
_ACCOUNTS = frozenset(
    (
        *("AD1200012030200359100100", "AE070331234567890123456", "AT611904300234573201"),
        *("BE68539007547034", "BG80BNBG96611020345678", "CH9300762011623852957"),
        *("CY17002001280000001200527600", "CZ6508000000192000145399", "DE89370400440532013000"),
        *("DK5000400440116243", "EE382200221020145685", "ES9121000418450200051332"),
        *("FI2112345600000785", "FR1420041010050500013M02606", "GB29NWBK60161331926819"),
        *("GB82WEST12345698765432", "GB33BUKB20201555555555", "GR1601101250000000012300695"),
        *("HR1210010051863000160", "HU42117730161111101800000000", "IE29AIBK93115212345678"),
        *("IE64IRCE92050112345678", "IL620108000000099999999", "IS140159260076545510730339"),
        *("IT60X0542811101000000123456", "LI21088100002324013AA", "LT121000011101001000"),
        *("LU280019400644750000", "LV80BANK0000435195001", "MT84MALT011000012345MTLCAST001S"),
        *("NL91ABNA0417164300", "NO9386011117947", "PL61109010140000071219812874"),
        *("PT50000201231234567890154", "RO49AAAA1B31007593840000", "SA0380000000608010167519"),
        *("SE4550000000058398257466", "SI56191000000123438", "SK3112000000198742637541"),
        *("TR330006100519786457841326", "DE75512108001245126199", "DE02120300000000202051"),
    )
)
_SOCIAL = frozenset(["078051120", "219099999", "123456789", "457555462", "001010001"])
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
