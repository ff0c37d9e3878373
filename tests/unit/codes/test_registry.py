"""The rules among entries. A file is written, merged, and refused with exactly these problems."""

import json
import pickle
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.codes.document import RegistryDocument, read_document
from demur.codes.reason_code import ReasonCode
from demur.codes.refusal_line import parse_refusal
from demur.codes.registry import CORE_PATH, REQUIRED_OF_ORGANISATIONS, PhraseIndex, Registry
from demur.codes.vocabulary import RefusalClass
from demur.errors import InputTypeError, Problem, RegistryError, UnknownCodeError

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


@pytest.mark.parametrize("spaces", ["  ", "\t", " \t   "])
def test_a_run_of_spaces_does_not_break_a_phrase(acme: Acme, spaces: str) -> None:
    registry = registry_of(acme({"code": KYC, "aliases": ["KYC  check lapsed"]}))

    assert registry.code_of_phrase(f"error: rate{spaces}limit{spaces}exceeded") == "RATE_LIMIT"
    assert registry.code_of_phrase(f"kyc{spaces}check lapsed") == KYC
    assert registry.code_of_phrase("kyc check lapsed") == KYC
    assert registry.code_of_phrase("rate\nlimit exceeded") is None


@pytest.mark.parametrize(
    "text",
    [
        "no loop detected",
        "12:00 INFO scan finished: No prompt injection detected",
        "the call was not rate limited",
        "finished without policy violation",
        "loop detected: none",
        "risky imports: 0, files: 3",
        'guard said {"approval required": false}',
        "loop detected=no, loop  detected = false",
    ],
)
def test_a_phrase_that_is_denied_does_not_count(text: str) -> None:
    assert CORE.code_of_phrase(text) is None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("piano loop detected", "LOOP_DETECTED"),
        ("no loop detected, then loop detected", "LOOP_DETECTED"),
        ("no rate limit hit, but policy violation", "POLICY_VIOLATION"),
        ("policy violation: no refunds after 30 days", "POLICY_VIOLATION"),
        ("loop detected: 0 new files in 5 calls", "LOOP_DETECTED"),
        ("no policy rule matched", "NO_MATCH_DEFAULT_ESCALATE"),
    ],
)
def test_a_denial_elsewhere_in_the_text_denies_nothing(text: str, code: str) -> None:
    assert CORE.code_of_phrase(text) == code


def test_a_foreign_list_of_codes_is_told_everything_that_it_lacks(tmp_path: Path) -> None:
    listed = [
        {"code": "CHARGEBACK_RISK_BLOCK", "description": "Too risky."},
        {"code": "LATE_PARCEL", "description": "It comes too late."},
    ]
    path = tmp_path / "codes.json"
    path.write_text(json.dumps({"schema_version": "reason_codes.v1", "codes": listed}))

    with pytest.raises(RegistryError) as caught:
        Registry.load(path)

    told = [
        ((problem.where or "").rpartition(" ")[2], problem.problem)
        for problem in caught.value.problems
    ]
    assert told == [
        ("version", "must be a version like `1.0.0`, not `null`"),
        ("domain", "an organisation's registry needs a domain"),
        ("CHARGEBACK_RISK_BLOCK", "an organisation's code needs `parent`"),
        ("CHARGEBACK_RISK_BLOCK", "an organisation's code needs `since`"),
        ("CHARGEBACK_RISK_BLOCK", "redefines a core code"),
        ("LATE_PARCEL", "an organisation's code needs `parent`"),
        ("LATE_PARCEL", "an organisation's code needs `since`"),
        ("LATE_PARCEL", "has no domain"),
    ]


def test_the_problems_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    for name, text in (("a.json", "{"), ("b.json", "[]")):
        (tmp_path / name).write_text(text)
    bad = {"code": "acme.com/LATE", "description": "Late.", "since": "1.0.0", "parent": 7}
    file: dict[str, object] = {"schema_version": "reason_codes.v1", "version": "1.0.0"}
    file |= {"domain": "acme.com"}
    file |= {"codes": [bad, {"code": "acme.com/LATE_1"}], "phrases": {"is late": "acme.com/LATE"}}
    (tmp_path / "c.json").write_text(json.dumps(file))

    with pytest.raises(RegistryError) as caught:
        Registry.load(*(tmp_path / name for name in ("a.json", "b.json", "c.json", "d.json")))

    told = [problem.problem for problem in caught.value.problems]
    assert told[:2] == [
        "not JSON: expecting property name enclosed in double quotes",
        "a registry is a JSON object",
    ]
    assert told[2].startswith("must be a non-empty string")
    assert told[3] == "cannot read the registry: no such file or directory"
    assert told[4:] == [
        "an organisation's code needs `description`",
        "an organisation's code needs `parent`",
        "an organisation's code needs `since`",
    ]


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


