from demur.scan.re2_engine import Re2Engine, compile_searcher


def test_it_says_which_expressions_match_in_order() -> None:
    engine = Re2Engine([b"cat", rb"\bdog\b", b"ox"])

    assert sorted(engine.find_matching(b"an ox and a cat, dogged")) == [0, 2]
    assert engine.find_matching(b"") == {}


def test_no_expressions_match_nothing() -> None:
    assert Re2Engine([]).find_matching(b"cat") == {}


def test_a_match_is_the_leftmost_and_the_longest() -> None:
    found = compile_searcher(b"(?:ab|abc){1,2}").search(b"xabcab")

    assert found.span() == (1, 6)


def test_bytes_of_any_value_are_bytes() -> None:
    assert compile_searcher(rb"[\x80-\xff]{2,2}").search(b"a\xff\x80").span() == (1, 3)
