from demur.guards.text_rules.seeking import has_long_word


def test_a_long_word_is_one_without_white_space() -> None:
    assert has_long_word("a bcdef g", 0, 5)
    assert not has_long_word("a bcdef g", 0, 6)
    assert not has_long_word("abcdef g", 4, 5)
    assert not has_long_word("", 0, 1)
