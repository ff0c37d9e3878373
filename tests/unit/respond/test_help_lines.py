import pytest

from demur.respond.help_lines import format_help_line, choose_help_lines


@pytest.mark.parametrize(
    ("resource", "shown"),
    [
        (
            {"name": "Samaritans", "contact": "call 116 123", "country": "GB"},
            "Samaritans (GB): call 116 123",
        ),
        (
            {"name": "Find A Helpline", "contact": "https://findahelpline.com"},
            "Find A Helpline: https://findahelpline.com",
        ),
        ("call 988", "call 988"),
        ("a\n[b](x) <i>", "a b (x) i"),
        ({}, ""),
        (7, ""),
        ("x" * 900, "x" * 200),
    ],
)
def test_a_place_that_helps_is_one_line(resource: object, shown: str) -> None:
    assert format_help_line(resource) == shown


def test_lines_that_were_named_stand_for_the_usual_ones_each_once() -> None:
    assert choose_help_lines(["call 988", "call 988", {}, 3], ["usual"]) == ("call 988",)
    assert choose_help_lines([], ["usual"]) == ("usual",)
    assert len(choose_help_lines(map(str, range(50)), [])) == 8
