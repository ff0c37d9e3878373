from types import SimpleNamespace
from typing import Any

import pytest

from demur.providers.plain import plain


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
    assert plain(raw) == (value, False)


@pytest.mark.parametrize("raw", [float("nan"), float("inf"), 2**80, "x" * 5000, "\ud800"])
def test_what_cannot_be_kept_is_said(raw: Any) -> None:
    assert plain(raw).cut


def test_many_values_are_cut() -> None:
    assert plain(list(range(10_000))).cut
    assert len(plain(list(range(10_000))).value) < 600
    assert plain({str(number): number for number in range(10_000)}).cut


def test_a_loop_ends() -> None:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    assert plain(loop).cut
