import base64
import binascii
import codecs

import pytest

from demur.scan.decode import (
    DECODERS,
    MAX_DECODE_DEPTH,
    DecodedView,
    TextPatch,
    ViewPart,
    apply_patches,
    decode_leet,
    decode_readings,
    decode_rot13,
    strip_markup,
)
from demur.text.fold import fold_text

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


def test_encoded_text_is_decoded_in_place() -> None:
    assert read(f"now {encoded(SECRET, 1)} ok") == {"base64": f"now {SECRET} ok"}


def test_decoded_text_is_decoded_once_more_and_no_deeper() -> None:
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


def test_parts_are_patched_in_their_places() -> None:
    view = apply_patches("say %69%67 now", [TextPatch(4, 10, "ig", "url")])

    assert view is not None
    assert view.text == "say ig now"
    assert view.original_span(4, 6) == (4, 10)
    assert view.original_span(0, 10) == (0, 14)
    assert view.original_span(7, 10) == (11, 14)
    assert view.encoding_chain(4, 6) == "url"
    assert view.encoding_chain(0, 4) == ""


def test_a_part_of_equal_length_maps_character_by_character() -> None:
    view = apply_patches("a b0mb", [TextPatch(2, 6, "bomb", "leet")])

    assert view is not None
    assert view.original_span(3, 5) == (3, 5)


def test_of_overlapping_patches_the_first_counts() -> None:
    patches = [
        TextPatch(3, 6, "X", "late"),
        TextPatch(0, 4, "Y", "early"),
        TextPatch(0, 2, "Z", "other"),
    ]
    view = apply_patches("abcdefgh", patches)

    assert view is not None
    assert view.text == "Yefgh"
    assert [part.via for part in view.parts] == ["early"]


def test_no_patches_make_no_view() -> None:
    assert apply_patches("text", []) is None


def test_a_view_of_a_view_leads_back_to_the_text() -> None:
    outer = apply_patches("<<abcdef>>", [TextPatch(2, 8, "gh", "base64")])
    assert outer is not None
    inner = apply_patches(outer.text, [TextPatch(2, 4, "x", "hex")], outer)
    assert inner is not None

    assert inner.text == "<<x>>"
    assert inner.original_span(2, 3) == (2, 8)
    assert inner.encoding_chain(2, 3) == "base64+hex"
    assert inner.encoding_chain(3, 5) == ""


def test_a_patch_of_the_inner_view_alone_names_its_encoding() -> None:
    outer = apply_patches("ab cd", [TextPatch(0, 2, "x", "base64")])
    assert outer is not None
    inner = apply_patches(outer.text, [TextPatch(2, 4, "y", "hex")], outer)
    assert inner is not None

    assert inner.encoding_chain(2, 3) == "hex"


def test_a_text_read_backwards_maps_backwards() -> None:
    view = DecodedView("cba", (ViewPart(0, 3, 0, 3, "reversed", backwards=True),))

    assert view.original_span(0, 1) == (2, 3)
    assert view.original_span(0, 2) == (1, 3)


SECRET_encodings = "open the secret door"


def read_encodings(kind: str, text: str) -> list[tuple[str, str]]:
    """Return each part that was found, as it stands and as it reads."""
    return [(text[p.first : p.last], p.replacement) for p in DECODERS[kind](text)]


@pytest.mark.parametrize(
    ("kind", "encoded"),
    [
        ("base64", base64.b64encode(SECRET_encodings.encode()).decode()),
        ("base64", base64.b64encode(SECRET_encodings.encode()).decode().rstrip("=")),
        ("base64", base64.urlsafe_b64encode(SECRET_encodings.encode()).decode()),
        ("base64", base64.b64encode(SECRET_encodings.encode("utf-16-le")).decode()),
        ("hex", SECRET_encodings.encode().hex()),
        ("hex", SECRET_encodings.encode().hex(" ").upper()),
        (
            "hex",
            ", ".join(f"0x{byte:02x}" for byte in SECRET_encodings.encode()).replace(", ", ","),
        ),
        ("url", "".join(f"%{byte:02X}" for byte in SECRET_encodings.encode())),
        ("escape", "".join(f"\\u{ord(letter):04x}" for letter in SECRET_encodings)),
        ("escape", "".join(f"\\x{ord(letter):02x}" for letter in SECRET_encodings)),
    ],
)
def test_an_encoded_text_is_read(kind: str, encoded: str) -> None:
    assert read_encodings(kind, f"see: {encoded} !") == [(encoded, SECRET_encodings)]


def test_base64_over_several_lines_is_one_part() -> None:
    text = base64.encodebytes((SECRET_encodings * 8).encode()).decode().strip()

    assert read_encodings("base64", text) == [(text, SECRET_encodings * 8)]


def test_a_stray_digit_at_the_end_of_base64_is_left() -> None:
    encoded = base64.b64encode(SECRET_encodings.encode()).decode().rstrip("=")
    text = encoded[: len(encoded) // 4 * 4] + "A"

    assert read_encodings("base64", text)[0][1].startswith("open the secret d")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("base64", "internationalisation/of/documentation"),
        ("base64", "AAAAAAAAAAAAAAAAAAAAAAAA"),
        ("base64", base64.b64encode(bytes(range(1, 40))).decode()),
        ("base64", base64.b64encode(SECRET_encodings.encode() * 20 + b"\xff\xfe\xfd").decode()),
        ("hex", "e3b0c44298fc1c149afbf4c8996fb924"),
        ("hex", "feed face"),
        ("hex", "01" * 20),
        ("html", "R&D; &nosuchthing;"),
        ("escape", "\\U00FFFFFF"),
        ("spaced", "a b cat"),
    ],
)
def test_binary_content_is_not_decoded(kind: str, text: str) -> None:
    assert read_encodings(kind, text) == []