CORE_rules = read_document(CORE_PATH)


def problems_of(
    *organisations: RegistryDocument, core: RegistryDocument = CORE_rules
) -> tuple[Problem, ...]:
    with pytest.raises(RegistryError) as caught:
        Registry(core, organisations)
    return caught.value.problems


def problem_of(
    *organisations: RegistryDocument, core: RegistryDocument = CORE_rules
) -> tuple[str, str | None]:
    """Return the one problem there is and what helps, after a look at its place."""
    [problem] = problems_of(*organisations, core=core)
    assert (problem.where or "").startswith(("acme.json", "core.json"))
    return problem.problem, problem.help


def core_of(*rows: dict[str, Any], base: str = "POLICY_VIOLATION") -> RegistryDocument:
    """Return a core of made-up entries; each says only how it differs from `base`."""
    full = {**Registry(CORE_rules)[base].as_json(), "aliases": []}
    file = {
        "schema_version": "reason_codes.v1",
        "version": "1.0.0",
        "codes": [{**full, **row} for row in rows],
    }
    return read_document("core.json", json.dumps(file, indent=1))


def test_an_organisation_s_code_needs_only_a_few_fields(acme: Acme) -> None:
    registry = Registry(CORE_rules, [acme({"code": KYC})])

    assert registry[KYC].title == "Kyc expired"
    assert {*REQUIRED_OF_ORGANISATIONS} == {"code", "description", "parent", "since"}


@pytest.mark.parametrize("field", ["description", "parent", "since"])
def test_a_required_field_that_is_missing_is_named(field: str, acme: Acme) -> None:
    document = acme({"code": KYC})
    [row] = document.rows
    rest = {name: value for name, value in row.fields.items() if name != field}

    [problem] = problems_of(document._replace(rows=(row._replace(fields=rest),)))
    assert problem == Problem(row.where, f"an organisation's code needs `{field}`")
    assert row.where.startswith("acme.json:")


def test_a_parent_of_null_is_a_missing_parent(acme: Acme) -> None:
    problem = problem_of(acme({"code": KYC, "parent": None}))

    assert problem == ("an organisation's code needs `parent`", None)


def test_a_file_without_a_domain_is_refused_with_help_to_add_one(acme: Acme) -> None:
    [problem] = problems_of(acme({"code": KYC}, domain=None))

    assert problem.where == "acme.json: domain"
    assert problem.problem == "an organisation's registry needs a domain"
    assert "example.com" in (problem.help or "")


def test_a_domain_that_nobody_can_own_is_refused(acme: Acme) -> None:
    assert problem_of(acme(domain="Acme")) == ("`Acme` is not a domain", "like `example.com`")


def test_a_file_may_need_a_newer_core_but_not_get_it(acme: Acme) -> None:
    problem = problem_of(acme(min_core="1.10.0"))

    assert problem == (f"needs core 1.10.0, but this is core {CORE_rules.version}", "upgrade demur")


@pytest.mark.parametrize("version", ["0.99.9", "1.9.0", "1.10.0"])
def test_a_file_that_needs_this_core_or_an_older_one_is_taken(version: str, acme: Acme) -> None:
    core = CORE_rules._replace(version="1.10.0")

    assert KYC in Registry(core, [acme({"code": KYC}, min_core=version)])


def test_a_code_without_a_domain_is_refused_with_the_right_spelling(acme: Acme) -> None:
    problem = problem_of(acme({"code": "KYC_EXPIRED"}))

    assert problem == ("has no domain", "write it as `acme.com/KYC_EXPIRED`")


def test_a_code_and_a_file_without_domain_are_two_problems(acme: Acme) -> None:
    found = [problem.problem for problem in problems_of(acme({"code": "KYC_EXPIRED"}, domain=None))]

    assert found == ["an organisation's registry needs a domain", "has no domain"]


