r"""What a text must hold for a pattern to match: sets of words, one of each set at least.

A big pattern is dear to compile and to run. Its words are not: `\bmake.{0,40}\b(acid|bomb)`
needs `make` and one of `acid`, `bomb`. Texts without them are most texts.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from demur.scan.common import COMMON_WORDS
from demur.scan.tree import (
    BoundaryNode,
    ChoiceNode,
    LiteralNode,
    PatternNode,
    OneOfNode,
    RepeatNode,
    SequenceNode,
    to_regex,
)

__all__ = [
    "MAX_USEFUL_RATE",
    "RequiredWords",
    "is_whole_word",
    "find_required_words",
    "split_words",
    "required_word_sets",
]

# Words that occur more often per page of text rule out too little.
MAX_USEFUL_RATE = 0.5

# Stands for `\b` within a word; folded text never holds it.
_WORD_EDGE = b"\0"
_MAX_TEXTS = 200
_MAX_WORDS = 1_000
_MAX_CLAUSES = 3
_MAX_WORD_LENGTH = 24
# Rough counts per page of text: a word by its length, and a common word.
_RATE_BY_LENGTH = (50.0, 20.0, 5.0, 0.4, 0.1, 0.04, 0.02, 0.01)
_COMMON_RATE = 0.3
_PHRASE_FACTOR = 0.2
# The cost of each word in a clause, in the same measure.
_WORD_COST = 0.001


class RequiredWords(NamedTuple):
    """Expressions that match wherever a pattern does, and the rate of the rarest per page."""

    clauses: tuple[bytes, ...]
    rate: float


class _NodeNeeds(NamedTuple):
    """All texts that a node matches, if they are few; and the clauses that it implies."""

    texts: frozenset[bytes] | None
    clauses: tuple[frozenset[bytes], ...] = ()


_NO_NEEDS = _NodeNeeds(None)


def find_required_words(node: PatternNode) -> RequiredWords:
    """Return the words that a text must hold for the node to match, the rarest first."""
    found = sorted((_total_rate(words), sorted(words)) for words in set(required_word_sets(node)))
    # Frequent words cost time at each place, so they are only the last resort.
    telling = [words for odds, words in found if odds < MAX_USEFUL_RATE] or [
        words for _, words in found[:1]
    ]
    if not telling:
        return RequiredWords((to_regex(node),), _RATE_BY_LENGTH[0])
    return RequiredWords(tuple(map(_words_regex, telling[:_MAX_CLAUSES])), found[0][0])


def required_word_sets(node: PatternNode) -> tuple[frozenset[bytes], ...]:
    """Return sets of texts: wherever the node matches, there is one of each set."""
    return _collect_clauses(_analyze_node(node))


def split_words(phrase: bytes) -> list[bytes]:
    """Return the words of one of these texts; an empty one, if it has none."""
    return phrase.replace(_WORD_EDGE, b" ").split() or [b""]


def is_whole_word(phrase: bytes) -> bool:
    """Return whether one of these texts stands between the edges of a word."""
    return phrase.startswith(_WORD_EDGE) and phrase.endswith(_WORD_EDGE)


def _words_regex(words: Iterable[bytes]) -> bytes:
    return b"|".join(
        rb"\b".join(to_regex(LiteralNode(part)) for part in word.split(_WORD_EDGE))
        for word in words
    )


def _total_rate(words: Iterable[bytes]) -> float:
    return sum(map(_text_rate, words))


def _text_rate(text: bytes) -> float:
    """Return roughly how often a page holds the text: as often as its rarest word, or less."""
    words = split_words(text)
    rarest = min(map(_word_rate, words))
    return rarest * _PHRASE_FACTOR if len(words) > 1 else rarest


def _word_rate(word: bytes) -> float:
    often = _COMMON_RATE if word.decode("latin-1") in COMMON_WORDS else 0.0
    return max(often, _RATE_BY_LENGTH[min(len(word), len(_RATE_BY_LENGTH) - 1)])


def _clause_cost(words: frozenset[bytes]) -> tuple[float, list[bytes]]:
    """Return the cost of a clause: rare words and few of them are cheap."""
    return _total_rate(words) + _WORD_COST * len(words), sorted(words)


def _collect_clauses(needs: _NodeNeeds) -> tuple[frozenset[bytes], ...]:
    """Return the clauses, with the texts as one more if they are all that can match."""
    if needs.texts is None or any(len(text.strip(_WORD_EDGE)) < 2 for text in needs.texts):
        return needs.clauses
    return (*needs.clauses, needs.texts)


def _analyze_node(node: PatternNode) -> _NodeNeeds:
    match node:
        case LiteralNode(text):
            return _NodeNeeds(frozenset({text}))
        case OneOfNode(members):
            texts = frozenset(bytes([member]) for member in members)
            return _NodeNeeds(texts) if len(texts) <= 4 else _NO_NEEDS
        case BoundaryNode():
            return _NodeNeeds(frozenset({_WORD_EDGE}))
        case SequenceNode(parts):
            return _analyze_sequence([_analyze_node(part) for part in _with_edges(parts)])
        case ChoiceNode(options):
            return _analyze_choice([_analyze_node(option) for option in options])
        case RepeatNode(part, least, most):
            return _analyze_repeat(_analyze_node(part), least, most)


def _with_edges(parts: tuple[PatternNode, ...]) -> Iterator[PatternNode]:
    """Yield the parts, with word boundaries around a choice moved into its options.

    There they keep `cat` from matching in `education`, even if the options are many.
    """
    for index, part in enumerate(parts):
        if isinstance(part, ChoiceNode):
            before = parts[max(index - 1, 0) : index]
            after = parts[index + 1 : index + 2]
            head, tail = (tuple(e for e in near if e == BoundaryNode()) for near in (before, after))
            yield ChoiceNode(tuple(SequenceNode((*head, option, *tail)) for option in part.options))
        else:
            yield part


def _analyze_repeat(part: _NodeNeeds, min_count: int, max_count: int) -> _NodeNeeds:
    if max_count == 1 and part.texts is not None:
        return part if min_count else _NodeNeeds(part.texts | {b""})
    if min_count == 0:
        return _NO_NEEDS
    return _NodeNeeds(None, _collect_clauses(part))


def _analyze_sequence(parts: list[_NodeNeeds]) -> _NodeNeeds:
    """Join neighbouring texts as long as they are few; others become clauses."""
    found: list[frozenset[bytes]] = []
    texts: frozenset[bytes] = frozenset({b""})
    whole = True
    for part in parts:
        joined = _join_texts(texts, part.texts)
        if joined is not None:
            texts = joined
            continue
        whole = False
        found += [*_collect_clauses(_NodeNeeds(texts)), *part.clauses]
        texts = part.texts or frozenset({b""})
    if whole:
        return _NodeNeeds(texts)
    return _NodeNeeds(None, (*found, *_collect_clauses(_NodeNeeds(texts))))


def _join_texts(
    before: frozenset[bytes], after: frozenset[bytes] | None
) -> frozenset[bytes] | None:
    if after is None or len(before) * len(after) > _MAX_TEXTS:
        return None
    joined = frozenset(
        (first + last).replace(_WORD_EDGE * 2, _WORD_EDGE) for first in before for last in after
    )
    return joined if all(len(text) <= _MAX_WORD_LENGTH for text in joined) else None


def _analyze_choice(options: list[_NodeNeeds]) -> _NodeNeeds:
    if all(option.texts is not None for option in options):
        texts = frozenset(text for option in options for text in option.texts or ())
        if len(texts) <= _MAX_TEXTS:
            return _NodeNeeds(texts)
    best = [min(_collect_clauses(option), key=_clause_cost, default=None) for option in options]
    if any(words is None for words in best):
        return _NO_NEEDS
    together = frozenset(word for words in best for word in words or ())
    return _NodeNeeds(None, (together,)) if len(together) <= _MAX_WORDS else _NO_NEEDS
