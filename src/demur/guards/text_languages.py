"""Choose the languages in which a text is read, so that only their rules are loaded.

A text is read in each language of which it holds a letter, or a common word: one in a short text,
two in a longer one. English rules read every text.
"""

import json
import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

_WORD = re.compile(r"[^\W\d_]+")
# A longer text is split at spaces: punctuation that sticks to some of its many words does not
# matter.
_MAX_SEARCHED = 400
_MAX_SHORT_WORDS = 20
# Only the beginning and the end of a long text choose its languages.
_MAX_READ = 20_000


class _LanguageMarks(NamedTuple):
    """What shows a language: its letters, or common words."""

    letters: dict[str, re.Pattern[str]]
    words: dict[str, frozenset[str]]
    every_word: frozenset[str]


@cache
def _load_marks() -> _LanguageMarks:
    table = json.loads((files("demur.guards") / "languages.json").read_text(encoding="utf-8"))
    words = {name: frozenset(listed.split()) for name, listed in table["words"].items()}
    letters = {name: re.compile(own) for name, own in table["letters"].items()}
    return _LanguageMarks(letters, words, frozenset[str]().union(*words.values()))


def _split_words(text: str) -> list[str]:
    return _WORD.findall(text) if len(text) <= _MAX_SEARCHED else text.split()


def find_languages(text: str, folded_text: bytes = b"") -> list[str]:
    """Return the languages other than English in which a text should be read.

    `folded_text` is the text without its disguise: words in it count as well, so that look-alike
    letters and invisible characters hide no language.
    """
    marks = _load_marks()
    if len(text) > _MAX_READ:
        half = _MAX_READ // 2
        text = f"{text[:half]} {text[-half:]}"
        folded_text = folded_text[:half] + b" " + folded_text[-half:]
    folded = text.casefold()
    words = _split_words(folded)
    found: set[str] = set()
    if not text.isascii():
        # The listed words keep their accents, so folded ones are found if they have none.
        words += _split_words(folded_text.decode("latin-1"))
    if not marks.every_word.isdisjoint(words):
        known = marks.every_word.intersection(words)
        least = 1 if len(words) <= _MAX_SHORT_WORDS else 2
        found.update(name for name, own in marks.words.items() if len(own & known) >= least)
    if not text.isascii():
        found.update(name for name, own in marks.letters.items() if own.search(folded))
    return sorted(found)
