import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from demur.canonical import canonical_bytes
from demur.model.frozen import FrozenDict, freeze_json

CHANGES: list[Callable[[dict[str, Any]], object]] = [
    lambda value: value.__setitem__("b", 1),
    lambda value: value.__delitem__("a"),
    lambda value: value.__ior__({"b": 1}),
    lambda value: value.update(b=1),
    lambda value: value.setdefault("b", 1),
    lambda value: value.pop("a"),
    lambda value: value.popitem(),
    lambda value: value.clear(),
]


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_frozen_refuses_every_change(change: Callable[[dict[str, Any]], object]) -> None:
    value = freeze_json({"a": {"deep": [1]}})
    for part in (value, value["a"]):
        with pytest.raises(TypeError, match="a record is immutable"):
            change(part)

    assert value == {"a": {"deep": (1,)}}


def test_freezing_copies() -> None:
    inner = [1]
    value = freeze_json({"a": inner})
    inner.append(2)

    assert value["a"] == (1,)


def test_every_encoder_writes_it_like_any_other() -> None:
    value = freeze_json({"b": [1, {"c": None}], "a": "x"})
    plain = {"b": [1, {"c": None}], "a": "x"}

    assert json.loads(json.dumps(value)) == plain
    assert msgspec.json.decode(msgspec.json.encode(value)) == plain
    assert canonical_bytes(value) == canonical_bytes(plain)


def test_copies_are_frozen_too_and_a_dict_of_it_is_not() -> None:
    value = freeze_json({"a": [1]})
    for copied in (copy.deepcopy(value), pickle.loads(pickle.dumps(value))):  # noqa: S301 - our own
        assert copied == value
        assert isinstance(copied, FrozenDict)
    assert {**value, "b": 2} == {"a": (1,), "b": 2}
