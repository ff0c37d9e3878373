import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.service.dashboard.rendering import (
    format_amount,
    format_change,
    format_number,
    format_percent,
    reveal_hidden,
    format_json,
    encode_query,
    render_template,
    encode_segment,
    constant_words,
)

THIN = "\N{NARROW NO-BREAK SPACE}"


def test_numbers_are_grouped_and_nouns_follow_them() -> None:
    assert format_number(1234567) == f"1{THIN}234{THIN}567"
    assert format_amount(1, "decision") == "1 decision"
    assert format_amount(0, "decision") == "0 decisions"
    assert constant_words("REFUSE_WITH_PATH") == "refuse with path"


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0.0"), (0.04, "< 0.1"), (12.34, "12.3"), (100, "100.0")]
)
def test_a_percentage_is_never_nothing_for_something(value: float, shown: str) -> None:
    assert format_percent(value) == f"{shown}{THIN}%"


@pytest.mark.parametrize(
    ("now", "before", "shown"),
    [
        (3, 0, ""),
        (900, 19, ""),
        (30, 30, "±0"),
        (60, 30, "+100"),
        (90, 30, "+200"),
        (10, 40, "−75"),  # noqa: RUF001 - a true minus
    ],
)
def test_a_change_is_told_against_what_was_before(now: int, before: int, shown: str) -> None:
    assert format_change(now, before) == (f"{shown}{THIN}%" if shown else "")


@pytest.mark.parametrize(
    ("now", "before", "shown"),
    [(91, 30, "3.0×"), (390, 30, "13×"), (30_000, 30, f"1{THIN}000×")],  # noqa: RUF001 - a true sign
)
def test_many_times_as_much_is_told_as_how_many_times(now: int, before: int, shown: str) -> None:
    assert format_change(now, before) == shown


def test_nothing_hides_in_a_text() -> None:
    assert reveal_hidden("a\u202eb\x00c\u200b\nd") == "a□202E□b□0000□c□200B□\nd"
    assert reveal_hidden("Grüße, 世界") == "Grüße, 世界"
    assert "□202E□" in format_json({"a": "\u202e"})


def test_addresses_hold_only_what_is_given() -> None:
    assert encode_query({"a": "x y", "b": "", "c": None}, d="&") == "a=x+y&d=%26"
    assert encode_segment("acme.com/KYC") == "acme.com/KYC"
    assert encode_segment('a"><b?#') == "a%22%3E%3Cb%3F%23"


@given(st.text(alphabet=st.characters(codec=None, exclude_categories=())))
def test_whatever_a_text_holds_it_stays_text(text: str) -> None:
    page = render_template("login.html", frame=_frame(), goal="/", problem=text).decode()
    inside = page.partition('role="alert">')[2].partition("</p>  <form")[0]

    assert "<" not in inside
    assert '"' not in inside


def _frame() -> dict[str, object]:
    texts = dict.fromkeys(("title", "section", "tenant", "target", "version"), "")
    return {
        **texts,
        "name": None,
        "tenants": [],
        "may_label": False,
        "sees_all": True,
        "sample": False,
    }
