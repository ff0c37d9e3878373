from demur.scan.view import Part, Patch, View, patched


def test_parts_are_patched_in_their_places() -> None:
    view = patched("say %69%67 now", [Patch(4, 10, "ig", "url")])

    assert view is not None
    assert view.text == "say ig now"
    assert view.span(4, 6) == (4, 10)
    assert view.span(0, 10) == (0, 14)
    assert view.span(7, 10) == (11, 14)
    assert view.via(4, 6) == "url"
    assert view.via(0, 4) == ""


def test_a_part_of_equal_length_maps_character_by_character() -> None:
    view = patched("a b0mb", [Patch(2, 6, "bomb", "leet")])

    assert view is not None
    assert view.span(3, 5) == (3, 5)


def test_of_overlapping_patches_the_first_counts() -> None:
    patches = [Patch(3, 6, "X", "late"), Patch(0, 4, "Y", "early"), Patch(0, 2, "Z", "other")]
    view = patched("abcdefgh", patches)

    assert view is not None
    assert view.text == "Yefgh"
    assert [part.via for part in view.parts] == ["early"]


def test_no_patches_make_no_view() -> None:
    assert patched("text", []) is None


def test_a_view_of_a_view_leads_back_to_the_text() -> None:
    outer = patched("<<abcdef>>", [Patch(2, 8, "gh", "base64")])
    assert outer is not None
    inner = patched(outer.text, [Patch(2, 4, "x", "hex")], outer)
    assert inner is not None

    assert inner.text == "<<x>>"
    assert inner.span(2, 3) == (2, 8)
    assert inner.via(2, 3) == "base64+hex"
    assert inner.via(3, 5) == ""


def test_what_only_the_inner_view_decoded_is_named_alone() -> None:
    outer = patched("ab cd", [Patch(0, 2, "x", "base64")])
    assert outer is not None
    inner = patched(outer.text, [Patch(2, 4, "y", "hex")], outer)
    assert inner is not None

    assert inner.via(2, 3) == "hex"


def test_a_text_read_backwards_maps_backwards() -> None:
    view = View("cba", (Part(0, 3, 0, 3, "reversed", backwards=True),))

    assert view.span(0, 1) == (2, 3)
    assert view.span(0, 2) == (1, 3)
