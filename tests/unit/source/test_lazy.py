import sys
from types import ModuleType
from typing import Any

import pytest

import demur.guards
import demur.source
from demur.source.lazy import lazy_names


def package(**homes: tuple[str, ...]) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "shop"}
    names["load"], names["listed"] = lazy_names(names, homes)
    return names


def test_a_name_is_loaded_once_from_the_module_it_lives_in(monkeypatch: pytest.MonkeyPatch) -> None:
    home = ModuleType("shelf")
    home.__dict__["bread"] = first = object()
    monkeypatch.setitem(sys.modules, "shelf", home)
    shop = package(shelf=("bread",))

    assert "bread" not in shop
    assert shop["load"]("bread") is first
    assert shop["bread"] is first


def test_names_are_listed_whether_loaded_or_not() -> None:
    shop = package(shelf=("bread", "milk"))

    assert shop["listed"]() == ["__name__", "bread", "listed", "load", "milk"]


def test_an_unknown_name_is_an_ordinary_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'shop' has no attribute 'gold'"):
        package(shelf=("bread",))["load"]("gold")


@pytest.mark.parametrize("module", [demur.guards, demur.source])
def test_every_public_name_of_a_package_has_its_home(module: ModuleType) -> None:
    homes = [name for names in module._HOMES.values() for name in names]

    assert sorted(homes) == sorted(module.__all__)
    for name in homes:
        assert getattr(module, name) is not None
        assert name in dir(module)
