"""Text that is not what it looks like: reordered, invisible, or spelled with other letters.

Works on characters alone, for every kind of file. Names are looked at in Python files only,
where a letter of another alphabet makes another name.
"""

import io
import re
import tokenize
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

from demur.guards.skill.sighting import SkillHit
from demur.model.finding import Action

__all__ = ["find_blobs", "find_lookalikes", "find_strange_characters"]

_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069]+")
_OPENS = "\u202a\u202b\u202d\u202e"
_ISOLATES = "\u2066\u2067\u2068"
# Zero-width characters, in runs or inside a Latin word; other scripts need joiners.
_INVISIBLE = re.compile(
    "[\u200b\u2060-\u2064\u180e\ufeff]{2,}|(?<=[A-Za-z])[\u200b-\u200d\u2060\u00ad\ufeff](?=[A-Za-z])"
)
# Tag characters can spell any ASCII text; region flags use them after a black flag.
_TAGS = re.compile("(?<!\U0001f3f4)[\U000e0020-\U000e007e]{2,}(?![\U000e0020-\U000e007f])")
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{4,}")
_BLOB = re.compile(
    r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/=_-]{4000,}"
    r"|(?<!\\x[0-9a-fA-F]{2})(?:\\x[0-9a-fA-F]{2}){500,}"
)
_DECODES = re.compile(r"b(?:64|85|32|16)decode|fromhex|unhexlify|decompress|a2b_")
_MAX_MATCHES = 20
_Item = TypeVar("_Item")


def find_strange_characters(text: str, *, code: bool) -> Iterator[SkillHit]:
    """Yield reordered or invisible text; in code it weighs more than in prose."""
    if text.isascii():
        return
    yield from _take_first(_find_bidi(text, code=code))
    for found in _take_first(_INVISIBLE.finditer(text)):
        action = None if code else Action.WARN
        yield _match_hit("TEXT_INVISIBLE", found, "zero-width characters", action)
    for found in _take_first(_TAGS.finditer(text)):
        yield _match_hit("HIDDEN_ORDER", found, "text written in invisible tag characters")
    for found in _take_first(_SELECTORS.finditer(text)):
        yield _match_hit(
            "TEXT_INVISIBLE", found, "a run of variation selectors, which can carry data"
        )


def _match_hit(
    rule: str, found: re.Match[str], detail: str, action: Action | None = None
) -> SkillHit:
    return SkillHit(rule, *found.span(), detail, {"technique": detail}, action=action)


def _take_first(items: Iterable[_Item]) -> Iterator[_Item]:
    """Yield the first few of `items`; more would add nothing."""
    return islice(items, _MAX_MATCHES)


def _find_bidi(text: str, *, code: bool) -> Iterator[SkillHit]:
    """Yield the first bidi control of each line; balanced ones weigh less."""
    done = 0
    for found in _BIDI.finditer(text):
        if found.start() < done:
            continue
        start = text.rfind("\n", 0, found.start()) + 1
        end = text.find("\n", found.end())
        done = end if end >= 0 else len(text)
        line = text[start:done]
        closed = _is_closed(line)
        action = Action.WARN if closed else (None if code else Action.ESCALATE)
        yield _match_hit("TEXT_BIDI", found, "characters that change the order of the text", action)


def _is_closed(line: str) -> bool:
    opened = sum(line.count(mark) for mark in _OPENS)
    isolated = sum(line.count(mark) for mark in _ISOLATES)
    overrides = "\u202e" in line or "\u202d" in line
    return not overrides and opened == line.count("\u202c") and isolated == line.count("\u2069")


def find_lookalikes(text: str) -> Iterator[SkillHit]:
    """Yield names in Python code that look like other names or normalise to them."""
    if text.isascii():
        return
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NAME and not token.string.isascii():
                detail = _describe_disguise(token.string)
                if detail:
                    start = starts[token.start[0] - 1] + token.start[1]
                    evidence = {"technique": "look-alike name"}
                    end = start + len(token.string)
                    yield SkillHit("TEXT_LOOKALIKE", start, end, detail, evidence)
    except (tokenize.TokenError, SyntaxError, IndexError):
        # The parser reports broken files.
        return


def _describe_disguise(name: str) -> str | None:
    plain = unicodedata.normalize("NFKC", name)
    if plain.isascii() and len(plain) > 1:
        return f"a name that is read as `{plain[:40]}`"
    scripts = {_script_name(letter) for letter in name if letter.isalpha()}
    return "a name in two alphabets" if len(scripts & {"LATIN", "CYRILLIC", "GREEK"}) > 1 else None


def _script_name(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]


def find_blobs(text: str) -> Iterator[SkillHit]:
    """Yield long encoded texts in a file that calls a decoder."""
    if not _DECODES.search(text):
        return
    for found in _take_first(_BLOB.finditer(text)):
        yield _match_hit("PY_BLOB", found, "a long encoded text that is decoded here")