def test_a_core_code_cannot_be_redefined(acme: Acme) -> None:
    problem = problem_of(acme({"code": "RCE_RISK"}))

    assert problem == ("redefines a core code", "write it as `acme.com/RCE_RISK`")


def test_a_file_speaks_for_its_own_domain_only(acme: Acme) -> None:
    problem = problem_of(acme({"code": "evil.com/KYC_EXPIRED"}))

    assert problem == ("belongs to `evil.com`, but this file speaks for `acme.com`", None)


def test_an_unknown_parent_gets_a_guess(acme: Acme) -> None:
    problem = problem_of(acme({"code": KYC, "parent": "POLICY_VIOLATON"}))

    assert problem == (
        "unknown parent `POLICY_VIOLATON`: a parent is a core code",
        "did you mean `POLICY_VIOLATION`?",
    )


def test_an_unknown_parent_without_a_near_name_gets_the_list(acme: Acme) -> None:
    document = acme({"code": KYC, "parent": "BANANA"})

    assert problem_of(document)[1] == "`demur codes list` shows them all"


def test_an_organisation_s_own_code_is_no_parent(acme: Acme) -> None:
    document = acme({"code": KYC}, {"code": "acme.com/KYC_LATE", "parent": KYC})

    assert problem_of(document)[0] == f"unknown parent `{KYC}`: a parent is a core code"


@pytest.mark.parametrize(
    ("local", "problem"),
    [
        ("kyc_expired", "a code is `[A-Z][A-Z0-9_]*[A-Z0-9]`"),
        ("KYC has expired", "natural language is not a code"),
        ("K" * 64, "a code is `[A-Z][A-Z0-9_]*[A-Z0-9]`"),
        ("LIMIT_500_USD", "a number in a code makes one code per value"),
        ("HIGH_RISK", "a measurement is not a reason"),
    ],
)
def test_each_kind_of_bad_name_is_refused(local: str, problem: str, acme: Acme) -> None:
    found, _ = problem_of(acme({"code": f"acme.com/{local}"}))

    assert found.startswith(f"bad name `acme.com/{local}`: {problem}")


def test_a_duplicate_code_is_refused_with_both_places(acme: Acme) -> None:
    document = acme({"code": KYC}, {"code": KYC, "evidence": {"limit": "how many"}})
    first, second = document.rows

    assert first.where != second.where
    assert problems_of(document) == (
        Problem(second.where, f"`{KYC}` appears twice: also at {first.where}"),
    )


def test_a_child_may_not_weaken_its_parent(acme: Acme) -> None:
    row = {"code": KYC, "parent": "PERMISSION_DENIED", "refusal_class": "SOFT_BLOCK"}

    assert problem_of(acme(row)) == (
        "SOFT_BLOCK is weaker than WORKFLOW_BLOCK of `PERMISSION_DENIED`",
        "a child may tighten its parent's class, never weaken it",
    )


def test_a_child_may_tighten_its_parent_and_leaves_the_grants_behind(acme: Acme) -> None:
    row = {
        "code": KYC,
        "parent": "PERMISSION_DENIED",
        "refusal_class": "HARD_BLOCK",
        "advice": "do_not_retry",
    }

    assert Registry(CORE_rules)["PERMISSION_DENIED"].grants
    assert Registry(CORE_rules, [acme(row)])[KYC].grants == ()


def test_only_a_workflow_block_has_grants(acme: Acme) -> None:
    row = {"code": KYC, "refusal_class": "HARD_BLOCK", "grants": ["approval"]}

    assert problem_of(acme(row)) == (
        "only a WORKFLOW_BLOCK can be lifted by grants",
        "leave `grants` out",
    )


@pytest.mark.parametrize("advice", ["accept_constraints", "provide_context", "request_approval"])
def test_a_hard_block_advises_no_way_around(advice: str, acme: Acme) -> None:
    row = {"code": KYC, "refusal_class": "HARD_BLOCK", "advice": advice}

    found, help_text = problem_of(acme(row))
    assert found == f"a HARD_BLOCK cannot advise `{advice}`: nothing lifts it"
    assert "do_not_retry" in (help_text or "")


def test_a_code_that_was_not_decided_has_no_grants(acme: Acme) -> None:
    row = {"code": KYC, "parent": "GUARDRAIL_UNAVAILABLE", "grants": ["approval"]}

    found = [problem.problem for problem in problems_of(acme(row))]
    assert "no grant lifts a code without a judgement" in found


