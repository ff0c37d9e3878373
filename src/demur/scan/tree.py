"""What a pattern is made of, how wide it is, and how it is written for the engines.

Everything is about bytes of folded text. Nodes are values; only what both engines read
alike is ever written.
"""

from typing import NamedTuple

__all__ = [
    "ANY",
    "Boundary",
    "Choice",
    "Literal",
    "Node",
    "OneOf",
    "Repeat",
    "Sequence",
    "size",
    "widths",
    "written",
]


class Literal(NamedTuple):
    """These bytes, one after the other."""

    text: bytes


class OneOf(NamedTuple):
    """One of these bytes."""

    members: frozenset[int]


class Boundary(NamedTuple):
    """A word boundary; matches no bytes."""


class Sequence(NamedTuple):
    """One part after the other."""

    parts: tuple["Node", ...]


class Choice(NamedTuple):
    """One of several."""

    options: tuple["Node", ...]


class Repeat(NamedTuple):
    """The same part from `min_count` to `max_count` times."""

    part: "Node"
    least: int
    most: int


Node = Literal | OneOf | Boundary | Sequence | Choice | Repeat

ANY = OneOf(frozenset(range(256)))


def widths(node: Node) -> tuple[int, int]:
    """Return the minimum and maximum number of bytes that the node can match."""
    match node:
        case Literal(text):
            return len(text), len(text)
        case OneOf():
            return 1, 1
        case Boundary():
            return 0, 0
        case Sequence(parts):
            pairs = [widths(part) for part in parts]
            return sum(least for least, _ in pairs), sum(most for _, most in pairs)
        case Choice(options):
            pairs = [widths(option) for option in options]
            return min(least for least, _ in pairs), max(most for _, most in pairs)
        case Repeat(part, least, most):
            narrow, wide = widths(part)
            return narrow * least, wide * most


def size(node: Node) -> int:
    """Return the number of positions of an automaton for the node, repeats written out."""
    match node:
        case Literal(text):
            return len(text)
        case OneOf() | Boundary():
            return 1
        case Sequence(parts) | Choice(parts):
            return sum(map(size, parts))
        case Repeat(part, _, most):
            return size(part) * most


def written(node: Node) -> bytes:
    """Return the node as a regular expression over bytes, which all engines read alike."""
    match node:
        case Literal(text):
            return b"".join(map(_byte, text))
        case OneOf(members):
            return _one_of(members)
        case Boundary():
            return rb"\b"
        case Sequence(parts):
            return b"".join(map(written, parts))
        case Choice(options):
            return b"(?:" + b"|".join(map(written, options)) + b")"
        case Repeat(part, least, most):
            count = b"?" if (least, most) == (0, 1) else b"{%d,%d}" % (least, most)
            return _group(part) + count


def _group(part: Node) -> bytes:
    text = written(part)
    single = isinstance(part, OneOf | Choice) or (isinstance(part, Literal) and len(part.text) == 1)
    return text if single else b"(?:" + text + b")"


def _byte(byte: int) -> bytes:
    character = bytes([byte])
    return character if character.isalnum() or character == b" " else b"\\x%02x" % byte


def _one_of(members: frozenset[int]) -> bytes:
    ordered = sorted(members)
    if len(ordered) == 1:
        return _byte(ordered[0])
    ranges: list[list[int]] = []
    for byte in ordered:
        if ranges and ranges[-1][1] == byte - 1:
            ranges[-1][1] = byte
        else:
            ranges.append([byte, byte])
    return b"[" + b"".join(b"\\x%02x-\\x%02x" % (a, b) for a, b in ranges) + b"]"
