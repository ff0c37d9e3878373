from demur.scan.lookalikes import GREEK_CAPITALS, LOOKALIKES


def test_every_letter_is_read_as_ascii_and_is_not_ascii_itself() -> None:
    for letter, read in (LOOKALIKES | GREEK_CAPITALS).items():
        assert len(letter) == 1
        assert not letter.isascii()
        assert read.isascii()
        assert read == read.lower()


def test_every_letter_of_the_alphabet_has_lookalikes() -> None:
    assert set("abcdefghijklmnopqrstuvwxyz") <= set(LOOKALIKES.values())
