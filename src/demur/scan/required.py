r"""What a text must hold for a pattern to match: sets of words, one of each set at least.

A big pattern is dear to compile and to run. Its words are not: `\bmake.{0,40}\b(acid|bomb)`
needs `make` and one of `acid`, `bomb`. Texts without them are most texts.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from demur.scan.common import COMMON
from demur.scan.tree import Boundary, Choice, Literal, Node, OneOf, Repeat, Sequence, written

__all__ = ["DULL", "Required", "is_whole_word", "required", "texts_of", "word_sets"]

# Words that occur more often per page of text rule out too little.
DULL = 0.5

# Stands for `\b` within a word; folded text never holds it.
_EDGE = b"\0"
_MOST_TEXTS = 200
_MOST_WORDS = 1_000
_MOST_CLAUSES = 3
_LONGEST_WORD = 24
# Rough counts per page of text: a word by its length, and a common word.
_BY_LENGTH = (50.0, 20.0, 5.0, 0.4, 0.1, 0.04, 0.02, 0.01)
_OFTEN = 0.3
_IN_A_PHRASE = 0.2
# The cost of each word in a clause, in the same measure.
_COST = 0.001


class Required(NamedTuple):
    """Expressions that match wherever a pattern does, and the rate of the rarest per page."""

    clauses: tuple[bytes, ...]
    odds: float


class _Needs(NamedTuple):
    """All texts that a node matches, if they are few; and the clauses that it implies."""

    texts: frozenset[bytes] | None
    clauses: tuple[frozenset[bytes], ...] = ()


_ANYTHING = _Needs(None)


def required(node: Node) -> Required:
    """Return the words that a text must hold for the node to match, the rarest first."""
    found = sorted((_odds(words), sorted(words)) for words in set(word_sets(node)))
    # Frequent words cost time at each place, so they are only the last resort.
    telling = [words for odds, words in found if odds < DULL] or [words for _, words in found[:1]]
    if not telling:
        return Required((written(node),), _BY_LENGTH[0])
    return Required(tuple(map(_alternation, telling[:_MOST_CLAUSES])), found[0][0])


def word_sets(node: Node) -> tuple[frozenset[bytes], ...]:
    """Return sets of texts: wherever the node matches, there is one of each set."""
    return _settled(_needs(node))


def texts_of(phrase: bytes) -> list[bytes]:
    """Return the words of one of these texts; an empty one, if it has none."""
    return phrase.replace(_EDGE, b" ").split() or [b""]


def is_whole_word(phrase: bytes) -> bool:
    """Return whether one of these texts stands between the edges of a word."""
    return phrase.startswith(_EDGE) and phrase.endswith(_EDGE)


def _alternation(words: Iterable[bytes]) -> bytes:
    return b"|".join(
        rb"\b".join(written(Literal(part)) for part in word.split(_EDGE)) for word in words
    )


def _odds(words: Iterable[bytes]) -> float:
    return sum(map(_frequency, words))


def _frequency(text: bytes) -> float:
    """Return roughly how often a page holds the text: as often as its rarest word, or less."""
    words = texts_of(text)
    rarest = min(map(_word_frequency, words))
    return rarest * _IN_A_PHRASE if len(words) > 1 else rarest


def _word_frequency(word: bytes) -> float:
    often = _OFTEN if word.decode("latin-1") in COMMON else 0.0
    return max(often, _BY_LENGTH[min(len(word), len(_BY_LENGTH) - 1)])


def _worth(words: frozenset[bytes]) -> tuple[float, list[bytes]]:
    """Return the cost of a clause: rare words and few of them are cheap."""
    return _odds(words) + _COST * len(words), sorted(words)


def _settled(needs: _Needs) -> tuple[frozenset[bytes], ...]:
    """Return the clauses, with the texts as one more if they are all that can match."""
    if needs.texts is None or any(len(text.strip(_EDGE)) < 2 for text in needs.texts):
        return needs.clauses
    return (*needs.clauses, needs.texts)


def _needs(node: Node) -> _Needs:
    match node:
        case Literal(text):
            return _Needs(frozenset({text}))
        case OneOf(members):
            texts = frozenset(bytes([member]) for member in members)
            return _Needs(texts) if len(texts) <= 4 else _ANYTHING
        case Boundary():
            return _Needs(frozenset({_EDGE}))
        case Sequence(parts):
            return _in_turn([_needs(part) for part in _edged(parts)])
        case Choice(options):
            return _either([_needs(option) for option in options])
        case Repeat(part, least, most):
            return _repeated(_needs(part), least, most)


def _edged(parts: tuple[Node, ...]) -> Iterator[Node]:
    """Yield the parts, with word boundaries around a choice moved into its options.

    There they keep `cat` from matching in `education`, even if the options are many.
    """
    for index, part in enumerate(parts):
        if isinstance(part, Choice):
            before = parts[max(index - 1, 0) : index]
            after = parts[index + 1 : index + 2]
            head, tail = (tuple(e for e in near if e == Boundary()) for near in (before, after))
            yield Choice(tuple(Sequence((*head, option, *tail)) for option in part.options))
        else:
            yield part


def _repeated(part: _Needs, least: int, most: int) -> _Needs:
    if most == 1 and part.texts is not None:
        return part if least else _Needs(part.texts | {b""})
    if least == 0:
        return _ANYTHING
    return _Needs(None, _settled(part))


def _in_turn(parts: list[_Needs]) -> _Needs:
    """Join neighbouring texts as long as they are few; others become clauses."""
    found: list[frozenset[bytes]] = []
    texts: frozenset[bytes] = frozenset({b""})
    whole = True
    for part in parts:
        joined = _joined(texts, part.texts)
        if joined is not None:
            texts = joined
            continue
        whole = False
        found += [*_settled(_Needs(texts)), *part.clauses]
        texts = part.texts or frozenset({b""})
    if whole:
        return _Needs(texts)
    return _Needs(None, (*found, *_settled(_Needs(texts))))


def _joined(before: frozenset[bytes], after: frozenset[bytes] | None) -> frozenset[bytes] | None:
    if after is None or len(before) * len(after) > _MOST_TEXTS:
        return None
    joined = frozenset(
        (first + last).replace(_EDGE * 2, _EDGE) for first in before for last in after
    )
    return joined if all(len(text) <= _LONGEST_WORD for text in joined) else None


def _either(options: list[_Needs]) -> _Needs:
    if all(option.texts is not None for option in options):
        texts = frozenset(text for option in options for text in option.texts or ())
        if len(texts) <= _MOST_TEXTS:
            return _Needs(texts)
    best = [min(_settled(option), key=_worth, default=None) for option in options]
    if any(words is None for words in best):
        return _ANYTHING
    together = frozenset(word for words in best for word in words or ())
    return _Needs(None, (together,)) if len(together) <= _MOST_WORDS else _ANYTHING
