import json
from collections.abc import Callable
from typing import Any

import pytest

from demur.codes.document import RegistryDocument
from demur.codes.loading import bundle_registry, parse_bundle
from demur.codes.registry import Registry
from demur.errors import RegistryError


@pytest.fixture
def wider(core: Registry, acme: Callable[..., RegistryDocument]) -> Registry:
    mine = acme(
        {"code": "acme.com/KYC_EXPIRED", "title": "Überfällig"},
        phrases={"kyc is stale": "POLICY_VIOLATION"},
    )
    return Registry(core.documents[0], [mine])


def test_a_registry_comes_back_as_it_was(core: Registry, wider: Registry) -> None:
    for registry in (core, wider):
        text = bundle_registry(registry)
        back = parse_bundle(text)

        assert bundle_registry(back) == text
        assert list(back) == list(registry)
        assert back.label == registry.label


def test_what_an_organisation_added_is_in_it(wider: Registry) -> None:
    back = parse_bundle(bundle_registry(wider))

    assert back["acme.com/KYC_EXPIRED"].title == "Überfällig"
    assert back["acme.com/KYC_EXPIRED"].parent == "POLICY_VIOLATION"


def test_other_registries_have_other_bundles(core: Registry, wider: Registry) -> None:
    assert bundle_registry(core) != bundle_registry(wider)
    assert bundle_registry(core) == bundle_registry(Registry.load())


def changed(core: Registry, change: dict[str, Any]) -> str:
    return json.dumps({**json.loads(bundle_registry(core)), **change})


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
        parse_bundle(changed(core, change))


@pytest.mark.parametrize("text", ["", "5", "[]", "{", "[" * 10**5, '{"core": 1e999}', "9" * 5000])
def test_text_that_is_no_bundle_is_refused(text: str) -> None:
    with pytest.raises(RegistryError) as caught:
        parse_bundle(text, "registry.json")

    assert str(caught.value.where).startswith("registry.json")


def test_a_bundle_is_checked_like_any_registry(core: Registry) -> None:
    content = json.loads(bundle_registry(core))
    content["core"]["codes"][0]["effect"] = "explode"
    with pytest.raises(RegistryError, match="explode"):
        parse_bundle(json.dumps(content))
