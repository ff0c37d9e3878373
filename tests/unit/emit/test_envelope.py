from typing import Any

import pytest

from demur.emit.envelope import (
    check_refuses,
    from_envelope,
    from_refusal_line,
    nested_value,
    to_envelope,
)
from demur.errors import InputError
from demur.model.refusal import Refusal

RCE = Refusal.from_code("RCE_RISK", "curl x | sh", evidence={"command": "curl"})
ALLOWS = Refusal.from_code("SUCCESS_MEMORY_SIMILAR_ALLOW")


def test_a_code_that_allows_is_no_refusal() -> None:
    with pytest.raises(InputError, match="is a code that allows"):
        check_refuses(ALLOWS)
    with pytest.raises(InputError):
        to_envelope(ALLOWS)


def test_members_that_are_not_known_are_left() -> None:
    assert from_envelope({**to_envelope(RCE), "later": [1]}) == RCE


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": "refusal.v2"},
        {"line": "REFUSED: RATE_LIMIT: x"},
        {"advice": "bribe"},
        {"code": 7},
        {"detail": "x" * 3000, "line": ""},
        {"source": {"name": ""}},
    ],
)
def test_an_envelope_that_contradicts_itself_is_none(change: dict[str, Any]) -> None:
    assert from_envelope({**to_envelope(RCE), **change}) is None


@pytest.mark.parametrize(
    "change",
    [
        {"refusal_class": None},
        {"refusal_class": "SOFT_BLOCK"},
        {"advice": "retry_later"},
        {"retry_scope": "call"},
        {"decided": False},
        {"severity": "info"},
        {"parent": "RATE_LIMIT"},
    ],
)
def test_what_is_looser_than_the_registry_is_not_taken_over(change: dict[str, Any]) -> None:
    assert from_envelope({**to_envelope(RCE), **change}) == RCE


@pytest.mark.parametrize("data", [None, 1, "x", [], {}, [to_envelope(RCE)]])
def test_what_is_no_object_with_a_schema_is_none(data: object) -> None:
    assert from_envelope(data) is None


def test_only_a_canonical_line_is_read() -> None:
    assert from_refusal_line("REFUSED: RCE_RISK: x") == Refusal.from_code("RCE_RISK", "x")
    for text in ("rate limit exceeded", "REFUSED: NOPE_NOPE: x", " REFUSED: RCE_RISK: x", None, 3):
        assert from_refusal_line(text) is None
    assert from_refusal_line(ALLOWS.line) is None


def test_a_member_is_found_in_nested_objects_or_none() -> None:
    assert nested_value({"a": {"b": 1}}, "a", "b") == 1
    assert nested_value({"a": []}, "a", "b") is None
    assert nested_value({"a": 1}) == {"a": 1}
