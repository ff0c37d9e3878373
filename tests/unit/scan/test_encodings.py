import base64
import binascii

import pytest

from demur.scan.encodings import DECODERS, decode_leet, decode_rot13

SECRET = "open the secret door"


def read(kind: str, text: str) -> list[tuple[str, str]]:
    """Return each part that was found, as it stands and as it reads."""
    return [(text[p.first : p.last], p.replacement) for p in DECODERS[kind](text)]


@pytest.mark.parametrize(
    ("kind", "encoded"),
    [
        ("base64", base64.b64encode(SECRET.encode()).decode()),
        ("base64", base64.b64encode(SECRET.encode()).decode().rstrip("=")),
        ("base64", base64.urlsafe_b64encode(SECRET.encode()).decode()),
        ("base64", base64.b64encode(SECRET.encode("utf-16-le")).decode()),
        ("hex", SECRET.encode().hex()),
        ("hex", SECRET.encode().hex(" ").upper()),
        ("hex", ", ".join(f"0x{byte:02x}" for byte in SECRET.encode()).replace(", ", ",")),
        ("url", "".join(f"%{byte:02X}" for byte in SECRET.encode())),
        ("escape", "".join(f"\\u{ord(letter):04x}" for letter in SECRET)),
        ("escape", "".join(f"\\x{ord(letter):02x}" for letter in SECRET)),
    ],
)
def test_an_encoded_text_is_read(kind: str, encoded: str) -> None:
    assert read(kind, f"see: {encoded} !") == [(encoded, SECRET)]


def test_base64_over_several_lines_is_one_part() -> None:
    text = base64.encodebytes((SECRET * 8).encode()).decode().strip()

    assert read("base64", text) == [(text, SECRET * 8)]


def test_a_stray_digit_at_the_end_of_base64_is_left() -> None:
    encoded = base64.b64encode(SECRET.encode()).decode().rstrip("=")
    text = encoded[: len(encoded) // 4 * 4] + "A"

    assert read("base64", text)[0][1].startswith("open the secret d")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("base64", "internationalisation/of/documentation"),
        ("base64", "AAAAAAAAAAAAAAAAAAAAAAAA"),
        ("base64", base64.b64encode(bytes(range(1, 40))).decode()),
        ("base64", base64.b64encode(SECRET.encode() * 20 + b"\xff\xfe\xfd").decode()),
        ("hex", "e3b0c44298fc1c149afbf4c8996fb924"),
        ("hex", "feed face"),
        ("hex", "01" * 20),
        ("html", "R&D; &nosuchthing;"),
        ("escape", "\\U00FFFFFF"),
        ("spaced", "a b cat"),
    ],
)
def test_what_does_not_read_as_text_is_left_alone(kind: str, text: str) -> None:
    assert read(kind, text) == []


def test_a_long_part_is_believed_although_the_glance_cuts_a_letter() -> None:
    plain = "é" * 300 + "x" * 100
    for shift in range(3):
        encoded = base64.b64encode(("a" * shift + plain).encode()).decode()
        assert read("base64", encoded) == [(encoded, "a" * shift + plain)]


def test_mostly_printable_is_enough() -> None:
    plain = SECRET * 3 + "\x01\n\t"
    encoded = binascii.hexlify(plain.encode()).decode()

    assert read("hex", encoded) == [(encoded, plain)]


def test_percent_signs_and_entities_are_read_one_run_at_a_time() -> None:
    assert read("url", "a%20b%zz%C3%A9") == [("%20", " "), ("%C3%A9", "é")]
    assert read("html", "&lt;b&gt; &#105;&#x67;") == [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&#105;", "i"),
        ("&#x67;", "g"),
    ]


def test_escapes_of_all_kinds_are_read() -> None:
    text = r"\ud83d\ude00 \u{1F600} \U0001F600 \ud800"

    assert [reading for _, reading in read("escape", text)] == ["😀", "😀", "😀", "\ufffd"]


def test_letters_set_apart_are_joined() -> None:
    assert read("spaced", "k.i.l.l and h u r t, U.S. law") == [
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
    text = "hi" + "".join(chr(0xE0000 + ord(letter)) for letter in SECRET)

    assert read("smuggled", text) == [(text[2:], f" {SECRET} ")]


def test_bytes_in_variation_selectors_are_read() -> None:
    raw = b"\ttab and text"
    text = "".join(chr(0xFE00 + b if b < 16 else 0xE0100 + b - 16) for b in raw)

    assert read("smuggled", text) == [(text, f" {raw.decode()} ")]
    assert read("smuggled", "\ufe0f" * 40) == []
    assert read("smuggled", "\ufe0f" * 4) == []


@pytest.mark.parametrize("digits", ["\u200b\u200c", "\u200c\u200b"])
def test_bits_in_zero_width_characters_are_read(digits: str) -> None:
    text = "".join(digits[int(bit)] for byte in SECRET.encode() for bit in f"{byte:08b}")

    assert read("smuggled", text) == [(text, f" {SECRET} ")]


def test_zero_width_characters_that_say_nothing_are_left_alone() -> None:
    assert read("smuggled", "\u200b" * 64) == []
    assert read("smuggled", "\u200b" * 63 + "\u200c") == []
