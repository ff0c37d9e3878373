import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.source.suggest import closest_name, did_you_mean

KNOWN = ("RATE_LIMIT", "RCE_RISK", "DESTRUCTIVE_ACTION", "acme.com/KYC_EXPIRED")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("DESTRUCTIVE_ACTON", "DESTRUCTIVE_ACTION"),
        ("rce_risk", "RCE_RISK"),
        ("rate-limit", "RATE_LIMIT"),
        (" Rate Limit ", "RATE_LIMIT"),
        ("acme.com/KYC_EXPIRD", "acme.com/KYC_EXPIRED"),
    ],
)
def test_a_mistyped_name_is_recognised(typed: str, meant: str) -> None:
    assert closest_name(typed, KNOWN) == meant
    assert did_you_mean(typed, KNOWN) == f"did you mean `{meant}`?"


@pytest.mark.parametrize("typed", ["", "BANANA", "RCE_RISK" * 20])
def test_a_name_that_is_near_to_none_gets_no_guess(typed: str) -> None:
    assert closest_name(typed, KNOWN) is None
    assert did_you_mean(typed, KNOWN) is None


def test_a_long_text_is_no_typing_mistake() -> None:
    assert closest_name("A" * 100, ["A" * 101]) == "A" * 101
    assert closest_name("A" * 101, ["A" * 101]) is None


def test_without_known_names_there_is_no_guess() -> None:
    assert closest_name("RCE_RISK", ()) is None


@given(st.text(st.characters(exclude_categories=())))
def test_a_guess_is_always_a_known_name(typed: str) -> None:
    assert closest_name(typed, KNOWN) in {None, *KNOWN}
