"""A tool call as policies read it."""

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, IntFlag
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple
from uuid import UUID

import msgspec
import pytest

from demur.enforce.described import OpaqueText, describe_call, to_json_value
from demur.errors import InputError


def test_arguments_are_evidence_and_an_amount_is_the_action_s() -> None:
    described = describe_call("refund", {"order_id": "A-1", "amount": 20, "currency": "EUR"})

    assert described["action"] == {"type": "refund", "amount": {"value": 20, "currency": "EUR"}}
    assert described["evidence"]["order_id"] == "A-1"


@pytest.mark.parametrize(
    ("amount", "action"),
    [
        ({"value": 3, "currency": "USD"}, {"amount": {"value": 3, "currency": "USD"}}),
        (2.5, {"amount": {"value": 2.5}}),
        ("900", {"amount": {"value": 900}}),
        (" 9e2 ", {"amount": {"value": 900}}),
        ("0.5", {"amount": {"value": 0.5}}),
        ({"value": "900"}, {"amount": {"value": 900}}),
        # What is no number stays what it is, and a policy that compares it says so.
        ("$900", {"amount": {"value": "$900"}}),
        ([900], {"amount": {"value": [900]}}),
        (True, {"amount": {"value": True}}),
        (None, {}),
    ],
)
def test_an_amount_is_read_however_it_is_written(amount: object, action: object) -> None:
    assert describe_call("pay", {"amount": amount})["action"] == {"type": "pay", **action}  # type: ignore[dict-item]


class Colour(Enum):
    RED = "red"


class Bits(IntFlag):
    A = 1


class Point(NamedTuple):
    x: int


class Packed(msgspec.Struct):
    amount: Decimal


@dataclass
class Order:
    path: Path


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        ({"a": (1, {2}), 3: None}, {"a": [1, [2]], "3": None}),
        (datetime(2026, 11, 15, tzinfo=UTC), "2026-11-15T00:00:00+00:00"),
        ([Decimal(900), Decimal("0.5"), Decimal("NaN")], [900, 0.5, "NaN"]),
        ([b"rm", bytearray(b"-rf"), b"\xff"], ["rm", "-rf", "\N{REPLACEMENT CHARACTER}"]),
        (Path("/etc/shadow"), "/etc/shadow"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ([Colour.RED, Point(1), Packed(Decimal(2))], ["red", {"x": 1}, {"amount": 2}]),
        (Order(Path("a")), {"path": "a"}),
        (SimpleNamespace(model_dump=lambda: {"amount": 9}), {"amount": 9}),
        (Bits.A, 1),
        ([object(), Order, ValueError("x")], ["<object>", "<type>", "<ValueError>"]),
    ],
)
def test_whatever_has_a_form_in_json_is_put_on_record(value: object, seen: object) -> None:
    assert to_json_value({"it": value}) == {"it": seen}


def test_a_value_without_a_form_is_told_apart_from_a_text() -> None:
    assert isinstance(to_json_value(object()), OpaqueText)
    assert isinstance(to_json_value(to_json_value([object()]))[0], OpaqueText)
    assert to_json_value(ValueError("x"), opaque=str) == "x"


def broken() -> object:
    raise RuntimeError


@pytest.mark.parametrize(
    "value", [{1: "a", "1": "b"}, SimpleNamespace(model_dump=broken)], ids=["keys", "model"]
)
def test_what_cannot_be_read_is_refused(value: object) -> None:
    with pytest.raises(InputError):
        to_json_value({"it": value})


def test_arguments_without_an_end_are_refused() -> None:
    endless: dict[str, object] = {}
    endless["self"] = endless

    with pytest.raises(InputError, match="nested too deep"):
        to_json_value(endless)
