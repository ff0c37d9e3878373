import re

import pytest

from demur.scan.tree import (
    ANY,
    Boundary,
    Choice,
    Literal,
    Node,
    OneOf,
    Repeat,
    Sequence,
    size,
    widths,
    written,
)

CAT = Literal(b"cat")
NODES: list[tuple[Node, tuple[int, int], int, bytes]] = [
    (CAT, (3, 3), 3, b"cat"),
    (Literal(b"a.b"), (3, 3), 3, rb"a\x2eb"),
    (OneOf(frozenset(b"abcx")), (1, 1), 1, rb"[\x61-\x63\x78-\x78]"),
    (OneOf(frozenset(b"*")), (1, 1), 1, rb"\x2a"),
    (Boundary(), (0, 0), 1, rb"\b"),
    (Sequence((CAT, ANY)), (4, 4), 4, rb"cat[\x00-\xff]"),
    (Choice((CAT, Literal(b"ox"))), (2, 3), 5, b"(?:cat|ox)"),
    (Repeat(CAT, 0, 1), (0, 3), 3, b"(?:cat)?"),
    (Repeat(Literal(b"a"), 2, 5), (2, 5), 5, b"a{2,5}"),
    (Repeat(Choice((CAT, Literal(b"ox"))), 1, 2), (2, 6), 10, b"(?:cat|ox){1,2}"),
]


@pytest.mark.parametrize(("node", "wide", "positions", "expression"), NODES)
def test_a_node_knows_its_width_and_size_and_writes_itself(
    node: Node, wide: tuple[int, int], positions: int, expression: bytes
) -> None:
    assert widths(node) == wide
    assert size(node) == positions
    assert written(node) == expression
    assert re.compile(expression).groups == 0
