import json
from collections.abc import Callable
from typing import Any

import pytest

from demur.codes.bundle import bundle, unbundle
from demur.codes.document import Document
from demur.codes.registry import Registry
from demur.errors import RegistryError


@pytest.fixture
def wider(core: Registry, acme: Callable[..., Document]) -> Registry:
    mine = acme(
        {"code": "acme.com/KYC_EXPIRED", "title": "Überfällig"},
        phrases={"kyc is stale": "POLICY_VIOLATION"},
    )
    return Registry(core.documents[0], [mine])


def test_a_registry_comes_back_as_it_was(core: Registry, wider: Registry) -> None:
    for registry in (core, wider):
        text = bundle(registry)
        back = unbundle(text)

        assert bundle(back) == text
        assert list(back) == list(registry)
        assert back.label == registry.label


def test_what_an_organisation_added_is_in_it(wider: Registry) -> None:
    back = unbundle(bundle(wider))

    assert back["acme.com/KYC_EXPIRED"].title == "Überfällig"
    assert back["acme.com/KYC_EXPIRED"].parent == "POLICY_VIOLATION"


def test_other_registries_have_other_bundles(core: Registry, wider: Registry) -> None:
    assert bundle(core) != bundle(wider)
    assert bundle(core) == bundle(Registry.load())


def changed(core: Registry, change: dict[str, Any]) -> str:
    return json.dumps({**json.loads(bundle(core)), **change})


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"schema_version": "v0"}, "unknown schema version"),
        ({"organisations": {}}, "must be a list"),
        ({"more": 1}, "a bundle holds a core and organisations"),
        ({"core": 5}, "registry: core"),
        ({"core": {}}, "registry: core"),
        ({"organisations": [5]}, r"registry: organisations\[0\]"),
        ({"organisations": [None]}, r"registry: organisations\[0\]"),
    ],
)
def test_what_is_no_bundle_is_refused(core: Registry, change: dict[str, Any], problem: str) -> None:
    with pytest.raises(RegistryError, match=problem):
        unbundle(changed(core, change))


@pytest.mark.parametrize("text", ["", "5", "[]", "{", "[" * 10**5, '{"core": 1e999}', "9" * 5000])
def test_text_that_is_no_bundle_is_refused(text: str) -> None:
    with pytest.raises(RegistryError) as caught:
        unbundle(text, "registry.json")

    assert str(caught.value.where).startswith("registry.json")


def test_a_bundle_is_checked_like_any_registry(core: Registry) -> None:
    content = json.loads(bundle(core))
    content["core"]["codes"][0]["effect"] = "explode"
    with pytest.raises(RegistryError, match="explode"):
        unbundle(json.dumps(content))
