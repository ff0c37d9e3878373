r"""Patterns: regular expressions over folded text whose matches have a maximum width.

Every engine matches them in linear time and alike. The grammar has literals, classes, groups,
`|`, `?`, bounded `{m,n}`, `.`, `\b`, `\s`, `\d`, `\w` (and `\S`, `\D`, `\W`), and `\A` for the
start of the text. Folded text has no run of white space, so `\s+` and `\s*` are bounded too.
Letters outside ASCII stand for their folded form, in the pattern as in the text. `{name}` stands
for words defined elsewhere.

A large pattern is slow to compile and to run. So an engine first looks for its core, a part
without wide gaps, or for the words that every match needs.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib.resources import files
from math import fsum
from typing import NamedTuple

from demur.scan.grammar import (
    NO_WORDS,
    BoundaryNode,
    ChoiceNode,
    LiteralNode,
    OneOfNode,
    PatternError,
    PatternNode,
    RepeatNode,
    SequenceNode,
    TextStartNode,
    match_widths,
    node_size,
    parse_node,
    to_regex,
)
from demur.scan.opening import find_openings

# Words that stand in a great many requests, so that they rule out little.
COMMON_WORDS = frozenset((files("demur.scan") / "common_words.txt").read_text("ascii").split())

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
    if not found:
        return RequiredWords((to_regex(node),), _RATE_BY_LENGTH[0])
    # Frequent words cost time at each place, so they are only the last resort.
    useful = [words for rate, words in found if rate < MAX_USEFUL_RATE] or [found[0][1]]
    clauses = (
        b"|".join(
            rb"\b".join(to_regex(LiteralNode(part)) for part in word.split(_WORD_EDGE))
            for word in words
        )
        for words in useful[:_MAX_CLAUSES]
    )
    return RequiredWords(tuple(clauses), found[0][0])


def required_word_sets(node: PatternNode) -> tuple[frozenset[bytes], ...]:
    """Return sets of texts: wherever the node matches, there is one of each set."""
    return _collect_clauses(_analyze_node(node))


def split_words(phrase: bytes) -> list[bytes]:
    """Return the words of one of these texts; an empty one, if it has none."""
    return phrase.replace(_WORD_EDGE, b" ").split() or [b""]


def is_whole_word(phrase: bytes) -> bool:
    """Return whether one of these texts stands between the edges of a word."""
    return phrase.startswith(_WORD_EDGE) and phrase.endswith(_WORD_EDGE)


def _total_rate(words: Iterable[bytes]) -> float:
    # An exact sum, so that the order of a set makes no difference.
    return fsum(map(_text_rate, words))


def _text_rate(text: bytes) -> float:
    """Return roughly how often a page holds the text: as often as its rarest word, or less."""
    words = split_words(text)
    rarest = min(map(_word_rate, words))
    return rarest * _PHRASE_FACTOR if len(words) > 1 else rarest


def _word_rate(word: bytes) -> float:
    often = _COMMON_RATE if word.decode("latin-1") in COMMON_WORDS else 0.0
    return max(often, _RATE_BY_LENGTH[min(len(word), len(_RATE_BY_LENGTH) - 1)])


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
        case BoundaryNode() | TextStartNode():
            return _NodeNeeds(frozenset({_WORD_EDGE if isinstance(node, BoundaryNode) else b""}))
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
            head, tail = (
                tuple(edge for edge in near if isinstance(edge, BoundaryNode))
                for near in (before, after)
            )
            yield ChoiceNode(tuple(SequenceNode((*head, option, *tail)) for option in part.options))
        else:
            yield part


def _analyze_repeat(part: _NodeNeeds, min_count: int, max_count: int) -> _NodeNeeds:
    if max_count == 1 and part.texts is not None:
        return part if min_count else _NodeNeeds(part.texts | {b""})
    return _NodeNeeds(None, _collect_clauses(part)) if min_count else _NO_NEEDS


def _analyze_sequence(parts: list[_NodeNeeds]) -> _NodeNeeds:
    """Join neighbouring texts as long as they are few; others become clauses."""
    found: list[frozenset[bytes]] = []
    texts: frozenset[bytes] = frozenset({b""})
    whole = True
    for part in parts:
        joined = _join(texts, part.texts)
        if joined is not None:
            texts = joined
            continue
        whole = False
        found += [*_collect_clauses(_NodeNeeds(texts)), *part.clauses]
        texts = part.texts or frozenset({b""})
    last = _NodeNeeds(texts)
    return last if whole else _NodeNeeds(None, (*found, *_collect_clauses(last)))


def _join(before: frozenset[bytes], after: frozenset[bytes] | None) -> frozenset[bytes] | None:
    if after is None or len(before) * len(after) > _MAX_TEXTS:
        return None
    pairs = (first + last for first in before for last in after)
    joined = frozenset(pair.replace(_WORD_EDGE * 2, _WORD_EDGE) for pair in pairs)
    return joined if all(len(text) <= _MAX_WORD_LENGTH for text in joined) else None


def _analyze_choice(options: list[_NodeNeeds]) -> _NodeNeeds:
    if all(option.texts is not None for option in options):
        texts = frozenset(text for option in options for text in option.texts or ())
        if len(texts) <= _MAX_TEXTS:
            return _NodeNeeds(texts)

    def cost(words: frozenset[bytes]) -> tuple[float, list[bytes]]:
        return _total_rate(words) + _WORD_COST * len(words), sorted(words)

    best = [min(_collect_clauses(option), key=cost, default=None) for option in options]
    if any(words is None for words in best):
        return _NO_NEEDS
    together = frozenset(word for words in best for word in words or ())
    return _NodeNeeds(None, (together,)) if len(together) <= _MAX_WORDS else _NO_NEEDS


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
            large = [p for p in _split_at_gaps(node) if node_size(p) >= _MIN_PIECE_SIZE]
            rare = [piece for piece in large if _estimate_rate(piece) < _SELDOM]
            return min(rare, key=_estimate_rate, default=node)
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


def _estimate_rate(node: PatternNode) -> float:
    """Return how often a page of text may hold the words that the node needs."""
    rates = (fsum(map(_core_text_rate, words)) for words in required_word_sets(node))
    return min(rates, default=_CORE_RATE_BY_LENGTH[0])


def _core_text_rate(text: bytes) -> float:
    words = split_words(text)
    if len(words) > 1:
        return min(map(_core_word_rate, words)) * _CORE_PHRASE_FACTOR
    # As a whole word, even a few letters are rare.
    return _core_word_rate(words[0].ljust(_LONG_WORD) if is_whole_word(text) else words[0])


def _core_word_rate(word: bytes) -> float:
    if word.strip().decode("latin-1") in COMMON_WORDS:
        return _CORE_COMMON_RATE
    return _CORE_RATE_BY_LENGTH[min(len(word), len(_CORE_RATE_BY_LENGTH) - 1)]


MAX_MATCH_WIDTH = 2_000
_MAX_PATTERN_SIZE = 20_000


class PatternIndex(NamedTuple):
    """How to search for a pattern in many: by its core or by the words that it requires.

    `core` is an expression for a part that every match holds, faster to search for and rare
    elsewhere; `core_size` is the number of its positions.
    """

    core: bytes
    core_size: int
    required_words: RequiredWords


class PatternOpening(NamedTuple):
    """How the matches of a pattern begin: see `demur.scan.opening`.

    `head` is the first opening, `longer` the expressions of the others.
    """

    head: "Pattern"
    longer: tuple[bytes, ...]


def _index_node(node: PatternNode) -> PatternIndex:
    core = find_core(node)
    return PatternIndex(to_regex(core), node_size(core), find_required_words(node))


def _open_node(node: PatternNode) -> PatternOpening | None:
    found = find_openings(node)
    if not found:
        return None
    first, *others = found
    head = Pattern("", to_regex(first), match_widths(first)[1], partial(_index_node, first))
    return PatternOpening(head, tuple(map(to_regex, others)))


class Pattern:
    """A pattern that all engines can match. Equal to another that matches the same way."""

    __slots__ = ("_index", "_opening", "expression", "source", "width")

    def __init__(
        self,
        source: str,
        expression: bytes,
        width: int,
        index: PatternIndex | Callable[[], PatternIndex],
        opening: PatternOpening | Callable[[], PatternOpening | None] | None = None,
    ) -> None:
        self.source = source
        # The regular expression over bytes, the same for all engines.
        self.expression = expression
        # The maximum number of bytes of folded text in a match.
        self.width = width
        self._index = index
        self._opening = opening

    @property
    def index(self) -> PatternIndex:
        """How to search for it; computed on first use."""
        if not isinstance(self._index, PatternIndex):
            self._index = self._index()
        return self._index

    @property
    def opening(self) -> PatternOpening | None:
        """How its matches begin, if that is known; computed on first use."""
        if callable(self._opening):
            self._opening = self._opening()
        return self._opening

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pattern) and other.expression == self.expression

    def __hash__(self) -> int:
        return hash(self.expression)

    def __repr__(self) -> str:
        return f"<Pattern {self.source}>"


def parse_pattern(source: str, words: Mapping[str, PatternNode] = NO_WORDS) -> Pattern:
    """Return the pattern written in `source`, where `{name}` is one of `words`.

    Raises:
        PatternError: It is not in the grammar.
    """
    node = parse_node(source, words)
    narrow, wide = match_widths(node)
    if narrow == 0:
        problem, help_text = "the pattern can match nothing at all", "make a part of it required"
    elif wide > MAX_MATCH_WIDTH:
        problem = f"a match can be {wide} bytes wide, more than {MAX_MATCH_WIDTH}"
        help_text = "narrow the gaps, or use `all` with `within`"
    elif node_size(node) > _MAX_PATTERN_SIZE:
        problem = "the pattern is too large when its repeats are written out"
        help_text = "use fewer or smaller repeats"
    else:
        parts = source, to_regex(node), wide
        return Pattern(*parts, partial(_index_node, node), partial(_open_node, node))
    raise PatternError(problem, position=0, help=help_text)
