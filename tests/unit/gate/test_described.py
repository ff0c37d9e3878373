"""A tool call as policies read it."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from demur.errors import InputError
from demur.gate.described import describe_call, plain


def test_arguments_are_evidence_and_an_amount_is_the_action_s() -> None:
    described = describe_call("refund", {"order_id": "A-1", "amount": 20, "currency": "EUR"})

    assert described["action"] == {"type": "refund", "amount": {"value": 20, "currency": "EUR"}}
    assert described["evidence"]["order_id"] == "A-1"


@pytest.mark.parametrize(
    ("amount", "action"),
    [
        ({"value": 3, "currency": "USD"}, {"amount": {"value": 3, "currency": "USD"}}),
        (2.5, {"amount": {"value": 2.5}}),
        (True, {}),
        ("20", {}),
        (None, {}),
        ({"cents": 3}, {}),
    ],
)
def test_only_what_reads_as_an_amount_is_one(amount: object, action: object) -> None:
    assert describe_call("pay", {"amount": amount})["action"] == {"type": "pay", **action}  # type: ignore[dict-item]


def test_what_has_no_json_form_is_named_by_its_type() -> None:
    when = datetime(2026, 11, 15, tzinfo=UTC)

    assert plain({"a": SimpleNamespace(), 1: (2,), "b": when}) == {
        "a": "<SimpleNamespace>",
        "1": (2,),
        "b": "2026-11-15T00:00:00Z",
    }


def test_arguments_without_an_end_are_refused() -> None:
    endless: dict[str, object] = {}
    endless["self"] = endless

    with pytest.raises(InputError, match="cannot be put on record"):
        plain(endless)
