from demur.scan.pattern import parse_pattern
from demur.scan.window import Window

CAT = parse_pattern(r"\bcat\b")
TEXT = b"cat concat cat cats cat"


def test_only_what_begins_in_the_stretch_is_seen() -> None:
    assert list(Window(TEXT, -5, 99).spans(CAT)) == [(0, 3), (11, 14), (20, 23)]
    assert list(Window(TEXT, 1, 20).spans(CAT)) == [(11, 14)]
    assert list(Window(TEXT, 11, 12).spans(CAT)) == [(11, 14)]
    assert list(Window(TEXT, 12, 20).spans(CAT)) == []


def test_the_text_around_the_stretch_decides_where_words_end() -> None:
    assert not Window(TEXT, 7, 10).has(CAT)
    assert not Window(TEXT, 15, 18).has(CAT)
    assert Window(TEXT, 20, 21).has(CAT)
