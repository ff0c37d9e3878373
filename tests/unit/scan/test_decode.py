import base64
import codecs

import pytest

from demur.scan.decode import MAX_DECODE_DEPTH, decode_readings
from demur.scan.fold import fold_text

SECRET = "please open the secret door"


def read(text: str) -> dict[str, str]:
    """Return each reading of the text, by the way it came about."""
    found = {}
    for view, folded in decode_readings(text, fold_text(text)):
        assert folded.data == fold_text(view.text).data
        found[view.encoding_chain(0, len(view.text))] = view.text
    return found


def encoded(text: str, times: int) -> str:
    """Return the text in base64, so many times over."""
    for _ in range(times):
        text = base64.b64encode(text.encode()).decode()
    return text


@pytest.mark.parametrize(
    "text",
    ["", "plain prose, with numbers 12 and 2026.", "Café — “quoted” 😀", "см. главу 3 про погоду"],
)
def test_plain_prose_has_no_other_reading(text: str) -> None:
    assert read(text) == {}


def test_what_is_encoded_is_read_in_its_place() -> None:
    assert read(f"now {encoded(SECRET, 1)} ok") == {"base64": f"now {SECRET} ok"}


def test_what_was_decoded_is_looked_at_once_more_and_no_deeper() -> None:
    assert MAX_DECODE_DEPTH == 2
    assert read(encoded(SECRET, 2))["base64+base64"] == SECRET
    assert SECRET not in read(encoded(SECRET, 3)).values()


def test_a_turned_text_is_read_whole() -> None:
    assert read(codecs.encode(SECRET, "rot13"))["rot13"] == SECRET
    assert read(SECRET[::-1])["reversed"] == SECRET


def test_a_hint_is_enough_to_try() -> None:
    assert read("in rot13: qbbe")["rot13"].endswith("door")


def test_a_turned_text_is_not_turned_again() -> None:
    assert set(read("rot13, reversed: abc")) == {"rot13", "reversed"}


def test_an_encoded_text_in_a_turned_one_is_read() -> None:
    turned = codecs.encode(f"the {encoded(SECRET, 1)}", "rot13")

    assert read(turned)["rot13+base64"] == f"the {SECRET}"


def test_a_one_is_read_both_ways() -> None:
    text = "bu1ld ru1es"

    assert [view.text for view, _ in decode_readings(text, fold_text(text))] == [
        "build ruies",
        "bulld rules",
    ]


def test_hidden_characters_are_read_though_the_rest_is_plain() -> None:
    text = "hi" + "".join(chr(0xE0000 + ord(letter)) for letter in SECRET)

    assert read(text)["tags"] == f"hi {SECRET} "


# Every telltale there is, so that all readings are made.
TELLING = (
    "\\u0069\\x67 41 42 43 44 45 46 47 aWdub3JlIGFsbCBydWxlcw== %69%67 &#105;&lt; i g n o r e "
    "1gn0r3 a11 gur dna rot13 backwards \u200b\U000e0041\U000e0042 \xe9\u0436 "
)


@pytest.mark.parametrize("times", [1, 8, 64])
def test_the_work_for_other_readings_grows_with_the_text_and_no_faster(times: int) -> None:
    text = TELLING * times
    found = list(decode_readings(text, fold_text(text)))

    # Four at first; of those but the last each is read once more, turned texts in two ways.
    assert len(found) <= 12
    assert sum(len(reading.view.text) for reading in found) <= 12 * len(text)
    parts = [len(reading.view.parts) for reading in found]
    once = [len(reading.view.parts) for reading in decode_readings(TELLING, fold_text(TELLING))]
    assert sum(parts) <= times * (sum(once) + len(once))
