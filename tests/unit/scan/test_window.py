from demur.scan.pattern import parse_pattern
from demur.scan.window import SearchWindow

CAT = parse_pattern(r"\bcat\b")
TEXT = b"cat concat cat cats cat"


def test_only_what_begins_in_the_stretch_is_seen() -> None:
    assert list(SearchWindow(TEXT, -5, 99).find_spans(CAT)) == [(0, 3), (11, 14), (20, 23)]
    assert list(SearchWindow(TEXT, 1, 20).find_spans(CAT)) == [(11, 14)]
    assert list(SearchWindow(TEXT, 11, 12).find_spans(CAT)) == [(11, 14)]
    assert list(SearchWindow(TEXT, 12, 20).find_spans(CAT)) == []


def test_the_text_around_the_stretch_decides_where_words_end() -> None:
    assert not SearchWindow(TEXT, 7, 10).has_match(CAT)
    assert not SearchWindow(TEXT, 15, 18).has_match(CAT)
    assert SearchWindow(TEXT, 20, 21).has_match(CAT)
