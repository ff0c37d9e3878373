"""A tool call as policies read it."""

import json
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
from hypothesis import given
from hypothesis import strategies as st

from demur.enforce.describe import (
    OpaqueText,
    begins_json,
    describe_call,
    extract_texts,
    to_json_value,
)
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


def test_a_value_without_a_json_form_is_distinguished_from_a_text() -> None:
    assert isinstance(to_json_value(object()), OpaqueText)
    assert isinstance(to_json_value(to_json_value([object()]))[0], OpaqueText)
    assert to_json_value(ValueError("x"), opaque=str) == "x"


def broken() -> object:
    raise RuntimeError


@pytest.mark.parametrize(
    "value", [{1: "a", "1": "b"}, SimpleNamespace(model_dump=broken)], ids=["keys", "model"]
)
def test_an_unreadable_value_is_refused(value: object) -> None:
    with pytest.raises(InputError):
        to_json_value({"it": value})


def test_arguments_without_an_end_are_refused() -> None:
    endless: dict[str, object] = {}
    endless["self"] = endless

    with pytest.raises(InputError, match="nested too deep"):
        to_json_value(endless)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        ("as it is", "as it is"),
        ('{"a": "no escapes"}', '{"a": "no escapes"}'),
        ({"a": ["one\ntwo", 3, None, True], "b": {"c": 1.5}}, "a\none\ntwo\n3\nTrue\nb\nc\n1.5"),
        (r'{"a": "one\ntwo"}', '{"a": "one\\ntwo"}\na\none\ntwo'),
        ({"a": json.dumps({"b": "c\nd"})}, "a\nb\nc\nd"),
        (r'"one\ntwo"', '"one\\ntwo"\none\ntwo'),
        (r'{"a": "not\njson}', '{"a": "not\\njson}'),
        ('Here:\n```json\n{"a": "\\u0062"}\n```', 'Here:\n```json\n{"a": "\\u0062"}\n```\na\nb'),
        (r'{"a": "\u0062"} and ["\u0063"], {"d', '{"a": "\\u0062"} and ["\\u0063"], {"d\na\nb\nc'),
        (r'{"a {"b": "\u0063"}', '{"a {"b": "\\u0063"}\nb\nc'),
        ("[" * 100_000 + "]" * 100_000, "[" * 100_000 + "]" * 100_000),
        (None, ""),
    ],
)
def test_texts_stand_one_a_line(value: object, seen: str) -> None:
    assert extract_texts(value) == seen


def test_more_parts_than_can_be_read_are_refused() -> None:
    with pytest.raises(InputError, match="more than 200000 parts"):
        extract_texts([0] * 200_001)


@given(JSON)
def test_no_text_is_lost(value: object) -> None:
    def leaves(part: object) -> list[str]:
        if isinstance(part, dict):
            return [text for pair in part.items() for one in pair for text in leaves(one)]
        if isinstance(part, list):
            return [text for one in part for text in leaves(one)]
        return [part] if isinstance(part, str) else []

    seen = extract_texts({"it": value})
    assert all(text in seen or text.strip()[:1] in {"{", "["} for text in leaves(value))


@given(
    st.text(max_size=8) | st.lists(JSON) | st.dictionaries(st.text(max_size=5), JSON),
    st.sampled_from([None, 1]),
)
def test_json_with_an_escape_begins_as_such(value: object, indent: int | None) -> None:
    text = f" {json.dumps(value, indent=indent)}"

    assert "\\" not in text or begins_json(text[: text.index("\\") + 1])


@pytest.mark.parametrize(
    "text",
    ["[A link](x)", "[1] and", "{x | x > 0}", "Well, {}", "(1)", r"\[x\]", '"a"'],
)
def test_other_texts_do_not_begin_json(text: str) -> None:
    assert not begins_json(text)


def test_only_so_many_beginnings_are_tried() -> None:
    text = '{"' * 1_000_000 + "\\"

    assert extract_texts(text) == text
