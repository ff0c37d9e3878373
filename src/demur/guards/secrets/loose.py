"""Find words that look drawn by a machine, for the record only. Code: SECRET_LEAK.

Hashes, UUIDs, paths, data addresses and integrity values pass: they are random, too, and
meant to be seen.
"""

import re

from demur.guards.secrets.ascii_view import search_as_ascii
from demur.guards.secrets.entropy import bits_per_character, mixing_share
from demur.guards.secrets.masking import secret_match
from demur.guards.secrets.placeholders import is_placeholder
from demur.guards.text_rules.seeking import (
    NO_MATCHES,
    TextSearch,
    TextMatch,
    SearchStep,
    has_long_word,
)
from demur.model.finding import Action

__all__ = ["LOOSE_SECRETS"]

_LOOSE_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+/=-.:,;#%&?@~"
_MIN_LOOSE = 32
_MAX_LOOSE = 128
_LOOSE_WORD = re.compile(
    r"(?<![\w+/=.:,;#%&?@~-])(?=[A-Za-z0-9_-]*[A-Z])[A-Za-z0-9][A-Za-z0-9_+/-]{31,127}={0,2}"
    r"(?![\w+/=:#%&?@~-])",
    re.ASCII,
)
_MIN_LOOSE_BITS = 4.2
_MIN_LOOSE_MIXING = 0.35
_DIGEST = re.compile(r"(?:sha\d+|md5)-")


def _search_loose(text: str, begin: int, final: bool) -> SearchStep:  # noqa: FBT001 - the signature of all searches
    size = len(text)
    decided = size
    if not final:
        last = text[max(begin, size - _MAX_LOOSE - 8) :]
        decided = size - (len(last) - len(last.rstrip(_LOOSE_ALPHABET)))
    seen: list[TextMatch] = []
    if not has_long_word(text, begin, _MIN_LOOSE):
        return SearchStep(NO_MATCHES, max(begin, decided))
    for word in _LOOSE_WORD.finditer(text, begin):
        if word.start() >= decided:
            break
        if _is_loose(word[0]):
            seen.append(secret_match("random word", word[0], word.start(), Action.WARN))
    return SearchStep(tuple(seen), max(begin, decided))


def _is_loose(word: str) -> bool:
    return (
        word.count("/") <= 2
        and mixing_share(word) >= _MIN_LOOSE_MIXING
        and bits_per_character(word) >= _MIN_LOOSE_BITS
        and any(map(str.isdigit, word))
        and not _DIGEST.match(word)
        and not is_placeholder(word)
    )


LOOSE_SECRETS = search_as_ascii(TextSearch(_search_loose, reach=1))