def test_a_child_may_not_be_easier_to_lift(acme: Acme) -> None:
    row = {"code": KYC, "parent": "PERMISSION_DENIED", "grants": ["authorization", "approval"]}

    assert problem_of(acme(row)) == (
        "names a grant that does not lift `PERMISSION_DENIED`",
        "a child may be harder to lift than its parent, not easier",
    )


def test_a_child_keeps_what_its_parent_says_about_deciding(acme: Acme) -> None:
    problem = problem_of(acme({"code": KYC, "decided": False}))

    assert problem == ("`decided` differs from that of `POLICY_VIOLATION`", None)


def test_a_child_keeps_its_parent_s_obligations(acme: Acme) -> None:
    row = {"code": KYC, "parent": "CRISIS_ESCALATION", "obligations": ["human_review"]}

    assert problem_of(acme(row)) == (
        "drops the obligation `crisis_resources` of `CRISIS_ESCALATION`",
        None,
    )


def test_a_child_keeps_its_parent_s_effect(acme: Acme) -> None:
    row = {"code": KYC, "effect": "allow", "refusal_class": None, "advice": None}

    found = [problem.problem for problem in problems_of(acme({**row, "retry_scope": None}))]
    assert found == ["effect `allow` differs from that of `POLICY_VIOLATION`"]


@pytest.mark.parametrize("field", ["refusal_class", "advice", "retry_scope"])
def test_a_code_that_refuses_needs_class_advice_and_scope(field: str, acme: Acme) -> None:
    problem = problem_of(acme({"code": KYC, field: None}))

    assert problem == (f"a code with effect `refuse` needs `{field}`", None)


def test_a_code_that_allows_has_neither_class_nor_advice_nor_scope(acme: Acme) -> None:
    row = {
        "code": KYC,
        "parent": "SUCCESS_MEMORY_SIMILAR_ALLOW",
        "refusal_class": "SOFT_BLOCK",
        "advice": "retry_later",
        "retry_scope": "call",
    }

    assert [problem.problem for problem in problems_of(acme(row))] == [
        "a code with effect `allow` must not have `refusal_class`",
        "a code with effect `allow` must not have `advice`",
        "a code with effect `allow` must not have `retry_scope`",
    ]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"deprecated": True}, "`deprecated` and `stability` disagree"),
        ({"stability": "deprecated"}, "`deprecated` and `stability` disagree"),
        (
            {"deprecated": True, "stability": "deprecated", "deprecated_since": None},
            "a deprecated code needs `deprecated_since`",
        ),
        (
            {"deprecated_since": "1.0.0"},
            "only a deprecated code has `deprecated_since` or `replacement`",
        ),
        (
            {"replacement": "RCE_RISK"},
            "only a deprecated code has `deprecated_since` or `replacement`",
        ),
    ],
)
def test_the_marks_of_a_deprecated_code_agree(
    fields: dict[str, Any], problem: str, acme: Acme
) -> None:
    dated = {"deprecated_since": "1.0.0"} if fields.get("deprecated") else {}

    assert problem_of(acme({"code": KYC, **dated, **fields})) == (problem, None)


DEPRECATED = {"deprecated": True, "stability": "deprecated", "deprecated_since": "1.0.0"}


def test_a_deprecated_code_may_name_its_replacement(acme: Acme) -> None:
    document = acme({"code": KYC, **DEPRECATED, "replacement": "PERMISSION_DENIED"})

    assert Registry(CORE_rules, [document])[KYC].replacement == "PERMISSION_DENIED"


@pytest.mark.parametrize(
    ("replacement", "problem", "help_text"),
    [
        ("RCE_RISC", "unknown replacement `RCE_RISC`", "did you mean `RCE_RISK`?"),
        ("BANANA", "unknown replacement `BANANA`", None),
        ("OLD_FRAUD_BLOCK", "the replacement `OLD_FRAUD_BLOCK` is deprecated itself", None),
        (KYC, f"the replacement `{KYC}` is deprecated itself", None),
    ],
)
def test_a_replacement_is_a_code_that_lives(
    replacement: str, problem: str, help_text: str | None, acme: Acme
) -> None:
    document = acme({"code": KYC, **DEPRECATED, "replacement": replacement})

    assert problem_of(document) == (problem, help_text)


