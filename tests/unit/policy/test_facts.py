"""What a rule can read, and what of it the caller can bend."""

import time
from collections.abc import Iterator, Mapping
from math import inf, nan
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.codes.vocabulary import Surface
from demur.model.finding import Finding
from demur.policy.facts import MISSING, UNUSABLE, amount_in_usd, build_facts, fetch_fact


class Frozen(Mapping[str, Any]):
    """A mapping that is no dict."""

    def __init__(self, **values: Any) -> None:
        self._values = values

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


@pytest.mark.parametrize(
    ("request_", "want"),
    [
        ({"evidence": {"a": {"b": 5}}}, 5),
        ({"evidence": {"a": {"b": 0}}}, 0),
        ({"evidence": {"a": {"b": False}}}, False),
        ({"evidence": {"a": {"b": ""}}}, ""),
        ({"evidence": {"a": {"b": None}}}, MISSING),
        ({"evidence": {"a": {}}}, MISSING),
        ({"evidence": {"a": None}}, MISSING),
        ({"evidence": None}, MISSING),
        ({}, MISSING),
        ({"evidence": {"a": 5}}, UNUSABLE),
        ({"evidence": {"a": "b"}}, UNUSABLE),
        ({"evidence": {"a": [{"b": 5}]}}, UNUSABLE),
        ({"evidence": 0}, UNUSABLE),
        ({"evidence": ""}, UNUSABLE),
        (MappingProxyType({"evidence": MappingProxyType({"a": Frozen(b=5)})}), 5),
        (Frozen(evidence=Frozen(a=Frozen())), MISSING),
        ({"evidence.a.b": 5}, MISSING),
    ],
)
def test_a_path_ends_in_a_fact_or_says_why_not(request_: Mapping[str, Any], want: Any) -> None:
    got = fetch_fact(request_, "evidence.a.b")

    assert got == want
    assert type(got) is type(want)


def test_the_markers_name_themselves() -> None:
    assert repr((MISSING, UNUSABLE)) == "(MISSING, UNUSABLE)"


def amount(value: Any = None, currency: Any = None, **more: Any) -> Any:
    request = {"action": {"amount": {"value": value, "currency": currency, **more}}}
    return amount_in_usd(request, {"EUR": 2, "GBP": 1.25})


@pytest.mark.parametrize(
    ("value", "currency", "want"),
    [
        (20, "USD", 20),
        (20.5, "USD", 20.5),
        (0, "USD", 0),
        (-0.0, "USD", 0),
        ("20.50", "USD", 20.5),
        ("+2e1", "USD", 20),
        (".5", "USD", 0.5),
        ("5.", "USD", 5),
        (20, "EUR", 40),
        ("20", "GBP", 25),
        (10**400, "USD", 10**400),
        (10**400, "EUR", 2 * 10**400),
        (10**400, "GBP", UNUSABLE),
        (None, None, MISSING),
        (None, "USD", UNUSABLE),
        (20, None, UNUSABLE),
        (20, "XXX", UNUSABLE),
        (20, "usd", UNUSABLE),
        (20, "", UNUSABLE),
        (20, 840, UNUSABLE),
        (20, ["USD"], UNUSABLE),
        (-1, "USD", UNUSABLE),
        (-(10**400), "USD", UNUSABLE),
        ("-1", "USD", UNUSABLE),
        (nan, "USD", UNUSABLE),
        (inf, "USD", UNUSABLE),
        ("NaN", "USD", UNUSABLE),
        ("sNaN", "USD", UNUSABLE),
        ("Infinity", "USD", UNUSABLE),
        ("1e999", "USD", UNUSABLE),
        ("1,000", "USD", UNUSABLE),
        ("1_000", "USD", UNUSABLE),
        (" 20 ", "USD", UNUSABLE),
        ("20\n", "USD", UNUSABLE),
        ("0x10", "USD", UNUSABLE),
        ("twenty", "USD", UNUSABLE),
        ("", "USD", UNUSABLE),
        ("$20", "USD", UNUSABLE),
        (True, "USD", UNUSABLE),
        ([20], "USD", UNUSABLE),
        ({"value": 20}, "USD", UNUSABLE),
    ],
)
def test_an_amount_is_converted_by_the_policy_or_unusable(
    value: Any, currency: Any, want: Any
) -> None:
    assert amount(value, currency) == want


def test_a_rate_that_the_caller_sends_is_never_read() -> None:
    sent = {"fx_rate_to_usd": 1e-9, "rate": 1e-9, "rates": {"EUR": 1e-9}}
    request = {
        "action": {"amount": {"value": 1000, "currency": "EUR", **sent}, **sent},
        "evidence": sent,
        "context": sent,
        "amount_usd": 1,
        **sent,
    }

    assert amount_in_usd(request, {"EUR": 2}) == 2000
    assert amount_in_usd(request, {}) is UNUSABLE


@pytest.mark.parametrize("action", [5, "x", [], {"amount": 5}, {"amount": "20 USD"}])
def test_an_amount_in_a_broken_place_is_unusable(action: Any) -> None:
    assert amount_in_usd({"action": action}, {}) is UNUSABLE


@pytest.mark.parametrize("action", [None, {}, {"amount": None}, {"amount": {}}])
def test_no_amount_is_missing(action: Any) -> None:
    assert amount_in_usd({"action": action}, {}) is MISSING


def test_a_long_amount_is_read_in_linear_time() -> None:
    started = time.perf_counter()

    assert amount("1" * 200_000 + "x", "USD") is UNUSABLE
    assert time.perf_counter() - started < 5


def test_findings_come_from_guards_and_never_from_the_request() -> None:
    seen = Finding(code="RCE_RISK", surface=Surface.INPUT)

    assert build_facts({"findings": {"codes": ["FORGED"], "count": 9}, "a": 1}, [seen, seen]) == {
        "a": 1,
        "findings": {"codes": ["RCE_RISK"] * 2, "surfaces": ["input"] * 2, "count": 2},
    }
    assert build_facts({"findings": 5})["findings"] == {"codes": [], "surfaces": [], "count": 0}


@given(st.text() | st.floats() | st.integers() | st.none() | st.booleans(), st.text())
def test_an_amount_is_missing_unusable_or_not_negative(value: Any, currency: str) -> None:
    got = amount_in_usd(
        {"action": {"amount": {"value": value, "currency": currency or "USD"}}}, {"EUR": 2}
    )

    assert got is MISSING or got is UNUSABLE or 0 <= got < inf
