"""Find words that look drawn by a machine, for the record only. Code: SECRET_LEAK.

Hashes, UUIDs, paths, data addresses and integrity values pass: they are random, too, and
meant to be seen.
"""

import re

from demur.guards.secrets.ascii_view import read_as_ascii
from demur.guards.secrets.entropy import bits_per_character, mixing
from demur.guards.secrets.masking import secret_seen
from demur.guards.secrets.placeholders import is_placeholder
from demur.guards.text_rules.seeking import NOTHING, Seeker, Seen, Sought, has_long_word
from demur.model.finding import Action

__all__ = ["LOOSE_SECRETS"]

_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+/=-.:,;#%&?@~"
_SHORTEST = 32
_LONGEST = 128
_WORD = re.compile(
    r"(?<![\w+/=.:,;#%&?@~-])(?=[A-Za-z0-9_-]*[A-Z])[A-Za-z0-9][A-Za-z0-9_+/-]{31,127}={0,2}"
    r"(?![\w+/=:#%&?@~-])",
    re.ASCII,
)
_BITS = 4.2
_MIXED = 0.35
_DIGEST = re.compile(r"(?:sha\d+|md5)-")


def _seek(text: str, begin: int, final: bool) -> Sought:  # noqa: FBT001 - the signature of all searches
    size = len(text)
    decided = size
    if not final:
        last = text[max(begin, size - _LONGEST - 8) :]
        decided = size - (len(last) - len(last.rstrip(_ALPHABET)))
    seen: list[Seen] = []
    if not has_long_word(text, begin, _SHORTEST):
        return Sought(NOTHING, max(begin, decided))
    for word in _WORD.finditer(text, begin):
        if word.start() >= decided:
            break
        if _is_loose(word[0]):
            seen.append(secret_seen("random word", word[0], word.start(), Action.WARN))
    return Sought(tuple(seen), max(begin, decided))


def _is_loose(word: str) -> bool:
    return (
        word.count("/") <= 2
        and mixing(word) >= _MIXED
        and bits_per_character(word) >= _BITS
        and any(map(str.isdigit, word))
        and not _DIGEST.match(word)
        and not is_placeholder(word)
    )


LOOSE_SECRETS = read_as_ascii(Seeker(_seek, reach=1))
