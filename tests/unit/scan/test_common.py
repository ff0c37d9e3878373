from demur.scan.common import COMMON


def test_common_words_are_plain_words() -> None:
    assert "the" in COMMON
    assert all(word.isalpha() and word.islower() for word in COMMON)
