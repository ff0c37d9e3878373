import json
import pickle
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest

from demur.codes.document import RegistryDocument, read_document
from demur.codes.line import parse_refusal
from demur.codes.reason_code import ReasonCode
from demur.codes.registry import CORE_PATH, Registry
from demur.codes.vocabulary import RefusalClass
from demur.errors import InputTypeError, RegistryError, UnknownCodeError

Acme = Callable[..., RegistryDocument]
KYC = "acme.com/KYC_EXPIRED"
CORE = Registry.load()
VERSION = json.loads(CORE_PATH.read_text(encoding="utf-8"))["version"]


def registry_of(*documents: RegistryDocument) -> Registry:
    return Registry(read_document(CORE_PATH), documents)


def test_the_core_holds_every_code_of_the_enum_and_no_other(core: Registry) -> None:
    assert [entry.code for entry in core] == [str(code) for code in ReasonCode]
    assert len(core) == len(ReasonCode)


def test_a_file_named_by_its_path_is_added(tmp_path: Path, acme_text: Callable[..., str]) -> None:
    path = tmp_path / "acme.json"
    path.write_text(acme_text({"code": KYC}, version="2.3.0"), encoding="utf-8")

    for named in (path, str(path)):
        registry = Registry.load(named)
        assert KYC in registry
        assert registry.label == f"{CORE.label}+acme.com@2.3.0"


def test_the_core_has_no_codes_of_a_domain() -> None:
    raw = json.loads(CORE_PATH.read_text(encoding="utf-8"))
    raw["codes"].append({**raw["codes"][0], "code": KYC, "aliases": []})

    with pytest.raises(RegistryError, match="stands without a domain"):
        Registry(read_document("core.json", json.dumps(raw)))


def test_a_registry_shows_its_label_and_its_size(core: Registry) -> None:
    assert repr(core) == f"<Registry reason_codes.v1@{VERSION}: {len(core)} codes>"
    assert dict(core.versions) == {"": VERSION}


def test_an_entry_is_looked_up_by_its_code(core: Registry) -> None:
    entry = core[ReasonCode.RCE_RISK]

    assert entry is core["RCE_RISK"]
    assert entry is core.get("RCE_RISK")
    assert "RCE_RISK" in core
    assert ReasonCode.RCE_RISK in core


def test_an_unknown_code_is_an_error_with_a_guess_and_the_way_to_the_list(core: Registry) -> None:
    with pytest.raises(UnknownCodeError) as caught:
        core["RCE_RISC"]

    assert caught.value.problem == "unknown reason code `RCE_RISC`"
    assert caught.value.help == (
        f"did you mean `RCE_RISK`? `demur codes list` shows all {len(core)}"
    )
    assert core.get("RCE_RISC") is None
    assert "RCE_RISC" not in core


def test_an_unknown_code_that_is_near_to_none_gets_the_list_alone(core: Registry) -> None:
    with pytest.raises(UnknownCodeError) as caught:
        core["x" * 1000]

    assert caught.value.problem == f"unknown reason code `{'x' * 80}`"
    assert caught.value.help == f"`demur codes list` shows all {len(core)}"


@pytest.mark.parametrize("code", [None, 7, b"RCE_RISK", ["RCE_RISK"], object()])
def test_a_code_that_is_no_string_is_a_type_error(code: str, core: Registry) -> None:
    with pytest.raises(InputTypeError, match="a code must be a string, not `"):
        core[code]


def test_children_are_the_entries_that_name_the_parent(core: Registry, acme: Acme) -> None:
    registry = registry_of(acme({"code": KYC, "parent": "CONTEXT_MISSING"}))

    here = [entry.code for entry in registry.children("CONTEXT_MISSING")]
    assert here == [*(entry.code for entry in core.children("CONTEXT_MISSING")), KYC]
    assert core.children("RCE_RISK") == ()


def test_an_organisation_s_code_inherits_what_it_does_not_say(core: Registry, acme: Acme) -> None:
    parent = core["RATE_LIMIT"]
    entry = registry_of(acme({"code": KYC, "parent": "RATE_LIMIT", "http": 503}))[KYC]

    assert (entry.code, entry.title, entry.http) == (KYC, "Kyc expired", 503)
    assert (entry.advice, entry.grants, entry.family) == (
        parent.advice,
        parent.grants,
        parent.family,
    )
    assert (entry.aliases, entry.evidence, entry.examples.refuse) == ((), {}, ())


