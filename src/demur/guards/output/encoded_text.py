"""Search what is encoded in model text for the rules of its surface.

A word that is long enough to be base 64, hexadecimal digits or percent signs is decoded by
itself. Limits: what is encoded over several words, spelt with spaces or written backwards
is not read; see `demur.scan.decode` for what is.
"""

import re

from demur.guards.text_rules.rule import RuleSet
from demur.guards.text_rules.seeking import TextSearch, TextMatch, SearchStep, has_long_word
from demur.guards.text_rules.text import scan_encoded

__all__ = ["encoded_text_search"]

_MIN_ENCODED = 24
# A longer word is read in parts of this size; base 64 and hex decode part by part.
_MAX_ENCODED = 4096
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_=%\\-"
_STRETCH = re.compile(rf"[A-Za-z0-9+/_=%\\-]{{{_MIN_ENCODED},{_MAX_ENCODED}}}", re.ASCII)
_PROMISING = re.compile(
    r"[0-9A-Fa-f]{24}|%[0-9A-Fa-f]{2}|\\[xu][0-9A-Fa-f]{2}"
    r"|\A(?=.*[a-z])(?=.*[0-9+/=])[^A-Z]*[A-Z]"
)


def encoded_text_search(rules: RuleSet) -> TextSearch:
    """Return the search for rules in what is encoded."""

    def seek(text: str, begin: int, final: bool) -> SearchStep:  # noqa: FBT001 - the signature of all searches
        seen: list[TextMatch] = []
        stretches = (
            _STRETCH.finditer(text, begin) if has_long_word(text, begin, _MIN_ENCODED) else ()
        )
        for stretch in stretches:
            if stretch.end() == len(text) and not final and len(stretch[0]) < _MAX_ENCODED:
                return SearchStep(tuple(seen), stretch.start())
            begin = stretch.end()
            if _PROMISING.search(stretch[0]):
                seen += _match_decoded(stretch[0], stretch.start(), rules)
        if final:
            return SearchStep(tuple(seen), len(text))
        last = text[max(begin, len(text) - _MIN_ENCODED) :]
        return SearchStep(tuple(seen), len(text) - len(last) + len(last.rstrip(_ALPHABET)))

    return TextSearch(seek, reach=0)


def _match_decoded(word: str, place: int, rules: RuleSet) -> list[TextMatch]:
    return [
        TextMatch(
            place + hit.start,
            place + hit.end,
            hit.rule.code,
            hit.rule.action,
            hit.rule.description,
            {"rule": hit.rule.id, "via": hit.via},
        )
        for hit in scan_encoded(word, rules)
    ]
