"""The rules among entries. A file is written, merged, and refused with exactly these problems."""

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from demur.codes.document import RegistryDocument, read_document
from demur.codes.registry import CORE_PATH, Registry
from demur.codes.rules import REQUIRED_OF_ORGANISATIONS
from demur.errors import Problem, RegistryError

Acme = Callable[..., RegistryDocument]
CORE = read_document(CORE_PATH)
KYC = "acme.com/KYC_EXPIRED"


def problems_of(
    *organisations: RegistryDocument, core: RegistryDocument = CORE
) -> tuple[Problem, ...]:
    with pytest.raises(RegistryError) as caught:
        Registry(core, organisations)
    return caught.value.problems


def problem_of(
    *organisations: RegistryDocument, core: RegistryDocument = CORE
) -> tuple[str, str | None]:
    """Return the one problem there is and what helps, after a look at its place."""
    [problem] = problems_of(*organisations, core=core)
    assert (problem.where or "").startswith(("acme.json", "core.json"))
    return problem.problem, problem.help


def core_of(*rows: dict[str, Any], base: str = "POLICY_VIOLATION") -> RegistryDocument:
    """Return a core of made-up entries; each says only how it differs from `base`."""
    full = {**Registry(CORE)[base].as_json(), "aliases": []}
    file = {
        "schema_version": "reason_codes.v1",
        "version": "1.0.0",
        "codes": [{**full, **row} for row in rows],
    }
    return read_document("core.json", json.dumps(file, indent=1))


def test_an_organisation_s_code_needs_only_a_few_fields(acme: Acme) -> None:
    registry = Registry(CORE, [acme({"code": KYC})])

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


def test_a_file_without_a_domain_is_told_to_add_one(acme: Acme) -> None:
    [problem] = problems_of(acme({"code": KYC}, domain=None))

    assert problem.where == "acme.json: domain"
    assert problem.problem == "an organisation's registry needs a domain"
    assert "example.com" in (problem.help or "")


def test_a_domain_that_nobody_can_own_is_refused(acme: Acme) -> None:
    assert problem_of(acme(domain="Acme")) == ("`Acme` is not a domain", "like `example.com`")


def test_a_file_may_need_a_newer_core_but_not_get_it(acme: Acme) -> None:
    problem = problem_of(acme(min_core="1.10.0"))

    assert problem == (f"needs core 1.10.0, but this is core {CORE.version}", "upgrade demur")


@pytest.mark.parametrize("version", ["0.99.9", "1.9.0", "1.10.0"])
def test_a_file_that_needs_this_core_or_an_older_one_is_taken(version: str, acme: Acme) -> None:
    core = CORE._replace(version="1.10.0")

    assert KYC in Registry(core, [acme({"code": KYC}, min_core=version)])


def test_a_code_without_domain_is_told_how_to_be_written(acme: Acme) -> None:
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


def test_a_code_that_stands_twice_is_refused_with_both_places(acme: Acme) -> None:
    document = acme({"code": KYC}, {"code": KYC, "evidence": {"limit": "how many"}})
    first, second = document.rows

    assert first.where != second.where
    assert problems_of(document) == (
        Problem(second.where, f"`{KYC}` stands twice: also at {first.where}"),
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

    assert Registry(CORE)["PERMISSION_DENIED"].grants
    assert Registry(CORE, [acme(row)])[KYC].grants == ()


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
    assert "no grant lifts a code that was not decided" in found


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

    assert Registry(CORE, [document])[KYC].replacement == "PERMISSION_DENIED"


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


def test_a_core_code_stands_without_a_domain() -> None:
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
    registry = Registry(CORE, [acme({"code": KYC, "aliases": [phrase]})])

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


def test_a_phrase_stays_with_whoever_had_it_first(acme: Acme) -> None:
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
