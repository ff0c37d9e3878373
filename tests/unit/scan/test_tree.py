import re

import pytest

from demur.scan.tree import (
    ANY_BYTE,
    BoundaryNode,
    ChoiceNode,
    LiteralNode,
    PatternNode,
    OneOfNode,
    RepeatNode,
    SequenceNode,
    node_size,
    match_widths,
    to_regex,
)

CAT = LiteralNode(b"cat")
NODES: list[tuple[PatternNode, tuple[int, int], int, bytes]] = [
    (CAT, (3, 3), 3, b"cat"),
    (LiteralNode(b"a.b"), (3, 3), 3, rb"a\x2eb"),
    (OneOfNode(frozenset(b"abcx")), (1, 1), 1, rb"[\x61-\x63\x78-\x78]"),
    (OneOfNode(frozenset(b"*")), (1, 1), 1, rb"\x2a"),
    (BoundaryNode(), (0, 0), 1, rb"\b"),
    (SequenceNode((CAT, ANY_BYTE)), (4, 4), 4, rb"cat[\x00-\xff]"),
    (ChoiceNode((CAT, LiteralNode(b"ox"))), (2, 3), 5, b"(?:cat|ox)"),
    (RepeatNode(CAT, 0, 1), (0, 3), 3, b"(?:cat)?"),
    (RepeatNode(LiteralNode(b"a"), 2, 5), (2, 5), 5, b"a{2,5}"),
    (RepeatNode(ChoiceNode((CAT, LiteralNode(b"ox"))), 1, 2), (2, 6), 10, b"(?:cat|ox){1,2}"),
]


@pytest.mark.parametrize(("node", "wide", "positions", "expression"), NODES)
def test_a_node_knows_its_width_and_size_and_writes_itself(
    node: PatternNode, wide: tuple[int, int], positions: int, expression: bytes
) -> None:
    assert match_widths(node) == wide
    assert node_size(node) == positions
    assert to_regex(node) == expression
    assert re.compile(expression).groups == 0
