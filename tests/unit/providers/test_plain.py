from types import SimpleNamespace
from typing import Any

import pytest

from demur.providers.plain import to_bounded_json


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (None, None),
        (True, True),
        ("x", "x"),
        (b"x", "x"),
        (2, 2),
        ([], []),
        ({}, {}),
        ({"a": [1, {"b": "c"}]}, {"a": [1, {"b": "c"}]}),
        (SimpleNamespace(a=1), {"a": 1}),
        ((1, 2), [1, 2]),
        (object(), {}),
    ],
)
def test_plain_values_stay_as_they_are(raw: Any, value: Any) -> None:
    assert to_bounded_json(raw) == (value, False)


@pytest.mark.parametrize("raw", [float("nan"), float("inf"), 2**80, "x" * 5000, "\ud800"])
def test_what_cannot_be_kept_is_said(raw: Any) -> None:
    assert to_bounded_json(raw).cut


def test_many_values_are_cut() -> None:
    assert to_bounded_json(list(range(10_000))).cut
    assert len(to_bounded_json(list(range(10_000))).value) < 600
    assert to_bounded_json({str(number): number for number in range(10_000)}).cut


def test_a_loop_ends() -> None:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    assert to_bounded_json(loop).cut
