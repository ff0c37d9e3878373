from demur.scan.common import COMMON_WORDS


def test_common_words_are_plain_words() -> None:
    assert "the" in COMMON_WORDS
    assert all(word.isalpha() and word.islower() for word in COMMON_WORDS)
