from demur.scan.view import ViewPart, TextPatch, DecodedView, apply_patches


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


def test_what_only_the_inner_view_decoded_is_named_alone() -> None:
    outer = apply_patches("ab cd", [TextPatch(0, 2, "x", "base64")])
    assert outer is not None
    inner = apply_patches(outer.text, [TextPatch(2, 4, "y", "hex")], outer)
    assert inner is not None

    assert inner.encoding_chain(2, 3) == "hex"


def test_a_text_read_backwards_maps_backwards() -> None:
    view = DecodedView("cba", (ViewPart(0, 3, 0, 3, "reversed", backwards=True),))

    assert view.original_span(0, 1) == (2, 3)
    assert view.original_span(0, 2) == (1, 3)
