import json
from typing import Any

import pytest

from demur.errors import InputError, InputTypeError
from demur.memory.settings import MemorySettings


def test_lifting_is_off_unless_turned_on() -> None:
    assert not MemorySettings().lift


def test_settings_are_plain_json() -> None:
    assert json.loads(json.dumps(MemorySettings(top_k=3).as_json())) == {
        "block": 0.95,
        "escalate": 0.85,
        "allow": 0.98,
        "lift": False,
        "block_severity": 3,
        "top_k": 3,
    }


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"block": 0.8}, "`escalate` is 0.85, above `block`"),
        ({"escalate": 0}, "`escalate` is 0, but"),
        ({"block": 1.1}, "`block` is 1.1, but"),
        ({"allow": float("nan")}, "`allow` is nan, but"),
        ({"top_k": 0}, "`top_k` is 0, not from 1 to 100"),
        ({"block_severity": 6}, "`block_severity` is 6, not from 1 to 5"),
    ],
)
def test_values_out_of_range_are_refused(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        MemorySettings(**settings)


@pytest.mark.parametrize(
    "settings", [{"block": "1"}, {"allow": True}, {"lift": 1}, {"top_k": 1.5}, {"top_k": True}]
)
def test_values_of_another_kind_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InputTypeError, match="memory: `"):
        MemorySettings(**settings)


def test_thresholds_may_be_whole() -> None:
    assert MemorySettings(block=1, escalate=1, allow=1).block == 1