def test_an_unknown_parent_in_the_core_gets_a_guess() -> None:
    core = core_of({"code": "ROOT_REASON"}, {"code": "LEAF_REASON", "parent": "ROOT_REASN"})

    assert problem_of(core=core) == ("unknown parent `ROOT_REASN`", "did you mean `ROOT_REASON`?")


def test_a_core_code_must_not_have_a_domain() -> None:
    assert problem_of(core=core_of({"code": KYC})) == ("a core code stands without a domain", None)


def test_a_code_is_not_its_own_ancestor() -> None:
    core = core_of(
        {"code": "FIRST_REASON", "parent": "SECOND_REASON"},
        {"code": "SECOND_REASON", "parent": "FIRST_REASON"},
        {"code": "LEAF_REASON", "parent": "FIRST_REASON"},
        {"code": "SELF_REASON", "parent": "SELF_REASON"},
    )

    assert [(p.where, p.problem) for p in problems_of(core=core)] == [
        (row.where, f"is its own ancestor through `{row.fields['parent']}`")
        for row in core.rows
        if row.code != "LEAF_REASON"
    ]


def test_a_core_entry_says_everything_itself() -> None:
    core = core_of({"code": "ROOT_REASON"})
    [row] = core.rows
    fields = {k: v for k, v in row.fields.items() if k not in {"http", "title"}}

    assert problems_of(core=core._replace(rows=(row._replace(fields=fields),))) == (
        Problem(row.where, "a core code needs `title`"),
        Problem(row.where, "a core code needs `http`"),
    )


@pytest.mark.parametrize(
    ("phrase", "problem"),
    [
        ("short", "phrase `short` must have 6 to 200 characters"),
        ("x" * 201, f"phrase `{'x' * 60}` must have 6 to 200 characters"),
        ("two\nlines", "phrase `two\nlines` must be one line without outer spaces"),
        (" outer space", "phrase ` outer space` must be one line without outer spaces"),
        ("was Refused: no", "phrase `was Refused: no` contains `refused:`"),
        ("Blocked BY policy", "phrase `Blocked BY policy` is already taken by `POLICY_VIOLATION`"),
    ],
)
def test_each_kind_of_bad_phrase_is_refused(phrase: str, problem: str, acme: Acme) -> None:
    as_alias = problem_of(acme({"code": KYC, "aliases": [phrase]}))
    as_phrase = problem_of(acme(phrases={phrase: "RCE_RISK"}))

    assert as_alias == as_phrase
    assert as_alias[0].startswith(problem)


@pytest.mark.parametrize("phrase", ["6 long", "x" * 200])
def test_a_phrase_may_be_as_short_and_as_long_as_this(phrase: str, acme: Acme) -> None:
    registry = Registry(CORE_rules, [acme({"code": KYC, "aliases": [phrase]})])

    assert registry.phrases[phrase] == KYC


def test_a_phrase_for_an_unknown_code_gets_a_guess(acme: Acme) -> None:
    [problem] = problems_of(acme(phrases={"kyc has expired": "RCE_RISC"}))

    assert problem == Problem(
        "acme.json: phrases", "unknown reason code `RCE_RISC`", "did you mean `RCE_RISK`?"
    )


def test_a_phrase_of_one_organisation_is_taken_for_the_next(
    acme: Acme, acme_text: Callable[..., str]
) -> None:
    first = acme({"code": KYC, "aliases": ["kyc has expired"]})
    second = read_document(
        "beta.json", acme_text(domain="beta.com", phrases={"KYC has expired": "RCE_RISK"})
    )

    for order in ([first, second], [second, first]):
        [problem] = problems_of(*order)
        assert problem.where == "beta.json: phrases"
        assert problem.problem == f"phrase `KYC has expired` is already taken by `{KYC}`"
        assert problem.help is not None


def test_a_phrase_belongs_to_the_first_code_that_claims_it(acme: Acme) -> None:
    rows = [{"code": f"acme.com/REASON_{x}", "aliases": ["kyc has expired"]} for x in "ABC"]

    assert [problem.problem for problem in problems_of(acme(*rows))] == [
        "phrase `kyc has expired` is already taken by `acme.com/REASON_A`"
    ] * 2


