r"""The grammar of rules: regular expressions over folded text that have a widest match.

Every engine matches them in linear time and alike. Literals, classes, groups, `|`, `?`,
bounded `{m,n}`, `.`, `\b`, `\s`, `\d`, `\w` (and `\S`, `\D`, `\W`); as folded text has no
run of white space, `\s+` and `\s*` are bounded too. Letters outside ASCII stand for their
folded form, in the pattern as in the text. `{name}` stands for words defined elsewhere.
"""

from collections.abc import Mapping

from demur.scan.core import find_core
from demur.scan.grammar import NO_WORDS, PatternError, parse_node
from demur.scan.required import RequiredWords, find_required_words
from demur.scan.tree import PatternNode, node_size, match_widths, to_regex

__all__ = ["MAX_MATCH_WIDTH", "Pattern", "PatternError", "parse_pattern", "parse_named_words"]

MAX_MATCH_WIDTH = 2_000
_MAX_PATTERN_SIZE = 20_000


class Pattern:
    """A pattern that all engines can match. Equal to another that matches the same way."""

    __slots__ = ("_core", "_node", "_required", "expression", "source", "width")

    def __init__(self, source: str, node: PatternNode) -> None:
        self.source = source
        # The regular expression over bytes, the same for all engines.
        self.expression = to_regex(node)
        # The maximum number of bytes of folded text in a match.
        self.width = match_widths(node)[1]
        self._node = node
        self._core: PatternNode | None = None
        self._required: RequiredWords | None = None

    @property
    def required_words(self) -> RequiredWords:
        """Words that every matching text holds; faster to search for."""
        if self._required is None:
            self._required = find_required_words(self._node)
        return self._required

    @property
    def core(self) -> PatternNode:
        """A part that every match holds; faster to search for, and rare elsewhere."""
        if self._core is None:
            self._core = find_core(self._node)
        return self._core

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pattern) and other.expression == self.expression

    def __hash__(self) -> int:
        return hash(self.expression)

    def __repr__(self) -> str:
        return f"<Pattern {self.source}>"


def parse_named_words(source: str, words: Mapping[str, PatternNode] = NO_WORDS) -> PatternNode:
    """Return the part of patterns written in `source`, to be used by its name in others.

    Raises:
        PatternError: It is not in the grammar.
    """
    return parse_node(source, words)


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
        return Pattern(source, node)
    raise PatternError(problem, position=0, help=help_text)
