import json
from collections.abc import Callable
from typing import Any

import pytest

from demur.codes.document import RegistryDocument, read_document
from demur.codes.refusal_line import parse_refusal
from demur.codes.registry import Registry
from demur.codes.vocabulary import Verdict
from demur.errors import InputError, RegistryError
from demur.policy.lumyn_codes import (
    CodeNames,
    CodeUse,
    empty_registry,
    extend_registry,
    name_codes,
    read_code_list,
)
from demur.policy.lumyn_draft import ImportLog

CORE = Registry.load()


def use(code: str, verdict: str = "DENY", *, hard: bool = True) -> CodeUse:
    return CodeUse(code, Verdict(verdict), hard, "p.yml:3:1", "R1")


def name(
    *uses: CodeUse, domain: str | None = "acme.com", registry: Registry = CORE, **words: str
) -> tuple[CodeNames, ImportLog]:
    diagnostics = ImportLog()
    return name_codes(uses, registry, domain, words, diagnostics), diagnostics


def test_a_code_of_the_core_stays_and_needs_no_domain() -> None:
    naming, diagnostics = name(use("CHARGEBACK_RISK_BLOCK"), domain=None)

    assert naming == CodeNames({"CHARGEBACK_RISK_BLOCK": "CHARGEBACK_RISK_BLOCK"}, ())
    assert diagnostics.found == []


@pytest.mark.parametrize(
    ("given", "parent", "refusal_class"),
    [
        (use("MISSING_FX_RATE", hard=False), "CONTEXT_MISSING", "WORKFLOW_BLOCK"),
        (use("MISSING_FX_RATE"), "CONTEXT_MISSING", "HARD_BLOCK"),
        (use("WIRE_OVER_LIMIT", "ESCALATE", hard=False), "APPROVAL_LIMIT_EXCEEDED", None),
        (use("MANUAL_APPROVAL", "ESCALATE", hard=False), "APPROVAL_REQUIRED", None),
        (use("EMAIL_TAKEOVER_RISK_BLOCK"), "RISK_THRESHOLD_EXCEEDED", "HARD_BLOCK"),
        (use("REFUND_REPEAT_CUSTOMER", hard=False), "PATTERN_ANOMALY_DETECTED", None),
        (use("INVALID_TICKET", "ABSTAIN", hard=False), "EVIDENCE_INVALID", None),
        (use("SANCTIONED_COUNTRY"), "POLICY_VIOLATION", "HARD_BLOCK"),
        (use("OUT_OF_HOURS", hard=False), "POLICY_VIOLATION", "WORKFLOW_BLOCK"),
        (use("OUT_OF_HOURS", "ESCALATE", hard=False), "APPROVAL_REQUIRED", None),
        (use("OUT_OF_HOURS", "ABSTAIN", hard=False), "EVIDENCE_INVALID", None),
    ],
)
def test_any_other_becomes_a_code_of_the_organisation(
    given: CodeUse, parent: str, refusal_class: str | None
) -> None:
    naming, diagnostics = name(given)
    full = f"acme.com/{given.code}"
    entry = extend_registry(CORE, "acme.com", naming.entries)[full]

    assert naming.names == {given.code: full}
    assert entry.parent == parent
    assert entry.refusal_class == (refusal_class or "WORKFLOW_BLOCK")
    assert [diagnostic.kind for diagnostic in diagnostics.found] == ["code-renamed"]


def test_a_code_that_also_escalates_stays_liftable() -> None:
    code = "ODD_HOUR_RISK"
    naming, _ = name(use(code), use(code, "ESCALATE", hard=False))

    assert "refusal_class" not in naming.entries[0]


def test_a_description_is_taken_from_the_peers_list() -> None:
    told, _ = name(use("ODD_HOUR"), ODD_HOUR="The hour is odd.")
    untold, _ = name(use("ODD_HOUR"), ODD_HOUR="")

    assert told.entries[0]["description"] == "The hour is odd."
    assert untold.entries[0]["description"].startswith("Odd hour; ")


def test_the_bare_name_in_old_logs_still_means_the_code() -> None:
    naming, _ = name(use("ODD_HOUR"), use("ODD_H"))
    registry = extend_registry(CORE, "acme.com", naming.entries)
    line = '{"reason_codes": ["ODD_HOUR"]}'

    assert parse_refusal(line, registry=registry) == ("acme.com/ODD_HOUR", line)
    assert parse_refusal("REFUSED: ODD_HOUR: late", registry=registry) is None
    assert "aliases" not in naming.entries[1], "too short for a phrase"


def test_a_phrase_that_means_something_already_is_not_taken(
    acme: Callable[..., RegistryDocument],
) -> None:
    document = acme({"code": "acme.com/LATE", "aliases": ["odd_hour"]})
    naming, _ = name(use("ODD_HOUR"), registry=Registry.from_document(document))

    assert "aliases" not in naming.entries[0]


