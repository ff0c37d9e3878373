import pytest

from demur.evals.figures import (
    align_columns,
    format_count,
    format_difference,
    format_interval,
    format_p_value,
    format_percent,
    format_share,
    make_excerpt,
    without_style,
)
from demur.evals.rates import make_rate


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        (1.0, "100.0 %"),
        (0.99999, "99.9 %"),
        (0.0, "0.0 %"),
        (0.00001, "0.1 %"),
        (0.5, "50.0 %"),
    ],
)
def test_a_share_never_rounds_to_all_or_nothing(value: float | None, shown: str) -> None:
    assert format_percent(value) == shown


def test_a_rate_is_shown_with_its_rows_and_interval() -> None:
    assert format_share(make_rate(1, 2)) == "1/2"
    assert format_share(make_rate(0, 0)) == "-"
    assert format_interval(make_rate(8, 10)) == "49.0 to 94.3 %"
    assert format_interval(make_rate(0, 0)) == "-"


@pytest.mark.parametrize(("difference", "shown"), [(0.1, "+10.0"), (-0.05, "-5.0"), (0.0, "0.0")])
def test_a_difference_has_its_sign(difference: float, shown: str) -> None:
    assert format_difference(difference) == shown


def test_a_likelihood_is_as_exact_as_it_means_anything() -> None:
    assert format_p_value(0.0312) == "p = 0.031"
    assert format_p_value(1e-9) == "p < 0.001"


def test_words_agree_with_their_number() -> None:
    assert (format_count(1, "row"), format_count(0, "row")) == ("1 row", "0 rows")


def test_an_excerpt_is_one_short_line_without_control_characters() -> None:
    assert make_excerpt("a\n  b\x1b[31m") == "a b\\x1b[31m"
    assert len(make_excerpt("x" * 500)) == 160


def test_columns_of_words_are_left_and_of_numbers_right() -> None:
    assert align_columns(("name", "n"), [("a", "10"), ("long name", "5")]) == [
        "name        n",
        "a          10",
        "long name   5",
    ]
    assert without_style("text", "bold") == "text"
