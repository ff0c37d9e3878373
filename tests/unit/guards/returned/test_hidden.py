import time

import pytest

from demur.guards.returned.hidden import find_hidden_parts, find_invisible_runs


def parts(text: str) -> list[tuple[str, str]]:
    return [(part.kind, text[part.start : part.end]) for part in find_hidden_parts(text)]


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("a <!-- b --> c <!--d-->", [("comment", " b "), ("comment", "d")]),
        ("a <!-- b", [("comment", " b")]),
        ('<p style="display:none">dark</p> light', [("element", "dark")]),
        ('<span style="font-size: 0px">dark</span>', [("element", "dark")]),
        ('<div hidden class="x">dark</div>', [("element", "dark")]),
        ('<div aria-hidden="true">dark', [("element", "dark")]),
        ('<b style="color:#FFF">dark</b>', [("element", "dark")]),
        ('<img alt="a view of the old town">', [("stand-in", "a view of the old town")]),
        ("<img title='a view of the old town'>", [("stand-in", "a view of the old town")]),
        ("![a view of the old town](x.png)", [("stand-in", "a view of the old town")]),
        ("[//]: # (a note for nobody)", [("stand-in", "a note for nobody)")]),
    ],
)
def test_what_a_reader_does_not_see_is_found(text: str, seen: list[tuple[str, str]]) -> None:
    assert parts(text) == seen


@pytest.mark.parametrize(
    "text",
    [
        "plain words",
        "1 < 2 and 3 > 2",
        '<p style="font-size: 0.9em; opacity: 0.5">light</p>',
        '<p style="background-color: white">light</p>',
        '<img alt="logo">',
        "![logo](x.png)",
        "<p>hidden gems of the city</p>",
    ],
)
def test_what_a_reader_sees_is_not(text: str) -> None:
    assert parts(text) == []


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("plain", []),
        ("caf\u00e9", []),
        ("a\U000e0069\U000e0067\U000e006eb", ["tags"]),
        ("\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e007f", []),
        ("abc\u202edef", ["direction"]),
        ("a\u200b\u200b\u200b\u200bb", ["widthless"]),
        ("a\u200bb \ufeff", []),
        ("\U0001f469\u200d\U0001f4bb", []),
    ],
)
def test_characters_without_a_shape_are_found(text: str, kinds: list[str]) -> None:
    assert [run.kind for run in find_invisible_runs(text)] == kinds


@pytest.mark.parametrize("piece", ["<!--", "<a ", "<a hidden ", "![", 'alt="', "<", "[//]: # (x"])
def test_time_grows_with_the_text_alone(piece: str) -> None:
    text = piece * 20_000
    start = time.monotonic()
    list(find_hidden_parts(text))

    assert time.monotonic() - start < 5
