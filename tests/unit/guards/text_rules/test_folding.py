import pytest

from demur.guards.text_rules.folding import IncrementalFold
from demur.scan.fold import fold_text

TEXTS = [
    "Plain ASCII, with  two   spaces.",
    " \t\n leading",
    "trailing \n ",
    "a\u200bb\u0301c \u3000 d",
    "A\u039dN\u039d \u039dN \u039c\u039ca a\u039c\u039c",
    "\u039d\u039d",
    "\uff46\uff55\uff4c\uff4c \uff37\uff29\uff24\uff34\uff28",
    "漢字 и буквы",
    "\ud83d\ude00 \udc00",
    "",
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_pieces_fold_to_the_same_bytes_as_the_whole(text: str, size: int) -> None:
    folding = IncrementalFold(0)
    for start in range(0, len(text), size):
        folding.feed(text[start : start + size], final=False)
    folding.feed("", final=True)
    whole = fold_text(text)

    assert folding.data == whole.data
    assert folding.end == len(text)
    assert [folding.original_place(byte) for byte in range(len(whole.data) + 1)] == [
        whole.original_span(byte, byte + 1)[0] for byte in range(len(whole.data) + 1)
    ]


def test_places_are_counted_from_the_start_of_the_text() -> None:
    folding = IncrementalFold(100)
    folding.feed("abc", final=False)

    assert [folding.original_place(byte) for byte in (0, 2, 3)] == [100, 102, 103]


def test_what_is_forgotten_is_gone_and_the_rest_keeps_its_place() -> None:
    folding = IncrementalFold(0)
    for piece in ("ab", "cd", "ef"):
        folding.feed(piece, final=False)
    folding.drop_before(3)
    folding.drop_before(1)

    assert (folding.data, folding.base, folding.length) == (b"def", 3, 6)
    assert folding.original_place(3) == 3


def test_a_capital_waits_for_the_letter_that_follows() -> None:
    folding = IncrementalFold(0)
    folding.feed("\u039d", final=False)

    assert (folding.data, folding.end) == (b"", 0)
    folding.feed("ow", final=False)
    assert folding.data == b"now"
