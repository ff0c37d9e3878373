"""How the matches of a pattern begin, for a text that still grows.

At the end of a text that grows, a match may have begun. So a pattern has openings: expressions, cut
at some widths, that match at the start of each of its matches. Where the first is not found, no
match begins; each wider one rules out more.
"""

from collections.abc import Iterator

from demur.scan.grammar import (
    ChoiceNode,
    LiteralNode,
    PatternNode,
    RepeatNode,
    SequenceNode,
    match_widths,
    node_size,
)

# The first width is how much text must follow a place before it can be ruled out at all.
OPENING_WIDTHS = (56, 88, 120)
# Engines find a small expression as it is, and others by words that it requires.
_MAX_FIRST_SIZE = 1_000
_FIRST_WIDTHS = (56, 48, 40, 32, 24, 16)
# The counts of a repeat form this many groups at most.
_MAX_GROUPS = 4
_EMPTY = SequenceNode(())


def find_openings(node: PatternNode) -> tuple[PatternNode, ...]:
    """Return the openings of a node, one for each width; none if one may match nothing."""
    narrow = (_cut_end(node, width) for width in _FIRST_WIDTHS)
    first = next((one for one in narrow if node_size(one) <= _MAX_FIRST_SIZE), _EMPTY)
    found = (first, *(_cut_end(node, width) for width in OPENING_WIDTHS[1:]))
    return found if all(match_widths(one)[0] for one in found) else ()


def _cut_end(node: PatternNode, width: int) -> PatternNode:
    return _drop_optional_end(_cut(node, width))


def _cut(node: PatternNode, width: int) -> PatternNode:
    """Return a node of this width at most that matches at the start of each match of `node`."""
    if match_widths(node)[1] <= width:
        return node
    match node:
        case LiteralNode(text):
            return LiteralNode(text[:width]) if width else _EMPTY
        case SequenceNode(parts):
            return _cut_sequence(parts, width)
        case ChoiceNode(options):
            return ChoiceNode(tuple(dict.fromkeys(_cut(option, width) for option in options)))
        case RepeatNode():
            return _cut_sequence((node,), width)
        case _:
            return _EMPTY


def _cut_sequence(parts: tuple[PatternNode, ...], width: int) -> PatternNode:
    for index, part in enumerate(parts):
        wide = match_widths(part)[1]
        if wide > width:
            rest = parts[index + 1 :]
            if isinstance(part, RepeatNode):
                ways = dict.fromkeys(_cut_repeat(part, rest, width))
                return SequenceNode((*parts[:index], ChoiceNode(tuple(ways))))
            return SequenceNode((*parts[:index], _cut(part, width)))
        width -= wide
    return SequenceNode(parts)


def _cut_repeat(
    repeat: RepeatNode, rest: tuple[PatternNode, ...], width: int
) -> Iterator[PatternNode]:
    """Yield the ways to go on, by how often the part is repeated before the rest follows."""
    part, least, most = repeat
    wide = match_widths(part)[1]
    step = -(-(most - least + 1) // _MAX_GROUPS)
    for low in range(least, most + 1, step):
        high = min(low + step - 1, most)
        if high * wide > width:
            whole = min(low, width // wide)
            before = (RepeatNode(part, whole, whole),) if whole else ()
            # Of the part that does not fit, only the beginning is known.
            end = _cut(part, width - whole * wide) if whole < low else _EMPTY
            yield SequenceNode((*before, end))
            return
        before = (RepeatNode(part, low, high),) if high else ()
        yield SequenceNode((*before, _cut_sequence(rest, width - high * wide)))


def _drop_optional_end(node: PatternNode) -> PatternNode:
    """Return a node without the parts at its end that may match nothing."""
    match node:
        case SequenceNode(parts):
            kept = list(parts)
            while kept:
                last = _drop_optional_end(kept.pop())
                if match_widths(last)[0]:
                    return SequenceNode((*kept, last))
            return _EMPTY
        case ChoiceNode(options):
            return ChoiceNode(tuple(dict.fromkeys(map(_drop_optional_end, options))))
        case _:
            return node
