import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pytest

from demur.source.lazy import lazy_names


def shop_of(**homes: tuple[str, ...]) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "shop"}
    names["load"], names["listed"] = lazy_names(names, homes)
    return names


def test_a_name_is_loaded_once_from_the_module_it_lives_in(monkeypatch: pytest.MonkeyPatch) -> None:
    home = ModuleType("shelf")
    home.__dict__["bread"] = first = object()
    monkeypatch.setitem(sys.modules, "shelf", home)
    shop = shop_of(shelf=("bread",))

    assert "bread" not in shop
    assert shop["load"]("bread") is first
    assert shop["bread"] is first


def test_names_are_listed_whether_loaded_or_not() -> None:
    shop = shop_of(shelf=("bread", "milk"))

    assert shop["listed"]() == ["__name__", "bread", "listed", "load", "milk"]


def test_an_unknown_name_is_an_ordinary_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'shop' has no attribute 'gold'"):
        shop_of(shelf=("bread",))["load"]("gold")


@pytest.mark.parametrize(
    "package",
    [
        *("audit", "codes", "detect", "emit", "enforce", "evals", "gate", "guards", "memory"),
        *("model", "observe", "policy", "providers", "respond", "source", "store", "testing"),
        "triage",
    ],
)
def test_every_public_name_of_a_package_has_its_home(package: str) -> None:
    module = import_module(f"demur.{package}")
    tables = [
        table.split() if isinstance(table, str) else table for table in module._HOMES.values()
    ]

    assert sorted(name for table in tables for name in table) == sorted(module.__all__)
    for home, names in zip(module._HOMES, tables, strict=True):
        assert find_spec(home) is not None
        assert names
