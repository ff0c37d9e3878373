import pytest

from demur.guards.text_rules.folding import Folding
from demur.scan.fold import fold

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
    folding = Folding(0)
    for start in range(0, len(text), size):
        folding.add(text[start : start + size], final=False)
    folding.add("", final=True)
    whole = fold(text)

    assert folding.data == whole.data
    assert folding.fed == len(text)
    assert [folding.origin(byte) for byte in range(len(whole.data) + 1)] == [
        whole.span(byte, byte + 1)[0] for byte in range(len(whole.data) + 1)
    ]


def test_places_are_counted_from_the_start_of_the_text() -> None:
    folding = Folding(100)
    folding.add("abc", final=False)

    assert [folding.origin(byte) for byte in (0, 2, 3)] == [100, 102, 103]


def test_what_is_forgotten_is_gone_and_the_rest_keeps_its_place() -> None:
    folding = Folding(0)
    for piece in ("ab", "cd", "ef"):
        folding.add(piece, final=False)
    folding.forget(3)
    folding.forget(1)

    assert (folding.data, folding.base, folding.length) == (b"def", 3, 6)
    assert folding.origin(3) == 3


def test_a_capital_waits_for_the_letter_that_follows() -> None:
    folding = Folding(0)
    folding.add("\u039d", final=False)

    assert (folding.data, folding.fed) == (b"", 0)
    folding.add("ow", final=False)
    assert folding.data == b"now"