def test_a_deprecated_parent_does_not_deprecate_its_child(acme: Acme) -> None:
    entry = registry_of(acme({"code": KYC, "parent": "OLD_FRAUD_BLOCK"}))[KYC]

    assert not entry.deprecated
    assert (entry.deprecated_since, entry.replacement) == (None, None)
    assert entry.refusal_class is RefusalClass.HARD_BLOCK


def test_a_phrase_may_mean_a_core_code_or_an_own_one(acme: Acme) -> None:
    registry = registry_of(
        acme({"code": KYC, "aliases": ["KYC Check Lapsed"]}, phrases={"Slow Down!!": "RATE_LIMIT"})
    )

    assert registry.code_of_phrase("error: kyc check LAPSED") == KYC
    assert registry.code_of_phrase("slow down!!") == "RATE_LIMIT"
    assert registry.code_of_phrase("slow down!") is None
    assert registry.phrases["slow down!!"] == "RATE_LIMIT"


def test_the_core_may_map_phrases_of_its_own() -> None:
    file = json.loads(CORE_PATH.read_text("utf-8"))
    file["phrases"] = {"computer says no": "POLICY_VIOLATION"}

    registry = Registry(read_document("core.json", json.dumps(file)))
    assert registry.code_of_phrase("Computer says no.") == "POLICY_VIOLATION"


def test_a_file_named_twice_counts_once(acme: Acme) -> None:
    rows = [{"code": KYC}, {"code": "acme.com/KYC_LATE", "evidence": {"a": "x", "b": "y"}}]
    again = [{"evidence": {"b": "y", "a": "x"}, "code": "acme.com/KYC_LATE"}, {"code": KYC}]
    copy = acme(*again)._replace(where="copy.json")

    assert list(registry_of(acme(*rows), acme(*rows))) == list(registry_of(acme(*rows)))
    assert len(registry_of(acme(*rows), copy)) == len(CORE) + 2


def test_files_whose_entries_cannot_be_compared_still_have_an_order(acme: Acme) -> None:
    allowing = {"parent": "SUCCESS_MEMORY_SIMILAR_ALLOW", "advice": None}
    registry = registry_of(
        acme({"code": KYC, "advice": "retry_later"}, {"code": "acme.com/KYC_FINE", **allowing})
    )

    assert len(registry) == len(CORE) + 2


def test_the_mappings_of_a_registry_cannot_be_changed(core: Registry) -> None:
    for mapping in (core.phrases, core.versions):
        with pytest.raises(TypeError):
            mapping["new"] = "RCE_RISK"  # type: ignore[index]


@pytest.mark.parametrize(
    ("code", "alias"),
    [(entry.code, alias) for entry in CORE for alias in entry.aliases],
    ids=lambda value: str(value).replace(" ", "_"),
)
def test_every_alias_parses_to_its_code(code: str, alias: str) -> None:
    for text in (alias, alias.upper(), f"2026-01-31 ERROR upstream said: {alias}."):
        assert parse_refusal(text, registry=CORE) == (code, text)


@pytest.mark.parametrize("text", sorted({text for entry in CORE for text in entry.examples.allow}))
def test_no_harmless_example_is_read_as_a_refusal(text: str) -> None:
    assert parse_refusal(text, registry=CORE) is None


def test_the_core_has_harmless_examples_to_read() -> None:
    assert sum(len(entry.examples.allow) for entry in CORE) >= 30


def test_two_files_may_say_the_same_of_a_phrase(acme: Acme) -> None:
    registry = registry_of(acme(phrases={"Rate limit exceeded": "RATE_LIMIT"}))

    assert registry.code_of_phrase("rate limit exceeded") == "RATE_LIMIT"


def test_a_registry_travels_to_other_processes(acme: Acme) -> None:
    registry = registry_of(acme({"code": KYC}))

    for copy in (pickle.loads(pickle.dumps(registry)), deepcopy(registry)):  # noqa: S301 - our own
        assert list(copy) == list(registry)
        assert copy.label == registry.label
