"""The grammar of patterns: parse a pattern into a tree, and write the tree as an expression.

Everything is about bytes of folded text. Nodes are values, and `to_regex` writes only syntax
that all engines read alike.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, NoReturn

from demur.errors import InputError
from demur.text.fold import FOLD_TABLE


class LiteralNode(NamedTuple):
    """These bytes, one after the other."""

    text: bytes


class OneOfNode(NamedTuple):
    """One of these bytes."""

    members: frozenset[int]


class BoundaryNode(NamedTuple):
    """A word boundary; matches no bytes."""


class TextStartNode(NamedTuple):
    """The start of the text; matches no bytes."""


class SequenceNode(NamedTuple):
    """One part after the other."""

    parts: tuple["PatternNode", ...]


class ChoiceNode(NamedTuple):
    """One of several."""

    options: tuple["PatternNode", ...]


class RepeatNode(NamedTuple):
    """The same part from `min_count` to `max_count` times."""

    part: "PatternNode"
    min_count: int
    max_count: int


EdgeNode = BoundaryNode | TextStartNode
PatternNode = LiteralNode | OneOfNode | EdgeNode | SequenceNode | ChoiceNode | RepeatNode

ANY_BYTE = OneOfNode(frozenset(range(256)))


def match_widths(node: PatternNode) -> tuple[int, int]:
    """Return the minimum and maximum number of bytes that the node can match."""
    match node:
        case LiteralNode(text):
            return len(text), len(text)
        case OneOfNode():
            return 1, 1
        case BoundaryNode() | TextStartNode():
            return 0, 0
        case SequenceNode(parts):
            pairs = [match_widths(part) for part in parts]
            return sum(least for least, _ in pairs), sum(most for _, most in pairs)
        case ChoiceNode(options):
            pairs = [match_widths(option) for option in options]
            return min(least for least, _ in pairs), max(most for _, most in pairs)
        case RepeatNode(part, least, most):
            narrow, wide = match_widths(part)
            return narrow * least, wide * most


def node_size(node: PatternNode) -> int:
    """Return the number of positions of an automaton for the node, repeats written out."""
    match node:
        case LiteralNode(text):
            return len(text)
        case OneOfNode() | BoundaryNode() | TextStartNode():
            return 1
        case SequenceNode(parts) | ChoiceNode(parts):
            return sum(map(node_size, parts))
        case RepeatNode(part, _, most):
            return node_size(part) * most


def to_regex(node: PatternNode) -> bytes:
    """Return the node as a regular expression over bytes, which all engines read alike."""
    match node:
        case LiteralNode(text):
            return b"".join(map(_escape_byte, text))
        case OneOfNode(members):
            return _class_regex(members)
        case BoundaryNode() | TextStartNode():
            return rb"\b" if isinstance(node, BoundaryNode) else b"^"
        case SequenceNode(parts):
            return b"".join(map(to_regex, parts))
        case ChoiceNode(options):
            return b"(?:" + b"|".join(map(to_regex, options)) + b")"
        case RepeatNode(part, least, most):
            count = b"?" if (least, most) == (0, 1) else b"{%d,%d}" % (least, most)
            return _group_regex(part) + count


def _group_regex(part: PatternNode) -> bytes:
    letter = isinstance(part, LiteralNode) and len(part.text) == 1
    single = letter or isinstance(part, OneOfNode | ChoiceNode)
    return to_regex(part) if single else b"(?:" + to_regex(part) + b")"


def _escape_byte(byte: int) -> bytes:
    character = bytes([byte])
    return character if character.isalnum() or character == b" " else b"\\x%02x" % byte


def _class_regex(members: frozenset[int]) -> bytes:
    ordered = sorted(members)
    if len(ordered) == 1:
        return _escape_byte(ordered[0])
    ranges: list[list[int]] = []
    for byte in ordered:
        if ranges and ranges[-1][1] == byte - 1:
            ranges[-1][1] = byte
        else:
            ranges.append([byte, byte])
    return b"[" + b"".join(b"\\x%02x-\\x%02x" % (a, b) for a, b in ranges) + b"]"


NO_WORDS: Mapping[str, PatternNode] = MappingProxyType({})

_MAX_REPEATS = 1_000
_MAX_GROUP_DEPTH = 20
_PUNCTUATION = frozenset("\\.^$|?*+()[]{}-/#&~'\"!%,:;<=>@_` ")
_DIGIT = frozenset(b"0123456789")
_WORD = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_SPACE = frozenset(b" ")
_EVERY = ANY_BYTE.members
_CLASSES = {
    "d": _DIGIT,
    "D": _EVERY - _DIGIT,
    "s": _SPACE,
    "S": _EVERY - _SPACE,
    "w": _WORD,
    "W": _EVERY - _WORD,
}
_LOWER = "text is folded before it is matched: write it in lower case"
_NAME = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_BOUNDED = "write `{0,40}` or another bound"


class PatternError(InputError):
    """A pattern outside the grammar; `position` is where in it, counted from 0."""

    def __init__(self, problem: str, *, position: int, help: str | None = None) -> None:  # noqa: A002 - as in the base
        super().__init__(problem, help=help)
        self.position = position


def parse_node(source: str, words: Mapping[str, PatternNode] = NO_WORDS) -> PatternNode:
    """Return the tree of the pattern in `source`, where `{name}` is one of `words`.

    Raises:
        PatternError: It is not in the grammar.
    """
    return _PatternParser(source, words).parse()


class _PatternParser:
    def __init__(self, source: str, words: Mapping[str, PatternNode]) -> None:
        self.source = source
        self.words = words
        self.position = 0
        self.depth = 0

    def fail(
        self, problem: str, remedy: str | None = None, position: int | None = None
    ) -> NoReturn:
        place = self.position if position is None else position
        raise PatternError(problem, position=place, help=remedy)

    def peek(self) -> str:
        return self.source[self.position : self.position + 1]

    def take(self) -> str:
        character = self.peek()
        self.position += 1
        return character

    def parse(self) -> PatternNode:
        node = self.parse_choice()
        if self.peek() == ")":
            self.fail("this `)` closes nothing", "write `\\)` for the character")
        return node

    def parse_choice(self) -> PatternNode:
        options = [self.parse_sequence()]
        while self.peek() == "|":
            self.take()
            options.append(self.parse_sequence())
        return options[0] if len(options) == 1 else ChoiceNode(tuple(options))

    def parse_sequence(self) -> PatternNode:
        parts: list[PatternNode] = []
        while self.peek() not in {"", "|", ")"}:
            part = self.parse_repeat()
            before = parts[-1] if parts else None
            if isinstance(part, LiteralNode) and isinstance(before, LiteralNode):
                parts[-1] = part = LiteralNode(before.text + part.text)
                if part.text.endswith(b"  "):
                    self.fail("two spaces in a row match nothing", "white space is folded into one")
            else:
                parts.append(part)
        return parts[0] if len(parts) == 1 else SequenceNode(tuple(parts))

    def parse_repeat(self) -> PatternNode:
        start = self.position
        part = self.parse_atom()
        if self.peek() not in {"?", "*", "+", "{"} or _NAME.match(self.source, self.position):
            return part
        if isinstance(part, EdgeNode):
            self.fail(f"`{self.source[start : start + 2]}` cannot be repeated")
        least, most = self.parse_count(part)
        if self.peek() in {"?", "+", "*", "{"} and not _NAME.match(self.source, self.position):
            problem = f"`{self.peek()}` cannot follow a repeat"
            self.fail(problem, "every match is taken at its longest")
        node = RepeatNode(part, least, most)
        if _count_repeats(node) > _MAX_REPEATS:
            self.fail(f"repeats multiply to more than {_MAX_REPEATS}", _BOUNDED, position=start)
        return node

    def parse_count(self, part: PatternNode) -> tuple[int, int]:
        start = self.position
        mark = self.take()
        if mark == "?":
            return 0, 1
        if mark in "*+":
            if part not in (OneOfNode(_SPACE), LiteralNode(b" ")):
                self.fail(f"`{mark}` has no bound", _BOUNDED, position=start)
            return int(mark == "+"), 1
        text, closed, _ = self.source[self.position :].partition("}")
        least, comma, most = text.partition(",")
        self.position += len(text) + 1
        if not closed or not least.isdecimal() or not text.isascii():
            self.fail("a repeat is `{m}` or `{m,n}`", "write `\\{` for the character", start)
        if comma and not most.isdecimal():
            self.fail(f"`{{{text}}}` has no upper bound", "write `{m,n}`", position=start)
        low, high = int(least[:9]), int((most or least)[:9])
        if high < low or high == 0:
            self.fail(f"`{{{text}}}` runs backwards or is empty", position=start)
        return low, high

    def parse_atom(self) -> PatternNode:
        character = self.take()
        if character == "(":
            return self.parse_group()
        if character == "[":
            return self.parse_class()
        if character == "\\":
            return self.parse_escape()
        if character == ".":
            return ANY_BYTE
        self.position -= 1
        if found := _NAME.match(self.source, self.position):
            return self.parse_named_words(found[1])
        if character in "?*+{":
            self.fail(f"`{character}` repeats nothing", f"write `\\{character}` for the character")
        if character in "^$":
            help_text = f"write `\\{character}` for the character, `\\A` for the start of the text"
            self.fail(f"`{character}` does not anchor here", help_text)
        if character in "]}":
            self.fail(f"this `{character}` closes nothing", f"write `\\{character}`")
        return self.parse_literal()

    def parse_named_words(self, name: str) -> PatternNode:
        if name not in self.words:
            known = ", ".join(self.words) or "none so far"
            self.fail(f"there are no words called `{name}`", f"`words` defines {known}")
        self.position += len(name) + 2
        return self.words[name]

    def parse_literal(self) -> LiteralNode:
        character = self.peek()
        if character.isascii() and character.isupper():
            self.fail(f"`{character}` can never match", _LOWER)
        folded = FOLD_TABLE[ord(character)]
        if not folded:
            self.fail("an invisible character can never match", "leave it out")
        self.position += 1
        return LiteralNode(folded.encode("latin-1"))

    def parse_escape(self) -> PatternNode:
        character = self.take()
        if character in _CLASSES:
            return OneOfNode(_CLASSES[character])
        if character == "b":
            return BoundaryNode()
        if character == "A":
            return TextStartNode()
        if character and character in _PUNCTUATION:
            return LiteralNode(character.encode())
        raise self.make_escape_error(character)

    def make_escape_error(self, character: str) -> PatternError:
        if character in {"n", "r", "t", "f", "v"}:
            problem = f"`\\{character}` can never match"
            help_text = "white space is one space: `\\s`"
        elif character.isdigit():
            problem, help_text = "back-references are not in the grammar", "write the words out"
        elif not character:
            problem, help_text = "the pattern ends in a `\\`", "write `\\\\` for the character"
        else:
            problem = f"`\\{character}` is not in the grammar"
            help_text = "classes are `\\b \\s \\d \\w`, and `\\A` is the start of the text"
        return PatternError(problem, position=self.position - 2, help=help_text)

    def parse_group(self) -> PatternNode:
        start = self.position - 1
        if self.peek() == "?":
            if not self.source.startswith("?:", self.position):
                problem = "look-around, flags and named groups are not in the grammar"
                help_text = "write `(?:...)`; use `unless` for what must not stand near"
                self.fail(problem, help_text, start)
            self.position += 2
        self.depth += 1
        if self.depth > _MAX_GROUP_DEPTH:
            self.fail("groups are nested too deep", position=start)
        node = self.parse_choice()
        self.depth -= 1
        if self.take() != ")":
            self.fail("this `(` is never closed", "write `\\(` for the character", position=start)
        return node

    def parse_class(self) -> PatternNode:
        start = self.position - 1
        negated = self.peek() == "^"
        self.position += negated
        members: set[int] = set()
        words: list[PatternNode] = []
        while self.peek() != "]":
            if not self.peek():
                self.fail("this `[` is never closed", "write `\\[` for the character", start)
            member = self.parse_member()
            if isinstance(member, OneOfNode):
                members |= member.members
            elif len(member.text) == 1:
                members |= self.parse_range(member.text[0], member)
            else:
                words.append(member)
        self.take()
        if negated and words:
            self.fail("a negated class holds ASCII alone", position=start)
        if not members and not words:
            self.fail("the class is empty", position=start)
        node = OneOfNode(_EVERY - members if negated else frozenset(members))
        if not words:
            return node
        return ChoiceNode((node, *words) if members else tuple(words))

    def parse_member(self) -> OneOfNode | LiteralNode:
        if self.peek() != "\\":
            return self.parse_literal()
        start = self.position
        self.take()
        node = self.parse_escape()
        if not isinstance(node, OneOfNode | LiteralNode):
            self.fail(f"`{self.source[start : start + 2]}` cannot stand in a class", position=start)
        return node

    def parse_range(self, first: int, member: LiteralNode) -> set[int]:
        if self.peek() != "-" or self.source[self.position + 1 : self.position + 2] in {"]", ""}:
            return set(member.text)
        start = self.position
        self.take()
        last = self.parse_member()
        if not isinstance(last, LiteralNode) or len(last.text) != 1 or last.text[0] < first:
            self.fail("a range runs forward between two ASCII characters", position=start)
        return set(range(first, last.text[0] + 1)) - set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ")


def _count_repeats(node: PatternNode) -> int:
    """Return the product of nested repeats; re2 rejects more than a thousand."""
    match node:
        case RepeatNode(part, _, most):
            return most * _count_repeats(part)
        case SequenceNode(parts) | ChoiceNode(parts):
            return max(map(_count_repeats, parts), default=1)
        case _:
            return 1
