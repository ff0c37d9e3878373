r"""The part of a pattern to look for first: each match holds it, and few other texts do.

Something with a wide gap in it, like `\bmake.{0,40}\bbomb`, keeps an engine busy after each
`make`. So patterns are cut at their wide gaps, and the piece that is met least is looked for.
"""

from collections.abc import Iterator

from demur.scan.common import COMMON
from demur.scan.required import is_whole_word, texts_of, word_sets
from demur.scan.tree import Choice, Node, OneOf, Repeat, Sequence, size

__all__ = ["core"]

# The automaton of a smaller pattern is fast in spite of its gaps.
_LARGE = 400
_GAP = 10
_NEARLY_ANY = 128
# A smaller piece matches too often.
_SMALLEST = 50
# Rough counts per page of text: a word by its length, and a common word.
_BY_LENGTH = (5.0, 5.0, 2.0, 0.2, 0.03, 0.01)
_LONG = 4
_OFTEN = 1.0
_IN_A_PHRASE = 0.2
# A more frequent piece costs more in false alarms than the gaps.
_SELDOM = 1.15


def core(node: Node) -> Node:
    """Return a node that matches within each match of `node`, without wide gaps if that pays."""
    return _without_gaps(node) if size(node) >= _LARGE else node


def _without_gaps(node: Node) -> Node:
    if not _has_gap(node):
        return node
    match node:
        case Sequence():
            return min(filter(_is_seldom, _pieces(node)), key=_rate, default=node)
        case Choice(options):
            return Choice(tuple(map(_without_gaps, options)))
        case _:
            return node


def _pieces(node: Sequence) -> Iterator[Node]:
    """Yield the pieces between the wide gaps."""
    piece: list[Node] = []
    for part in _flat(node):
        if not _has_gap(part):
            piece.append(part)
            continue
        yield Sequence(tuple(piece))
        piece = []
        if isinstance(part, Choice):
            yield _without_gaps(part)
    yield Sequence(tuple(piece))


def _flat(node: Sequence) -> Iterator[Node]:
    for part in node.parts:
        if isinstance(part, Sequence):
            yield from _flat(part)
        else:
            yield part


def _has_gap(node: Node) -> bool:
    match node:
        case Repeat(OneOf(members), _, most):
            return most >= _GAP and len(members) > _NEARLY_ANY
        case Repeat(part, _, _):
            return _has_gap(part)
        case Sequence(parts) | Choice(parts):
            return any(map(_has_gap, parts))
        case _:
            return False


def _is_seldom(node: Node) -> bool:
    return size(node) >= _SMALLEST and _rate(node) < _SELDOM


def _rate(node: Node) -> float:
    """Return how often a page of text may hold the words that the node needs."""
    return min((sum(map(_frequency, words)) for words in word_sets(node)), default=_BY_LENGTH[0])


def _frequency(text: bytes) -> float:
    words = texts_of(text)
    if len(words) > 1:
        return min(map(_word_frequency, words)) * _IN_A_PHRASE
    # As a whole word, even a few letters are rare.
    padded = words[0].ljust(_LONG) if is_whole_word(text) else words[0]
    return _word_frequency(padded)


def _word_frequency(word: bytes) -> float:
    if word.strip().decode("latin-1") in COMMON:
        return _OFTEN
    return _BY_LENGTH[min(len(word), len(_BY_LENGTH) - 1)]
