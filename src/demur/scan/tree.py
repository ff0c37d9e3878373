"""What a pattern is made of, how wide it is, and how it is written for the engines.

Everything is about bytes of folded text. Nodes are values; only what both engines read
alike is ever written.
"""

from typing import NamedTuple

__all__ = [
    "ANY_BYTE",
    "BoundaryNode",
    "ChoiceNode",
    "LiteralNode",
    "PatternNode",
    "OneOfNode",
    "RepeatNode",
    "SequenceNode",
    "node_size",
    "match_widths",
    "to_regex",
]


class LiteralNode(NamedTuple):
    """These bytes, one after the other."""

    text: bytes


class OneOfNode(NamedTuple):
    """One of these bytes."""

    members: frozenset[int]


class BoundaryNode(NamedTuple):
    """A word boundary; matches no bytes."""


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


PatternNode = LiteralNode | OneOfNode | BoundaryNode | SequenceNode | ChoiceNode | RepeatNode

ANY_BYTE = OneOfNode(frozenset(range(256)))


def match_widths(node: PatternNode) -> tuple[int, int]:
    """Return the minimum and maximum number of bytes that the node can match."""
    match node:
        case LiteralNode(text):
            return len(text), len(text)
        case OneOfNode():
            return 1, 1
        case BoundaryNode():
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
        case OneOfNode() | BoundaryNode():
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
        case BoundaryNode():
            return rb"\b"
        case SequenceNode(parts):
            return b"".join(map(to_regex, parts))
        case ChoiceNode(options):
            return b"(?:" + b"|".join(map(to_regex, options)) + b")"
        case RepeatNode(part, least, most):
            count = b"?" if (least, most) == (0, 1) else b"{%d,%d}" % (least, most)
            return _group_regex(part) + count


def _group_regex(part: PatternNode) -> bytes:
    text = to_regex(part)
    single = isinstance(part, OneOfNode | ChoiceNode) or (
        isinstance(part, LiteralNode) and len(part.text) == 1
    )
    return text if single else b"(?:" + text + b")"


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