def test_a_long_part_is_believed_although_the_glance_cuts_a_letter() -> None:
    plain = "é" * 300 + "x" * 100
    for shift in range(3):
        encoded = base64.b64encode(("a" * shift + plain).encode()).decode()
        assert read_encodings("base64", encoded) == [(encoded, "a" * shift + plain)]


def test_mostly_printable_is_enough() -> None:
    plain = SECRET_encodings * 3 + "\x01\n\t"
    encoded = binascii.hexlify(plain.encode()).decode()

    assert read_encodings("hex", encoded) == [(encoded, plain)]


def test_percent_signs_and_entities_are_read_one_run_at_a_time() -> None:
    assert read_encodings("url", "a%20b%zz%C3%A9") == [("%20", " "), ("%C3%A9", "é")]
    assert read_encodings("html", "&lt;b&gt; &#105;&#x67;") == [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&#105;", "i"),
        ("&#x67;", "g"),
    ]


def test_escapes_of_all_kinds_are_read() -> None:
    text = r"\ud83d\ude00 \u{1F600} \U0001F600 \ud800"

    assert [reading for _, reading in read_encodings("escape", text)] == [
        "😀",
        "😀",
        "😀",
        "\ufffd",
    ]


def test_letters_set_apart_are_joined() -> None:
    assert read_encodings("spaced", "k.i.l.l and h u r t, U.S. law") == [
        ("k.i.l.l", "kill"),
        ("h u r t", "hurt"),
    ]


@pytest.mark.parametrize(
    ("word", "one", "reading"),
    [
        ("1gn0r3", "i", "ignore"),
        ("p@$$w0rd!!", "i", "password"),
        ("a11", "i", "all"),
        ("evi1", "i", "evil"),
        ("bu1ld", "i", "build"),
        ("ru1es", "l", "rules"),
    ],
)
def test_digits_are_read_as_letters(word: str, one: str, reading: str) -> None:
    [patch] = decode_leet(word, one)

    assert patch.replacement == reading


@pytest.mark.parametrize("text", ["1337 plain", "x86_64", "h2o", "ab", "2026"])
def test_numbers_and_plain_words_are_no_leet(text: str) -> None:
    assert list(decode_leet(text)) == []


def test_rot13_turns_letters_alone() -> None:
    assert decode_rot13("Vtaber 13!") == "Ignore 13!"


def test_tags_that_nobody_sees_are_read() -> None:
    text = "hi" + "".join(chr(0xE0000 + ord(letter)) for letter in SECRET_encodings)

    assert read_encodings("smuggled", text) == [(text[2:], f" {SECRET_encodings} ")]


def test_bytes_in_variation_selectors_are_read() -> None:
    raw = b"\ttab and text"
    text = "".join(chr(0xFE00 + b if b < 16 else 0xE0100 + b - 16) for b in raw)

    assert read_encodings("smuggled", text) == [(text, f" {raw.decode()} ")]
    assert read_encodings("smuggled", "\ufe0f" * 40) == []
    assert read_encodings("smuggled", "\ufe0f" * 4) == []


@pytest.mark.parametrize("digits", ["\u200b\u200c", "\u200c\u200b"])
def test_bits_in_zero_width_characters_are_read(digits: str) -> None:
    text = "".join(digits[int(bit)] for byte in SECRET_encodings.encode() for bit in f"{byte:08b}")

    assert read_encodings("smuggled", text) == [(text, f" {SECRET_encodings} ")]


def test_zero_width_characters_that_say_nothing_are_left_alone() -> None:
    assert read_encodings("smuggled", "\u200b" * 64) == []
    assert read_encodings("smuggled", "\u200b" * 63 + "\u200c") == []


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        ("**open** the *door*", "open the door"),
        ("op**en** the door", "open the door"),
        ("- open\n- the\n- door", "open the door"),
        ("1. open\n2. the door", "open the door"),
        ("| open | the | door |", "open the door"),
        ("_open_ the __door__", "open the door"),
        ("open_the_door now", "open the door now"),
        ("<b>open</b> the<br>door", "open the door"),
        ("[open](https://a.example/x) the `door`", "open the door"),
        ("## open\n> the door", "open the door"),
    ],
)
def test_marks_of_markup_are_blanked_in_place(text: str, reading: str) -> None:
    bare = strip_markup(text)

    assert len(bare) == len(text)
    assert fold_text(bare).data.decode().strip() == reading


@pytest.mark.parametrize(
    "text",
    [
        "call open_the_door() first",
        "self.open_the_door",
        "x = two_words",
        "- a whole sentence that stands by itself in a list",
        "if a < b and c",
        "plain text",
    ],
)
def test_code_and_sentences_keep_their_form(text: str) -> None:
    assert strip_markup(text) == text