def test_codes_without_a_home_are_all_named() -> None:
    with pytest.raises(InputError) as caught:
        name(use("ODD_HOUR"), use("RCE_RISK"), use("ODD_DAY"), domain=None)

    assert str(caught.value) == (
        "p.yml:3:1: `ODD_HOUR`, `ODD_DAY` are not in any registry\n"
        "  help: pass a domain that you own by `--domain example.com`: they become its codes"
    )


def test_a_domain_must_be_one() -> None:
    with pytest.raises(InputError, match="`ACME` is not a domain"):
        name(domain="ACME")


def test_a_code_that_the_organisation_has_is_not_added_again(
    acme: Callable[..., RegistryDocument],
) -> None:
    registry = Registry.from_document(acme({"code": "acme.com/ODD_HOUR"}))
    naming, _ = name(use("ODD_HOUR"), use("ODD_DAY"), registry=registry)
    both = extend_registry(registry, "acme.com", naming.entries)

    assert [entry["code"] for entry in naming.entries] == ["acme.com/ODD_DAY"]
    assert naming.names["ODD_HOUR"] == "acme.com/ODD_HOUR"
    assert {"acme.com/ODD_HOUR", "acme.com/ODD_DAY"} <= {entry.code for entry in both}


def test_other_organisations_stay_known(acme: Callable[..., RegistryDocument]) -> None:
    raw: dict[str, Any] = empty_registry("other.org", CORE)
    other = read_document("other.json", json.dumps(raw))
    registry = Registry(CORE.documents[0], [other, acme({"code": "acme.com/A_B"})])
    naming, _ = name(use("ODD_DAY"), registry=registry)

    assert list(extend_registry(registry, "acme.com", naming.entries).versions) == [
        "",
        "acme.com",
        "other.org",
    ]


@pytest.mark.parametrize(
    ("code", "parent", "why"),
    [
        ("REFUND_OVER_500", "POLICY_VIOLATION", "a number in a code"),
        ("HIGH_RISK", "RISK_THRESHOLD_EXCEEDED", "a measurement is not a reason"),
        ("_", "POLICY_VIOLATION", "a code is"),
        ("SUCCESS_MEMORY_SIMILAR_ALLOW", "POLICY_VIOLATION", "it says that something is allowed"),
    ],
)
def test_a_name_that_cannot_be_a_code_becomes_a_broader_one(
    code: str, parent: str, why: str
) -> None:
    naming, diagnostics = name(use(code), domain=None)

    assert naming == CodeNames({code: parent}, ())
    assert [diagnostic.kind for diagnostic in diagnostics.found] == ["code-replaced"]
    assert why in diagnostics.found[0].message


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (use("PAYMENT_INSTRUMENT_HIGH_RISK"), "is a WORKFLOW_BLOCK here: a grant may lift it"),
        (use("CHARGEBACK_RISK_BLOCK", "ESCALATE", hard=False), "no approval lifts it, ESCALATE"),
    ],
)
def test_a_class_that_differs_from_the_use_is_remarked(given: CodeUse, words: str) -> None:
    _, diagnostics = name(given)

    assert [(diagnostic.kind, diagnostic.rule) for diagnostic in diagnostics.found] == [
        ("code-class", "R1")
    ]
    assert words in diagnostics.found[0].message


def test_nothing_new_leaves_the_registry_as_it_is() -> None:
    assert extend_registry(CORE, "acme.com", ()) is CORE
    assert extend_registry(CORE, None, ()) is CORE


def test_each_code_has_its_description() -> None:
    rows = [{"code": "A_B", "description": " An A. "}, {"code": "C_D"}]
    text = json.dumps({"schema_version": "reason_codes.v1", "codes": rows})

    assert read_code_list("codes.json", text) == {"A_B": "An A.", "C_D": ""}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "codes.json:1:2: not JSON: "),
        ("[" * 100_000, "codes.json: not a list of codes"),
        ("9" * 5000, "codes.json: not a list of codes"),
        ("[]", "codes.json: Lumyn's codes are an object with a list called `codes`"),
        ('{"codes": {}}', "codes.json: Lumyn's codes are an object"),
        ('{"codes": [{"code": "A_B"}, 5]}', "codes.json: codes[1]: a code has a name"),
        ('{"codes": [{"code": 5}]}', "codes.json: codes[0]: a code has a name"),
        ('{"codes": [{"code": "A", "description": 5}]}', "codes.json: codes[0]: a code has a name"),
    ],
)
def test_a_file_that_is_no_list_of_codes_is_refused(text: str, problem: str) -> None:
    with pytest.raises(RegistryError) as caught:
        read_code_list("codes.json", text)

    assert str(caught.value).startswith(problem)
