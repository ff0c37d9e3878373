"""How random a word looks: what tells a made-up key from a name, a path or a sentence."""

import math
import re
from collections import Counter
from itertools import pairwise

__all__ = ["bits_per_character", "count_classes", "is_random", "mixing_share"]

_LOWER = re.compile(r"[a-z]")
_UPPER = re.compile(r"[A-Z]")
_DIGIT = re.compile(r"[0-9]")
_OTHER = re.compile(r"[^A-Za-z0-9]")
_WORD_START = re.compile(r"[A-Z](?=[a-z])")
_KINDS = (_LOWER, _UPPER, _DIGIT, _OTHER)
_HEX = re.compile(r"[0-9a-fA-F]+")
# A random word of letters and digits changes the kind of character at half of its places, one
# without capitals at 40 %; names with a number in them stay below 25 %.
_MIN_MIXING = 0.25
_MIN_RANDOM = 16
_MIN_RANDOM_HEX = 32
_MIN_BITS = 3.4
_MIN_BITS_HEX = 3.0


def bits_per_character(text: str) -> float:
    """Return the Shannon entropy of the characters of `text`."""
    size = len(text)
    return (
        -sum(count / size * math.log2(count / size) for count in Counter(text).values())
        if size
        else 0.0
    )


def count_classes(text: str) -> int:
    """Return how many of lower case, upper case, digits and other characters occur."""
    return sum(1 for kind in _KINDS if kind.search(text))


def mixing_share(text: str) -> float:
    """Return the share of inner places at which `text` changes its kind of character.

    A capital at the start of a word is no change, so names in camel case are not mixed.
    """
    plain = _WORD_START.sub("a", _OTHER.sub("", text))
    kinds = _LOWER.sub("a", _UPPER.sub("A", _DIGIT.sub("0", plain)))
    changes = sum(before != after for before, after in pairwise(kinds))
    return changes / (len(kinds) - 1) if len(kinds) > 1 else 0.0


def is_random(text: str) -> bool:
    """Return whether `text` looks random: long, even, letters and digits mixed."""
    if len(text) < _MIN_RANDOM or not _DIGIT.search(text):
        return False
    if _HEX.fullmatch(text):
        return len(text) >= _MIN_RANDOM_HEX and bits_per_character(text) >= _MIN_BITS_HEX
    return mixing_share(text) >= _MIN_MIXING and bits_per_character(text) >= _MIN_BITS
