r"""The part of a pattern to look for first: each match holds it, and few other texts do.

Something with a wide gap in it, like `\bmake.{0,40}\bbomb`, keeps an engine busy after each
`make`. So patterns are cut at their wide gaps, and the piece that is met least is looked for.
"""

from collections.abc import Iterator

from demur.scan.common import COMMON_WORDS
from demur.scan.required import is_whole_word, split_words, required_word_sets
from demur.scan.tree import ChoiceNode, PatternNode, OneOfNode, RepeatNode, SequenceNode, node_size

__all__ = ["find_core"]

# The automaton of a smaller pattern is fast in spite of its gaps.
_LARGE = 400
_GAP = 10
_NEARLY_ANY = 128
# A smaller piece matches too often.
_MIN_PIECE_SIZE = 50
# Rough counts per page of text: a word by its length, and a common word.
_CORE_RATE_BY_LENGTH = (5.0, 5.0, 2.0, 0.2, 0.03, 0.01)
_LONG_WORD = 4
_CORE_COMMON_RATE = 1.0
_CORE_PHRASE_FACTOR = 0.2
# A more frequent piece costs more in false alarms than the gaps.
_SELDOM = 1.15


def find_core(node: PatternNode) -> PatternNode:
    """Return a node that matches within each match of `node`, without wide gaps if that pays."""
    return _drop_gaps(node) if node_size(node) >= _LARGE else node


def _drop_gaps(node: PatternNode) -> PatternNode:
    if not _has_gap(node):
        return node
    match node:
        case SequenceNode():
            return min(
                filter(_is_rare_piece, _split_at_gaps(node)), key=_estimate_rate, default=node
            )
        case ChoiceNode(options):
            return ChoiceNode(tuple(map(_drop_gaps, options)))
        case _:
            return node


def _split_at_gaps(node: SequenceNode) -> Iterator[PatternNode]:
    """Yield the pieces between the wide gaps."""
    piece: list[PatternNode] = []
    for part in _flatten_parts(node):
        if not _has_gap(part):
            piece.append(part)
            continue
        yield SequenceNode(tuple(piece))
        piece = []
        if isinstance(part, ChoiceNode):
            yield _drop_gaps(part)
    yield SequenceNode(tuple(piece))


def _flatten_parts(node: SequenceNode) -> Iterator[PatternNode]:
    for part in node.parts:
        if isinstance(part, SequenceNode):
            yield from _flatten_parts(part)
        else:
            yield part


def _has_gap(node: PatternNode) -> bool:
    match node:
        case RepeatNode(OneOfNode(members), _, most):
            return most >= _GAP and len(members) > _NEARLY_ANY
        case RepeatNode(part, _, _):
            return _has_gap(part)
        case SequenceNode(parts) | ChoiceNode(parts):
            return any(map(_has_gap, parts))
        case _:
            return False


def _is_rare_piece(node: PatternNode) -> bool:
    return node_size(node) >= _MIN_PIECE_SIZE and _estimate_rate(node) < _SELDOM


def _estimate_rate(node: PatternNode) -> float:
    """Return how often a page of text may hold the words that the node needs."""
    return min(
        (sum(map(_core_text_rate, words)) for words in required_word_sets(node)),
        default=_CORE_RATE_BY_LENGTH[0],
    )


def _core_text_rate(text: bytes) -> float:
    words = split_words(text)
    if len(words) > 1:
        return min(map(_core_word_rate, words)) * _CORE_PHRASE_FACTOR
    # As a whole word, even a few letters are rare.
    padded = words[0].ljust(_LONG_WORD) if is_whole_word(text) else words[0]
    return _core_word_rate(padded)


def _core_word_rate(word: bytes) -> float:
    if word.strip().decode("latin-1") in COMMON_WORDS:
        return _CORE_COMMON_RATE
    return _CORE_RATE_BY_LENGTH[min(len(word), len(_CORE_RATE_BY_LENGTH) - 1)]
