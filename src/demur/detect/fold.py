"""Fold a sentence for matching: lower case, plain Latin letters, straight quotes, no markup.

Spaces may stand in runs afterwards. Lighter than `demur.scan.fold_sentence`, which hunts for disguise:
a model that declines does not hide it, and what is left must stay readable to phrases in every
script.
"""

# ruff: noqa: RUF001 - letters that look like others are what is folded

import unicodedata

__all__ = ["fold_sentence"]

_PLAIN = {"ł": "l", "ø": "o", "đ": "d", "ß": "s", "æ": "a", "œ": "o", "ı": "i"}
# Letters that writers of Russian and Arabic use for one another.
_VARIANTS = {"ё": "е", "أ": "ا", "إ": "ا", "آ": "ا", "ٱ": "ا", "ة": "ه", "ى": "ي", "ـ": None}
_QUOTES = dict.fromkeys("\u2018\u2019\u201b\u02bc\u00b4`\uff07", "'")
_MARKUP = dict.fromkeys("*_#>|~\t\r\v\f\u00a0\u200b\u202f\u3000", " ")


def _strip_accents(letter: str) -> str:
    return unicodedata.normalize("NFD", letter)[0]


_TABLE = str.maketrans(
    {
        **{chr(point): _strip_accents(chr(point)) for point in range(0xC0, 0x250)},
        **{chr(point): _strip_accents(chr(point)) for point in range(0x1E00, 0x1F00)},
        **{chr(point): chr(point - 0xFEE0) for point in range(0xFF01, 0xFF5F)},
        **{chr(point): None for point in (*range(0x300, 0x370), *range(0x64B, 0x653))},
        # A lone surrogate from a cut stream; no engine can encode it.
        **{chr(point): " " for point in range(0xD800, 0xE000)},
        **_PLAIN,
        **_VARIANTS,
        **_QUOTES,
        **_MARKUP,
    }
)


def fold_sentence(text: str) -> str:
    """Return `text` in the form that phrases are matched against."""
    return text.lower().translate(_TABLE)
