"""Which language an answer is in: by its script, or by common words where they share one."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

__all__ = ["guess_language"]

_MAX_SAMPLE = 600
_SCRIPTS = (
    ("ja", re.compile("[\u3040-\u30ff]")),
    ("ko", re.compile("[\uac00-\ud7af]")),
    ("zh", re.compile("[\u4e00-\u9fff]")),
    ("th", re.compile("[\u0e00-\u0e7f]")),
    ("hi", re.compile("[\u0900-\u097f]")),
    ("ar", re.compile("[\u0600-\u06ff]")),
    ("ru", re.compile("[\u0400-\u04ff]")),
)
_WORDS = re.compile(r"[a-z]+")
_SEVERAL = 2
# A few English words do not make a Chinese answer English.
_SHARE = 5


def guess_language(folded: str, languages_by_word: Mapping[str, Sequence[str]]) -> str | None:
    """Return the language of a folded text, or None if it is uncertain.

    `languages_by_word` maps the most common words, folded, to the languages that have them.
    """
    text = folded[:_MAX_SAMPLE]
    if not text.isascii():
        letters = sum(map(str.isalpha, text))
        for language, letter in _SCRIPTS:
            if len(letter.findall(text)) * _SHARE > letters:
                return language
    words = _WORDS.findall(text)
    counts = Counter(language for word in words for language in languages_by_word.get(word, ()))
    (best, most), (_, next_most) = [*counts.most_common(2), (None, 0), (None, 0)][:2]
    return best if most > next_most and most >= min(_SEVERAL, len(words)) else None