def test_two_files_of_one_domain_are_refused(acme: Acme) -> None:
    assert problem_of(acme({"code": KYC}), acme({"code": "acme.com/KYC_LATE"}))[0] == (
        "`acme.com` is loaded twice, with different contents"
    )


def test_every_problem_of_a_registry_is_reported_at_once(acme: Acme) -> None:
    document = acme(
        {"code": "acme.com/HIGH_RISK", "decided": False, "advice": None},
        {"code": "LONELY_REASON", "parent": "BANANA"},
        min_core="2.0.0",
        phrases={"short": "BANANA"},
    )

    assert starts(problem.problem for problem in problems_of(document)) == [
        "needs core",
        "has no",
        "unknown parent",
        "unknown reason",
        "phrase `short`",
        "bad name",
        "a code",
        "`decided` differs",
    ]


def starts(problems: Iterable[str]) -> list[str]:
    return [" ".join(problem.split()[:2]) for problem in problems]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"parent": "RCE_RISK", "advice": "use_other_model"}, "a HARD_BLOCK cannot advise"),
        ({"parent": "RCE_RISK", "advice": "retry_later"}, "a HARD_BLOCK cannot advise"),
        ({"parent": "RCE_RISK", "http": 200}, "HTTP status 200 does not refuse"),
        (
            {"parent": "SUCCESS_MEMORY_SIMILAR_ALLOW", "aliases": ["went well before"]},
            "a code that allows has no legacy phrases",
        ),
    ],
)
def test_a_code_says_nothing_that_its_effect_and_class_deny(
    fields: dict[str, object], problem: str, acme: Acme
) -> None:
    with pytest.raises(RegistryError, match=problem):
        Registry(read_document(CORE_PATH), [acme({"code": KYC, **fields})])


# Few letters, some of which change their length when folded, so that phrases overlap.
LETTERS = st.sampled_from("aAbB ßİ\u017f\u212a")
PHRASES = st.dictionaries(
    st.text(LETTERS, min_size=1, max_size=9).map(str.casefold),
    st.sampled_from(["A_CODE", "B_CODE", "C_CODE"]),
    max_size=8,
)


def obvious(phrases: Mapping[str, str], text: str) -> str | None:
    """Look at every phrase: the longest in the text wins, ties by code name."""
    folded = text.casefold()
    inside = [phrase for phrase in phrases if phrase in folded]
    longest = max(map(len, inside), default=0)
    return min((phrases[phrase] for phrase in inside if len(phrase) == longest), default=None)


@given(PHRASES, st.text(LETTERS, max_size=40))
def test_the_longest_phrase_wins_ties_by_code_name(phrases: dict[str, str], text: str) -> None:
    """INVARIANT: the longest phrase wins, ties by code name."""
    assert PhraseIndex(phrases).find(text) == obvious(phrases, text)


@given(st.data())
def test_the_core_phrases_are_found_as_the_obvious_way_finds_them(data: st.DataObject) -> None:
    phrases = Registry.load().phrases
    pieces = st.sampled_from(sorted(phrases)) | st.sampled_from([" ", "x", "error: ", "İ"])
    text = "".join(data.draw(st.lists(pieces, max_size=5)))
    text = data.draw(st.sampled_from([text, text.upper(), text.title(), text[1:-1]]))

    assert PhraseIndex(phrases).find(text) == obvious(phrases, text)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("QUOTA EXCEEDED FOR METRIC x", "RATE_LIMIT"),
        ("quota exceeded", "BUDGET_EXCEEDED"),
        ("quota exceede", None),
        ("", None),
        ("Straße GESPERRT", "A_CODE"),
    ],
)
def test_case_makes_no_difference_and_a_part_is_not_enough(text: str, code: str | None) -> None:
    index = PhraseIndex(
        {
            "quota exceeded": "BUDGET_EXCEEDED",
            "quota exceeded for metric": "RATE_LIMIT",
            "strasse gesperrt": "A_CODE",
        }
    )

    assert index.find(text) == code


def test_among_phrases_of_one_length_the_first_code_by_name_wins() -> None:
    index = PhraseIndex({"one phrase": "B_CODE", "two phrase": "A_CODE"})

    assert index.find("one phrase, two phrase") == "A_CODE"


def test_an_index_without_phrases_finds_nothing() -> None:
    assert PhraseIndex({}).find("anything") is None
