import re

import pytest

from demur.scan.grammar import (
    ANY_BYTE,
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

A, B = LiteralNode(b"a"), LiteralNode(b"b")


@pytest.mark.parametrize(
    ("source", "node"),
    [
        ("ab c", LiteralNode(b"ab c")),
        ("é", LiteralNode(b"e")),
        ("ß?", RepeatNode(LiteralNode(b"ss"), 0, 1)),
        ("a|b", ChoiceNode((A, B))),
        ("(a)(?:b)", SequenceNode((A, B))),
        ("ab?", SequenceNode((A, RepeatNode(B, 0, 1)))),
        ("a{3}", RepeatNode(A, 3, 3)),
        ("a{0,3}b", SequenceNode((RepeatNode(A, 0, 3), B))),
        (r"\b.", SequenceNode((BoundaryNode(), ANY_BYTE))),
        (r"\Aa", SequenceNode((TextStartNode(), A))),
        (r"\s+a", SequenceNode((RepeatNode(OneOfNode(frozenset(b" ")), 1, 1), A))),
        (" *a", SequenceNode((RepeatNode(LiteralNode(b" "), 0, 1), A))),
        (r"\d", OneOfNode(frozenset(b"0123456789"))),
        (r"\.\\\{", LiteralNode(b".\\{")),
        ("[a-c]", OneOfNode(frozenset(b"abc"))),
        (r"[a\-\d]", OneOfNode(frozenset(b"a-0123456789"))),
        ("[a-]", OneOfNode(frozenset(b"a-"))),
        ("[^a]", OneOfNode(frozenset(range(256)) - {97})),
        ("[aß]", ChoiceNode((OneOfNode(frozenset(b"a")), LiteralNode(b"ss")))),
        ("[ßæ]", ChoiceNode((LiteralNode(b"ss"), LiteralNode(b"ae")))),
        ("[!-c]", OneOfNode(frozenset(range(33, 100)) - set(range(65, 91)))),
    ],
)
def test_a_pattern_is_read(source: str, node: PatternNode) -> None:
    read = parse_node(source, NO_WORDS)

    assert read == node or read == _joined(node)


def _joined(node: PatternNode) -> PatternNode:
    """Return the node with neighbouring literals in one, as the parser writes them."""
    assert isinstance(node, SequenceNode)
    return LiteralNode(b"".join(part.text for part in node.parts if isinstance(part, LiteralNode)))


def test_a_class_of_word_characters_knows_letters_of_every_script() -> None:
    word, other = parse_node(r"\w", NO_WORDS), parse_node(r"\W", NO_WORDS)

    assert isinstance(word, OneOfNode)
    assert isinstance(other, OneOfNode)
    assert set(b"azAZ09_") <= word.members
    assert word.members | other.members == ANY_BYTE.members


def test_words_stand_for_themselves() -> None:
    words = {"animal": ChoiceNode((LiteralNode(b"cat"), LiteralNode(b"ox")))}

    assert parse_node("a{animal}?", words) == SequenceNode((A, RepeatNode(words["animal"], 0, 1)))
    assert parse_node("{animal}{2}", words) == RepeatNode(words["animal"], 2, 2)
    assert parse_node("a{2}{animal}", words) == SequenceNode((RepeatNode(A, 2, 2), words["animal"]))


@pytest.mark.parametrize(
    ("source", "position", "problem"),
    [
        ("a*", 1, "`*` has no bound"),
        (r"\w+", 2, "`+` has no bound"),
        ("a{2,}", 1, "`{2,}` has no upper bound"),
        ("a{x}", 1, "there are no words called `x`"),
        ("a{,3}", 1, "a repeat is `{m}` or `{m,n}`"),
        ("a{2", 1, "a repeat is `{m}` or `{m,n}`"),
        ("a{3,2}", 1, "`{3,2}` runs backwards or is empty"),
        ("a{0}", 1, "`{0}` runs backwards or is empty"),
        ("a{5000}", 0, "repeats multiply to more than 1000"),
        ("x(a{50}|b){30}", 1, "repeats multiply to more than 1000"),
        ("a??", 2, "`?` cannot follow a repeat"),
        ("?a", 0, "`?` repeats nothing"),
        (r"\b?", 2, r"`\b` cannot be repeated"),
        (r"\A?", 2, r"`\A` cannot be repeated"),
        ("Ab", 0, "`A` can never match"),
        ("[A]", 1, "`A` can never match"),
        ("a\u200b", 1, "an invisible character can never match"),
        ("a  b", 3, "two spaces in a row match nothing"),
        ("(a", 0, "this `(` is never closed"),
        ("a)", 1, "this `)` closes nothing"),
        ("a]", 1, "this `]` closes nothing"),
        ("[a", 0, "this `[` is never closed"),
        ("[]", 0, "the class is empty"),
        ("[c-a]", 2, "a range runs forward between two ASCII characters"),
        (r"[a-\d]", 2, "a range runs forward between two ASCII characters"),
        ("[^ß]", 0, "a negated class holds ASCII alone"),
        (r"[\b]", 1, r"`\b` cannot stand in a class"),
        (r"[\A]", 1, r"`\A` cannot stand in a class"),
        ("^a", 0, "`^` does not anchor here"),
        ("(?=a)", 0, "look-around, flags and named groups are not in the grammar"),
        ("(?i)a", 0, "look-around, flags and named groups are not in the grammar"),
        (r"a\1", 1, "back-references are not in the grammar"),
        (r"a\n", 1, r"`\n` can never match"),
        (r"a\q", 1, r"`\q` is not in the grammar"),
        ("a\\", 1, "the pattern ends in a `\\`"),
        ("(" * 30 + "a" + ")" * 30, 20, "groups are nested too deep"),
    ],
)
def test_an_unsupported_construct_is_named_with_its_position(
    source: str, position: int, problem: str
) -> None:
    with pytest.raises(PatternError) as caught:
        parse_node(source, NO_WORDS)

    assert caught.value.problem == problem
    assert caught.value.position == position


CAT = LiteralNode(b"cat")
NODES: list[tuple[PatternNode, tuple[int, int], int, bytes]] = [
    (CAT, (3, 3), 3, b"cat"),
    (LiteralNode(b"a.b"), (3, 3), 3, rb"a\x2eb"),
    (OneOfNode(frozenset(b"abcx")), (1, 1), 1, rb"[\x61-\x63\x78-\x78]"),
    (OneOfNode(frozenset(b"*")), (1, 1), 1, rb"\x2a"),
    (BoundaryNode(), (0, 0), 1, rb"\b"),
    (TextStartNode(), (0, 0), 1, b"^"),
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
