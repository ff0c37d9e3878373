"""Each way in which a policy can be wrong, with its exact place, problem and help."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from demur.codes.registry import Registry
from demur.codes.vocabulary import Obligation, Verdict
from demur.errors import PolicyError
from demur.policy.loader import load_policy, parse_policy
from demur.policy.policy import (
    All,
    Compare,
    Mode,
    Operator,
    Policy,
    RuleOutcome,
    ShadowedCode,
    Stage,
)
from demur.source import reading

HEAD = "schema_version: policy.v1\npolicy_id: p\npolicy_version: '1'\n"
CORE = Registry.load()
ESCALATE = "{verdict: ESCALATE, reason_codes: [SCOPE_MISSING]}"
LIST = f"`demur codes list` shows all {len(list(CORE))}"


def load(text: str) -> Policy:
    return parse_policy(text, "p.yaml", registry=CORE)


def problems(text: str) -> list[str]:
    with pytest.raises(PolicyError) as caught:
        load(text)
    assert all("\n" not in f"{p.where}{p.problem}{p.help}" for p in caught.value.problems)
    return [str(problem) for problem in caught.value.problems]


def rule(
    condition: str = "{}", then: str = ESCALATE, stage: str = "ESCALATIONS", more: str = ""
) -> str:
    """Return a policy of one rule at 5:5, whose `if` opens at 7:9 and whose `then` at 8:11."""
    body = f"    stage: {stage}\n    if: {condition}\n    then: {then}\n"
    return f"{HEAD}rules:\n  - id: R\n{body}{more}"


def test_a_whole_policy_is_read() -> None:
    policy = load(
        f"""{HEAD}description: what it is for
mode: advisory
defaults: {{verdict: DENY, reason_code: SCOPE_MISSING}}
rates: {{EUR: 1.1, JPY: 1}}
shadow: [{{code: PII_DETECTED, reason: seen elsewhere}}]
rules:
  - id: A
    stage: ALLOW_PATHS
    description: a small one
    if: {{amount_usd: {{lt: 5}}, action_type: refund}}
    then: {{verdict: ALLOW}}
  - id: H
    stage: HARD_BLOCKS
    shadow: true
    if: {{}}
    then:
      verdict: DENY
      reason_codes: [RCE_RISK, SCOPE_MISSING]
      constraints: [dry run]
      missing: [a scope]
      obligations: [human_review]
"""
    )

    assert policy.mode is Mode.ADVISORY
    assert policy.default == RuleOutcome(Verdict.DENY, ("SCOPE_MISSING",))
    assert policy.rates == {"EUR": 1.1, "JPY": 1}
    assert policy.shadows == (ShadowedCode("PII_DETECTED", "seen elsewhere"),)
    assert [(r.id, r.stage, r.shadow, r.where) for r in policy.rules] == [
        ("H", Stage.HARD_BLOCKS, True, "p.yaml:15:5"),
        ("A", Stage.ALLOW_PATHS, False, "p.yaml:10:5"),
    ]
    assert policy.rules[0].condition == All(())
    assert policy.rules[0].then == RuleOutcome(
        Verdict.DENY,
        ("RCE_RISK", "SCOPE_MISSING"),
        ("dry run",),
        ("a scope",),
        (Obligation.HUMAN_REVIEW,),
    )
    assert policy.rules[1].condition == All(
        (Compare("amount_usd", Operator.LT, 5), Compare("action.type", Operator.EQ, "refund"))
    )


def _escalating(then: str) -> str:
    rule = f"{{id: E, stage: ESCALATIONS, if: {{}}, then: {{verdict: ESCALATE, {then}}}}}"
    return f"{HEAD}rules:\n  - {rule}\n"


def test_a_rule_may_need_several_people() -> None:
    policy = load(_escalating("reason_codes: [APPROVAL_REQUIRED], approvals: 2"))

    assert policy.rules[0].then.approvals == 2
    assert load(_escalating("reason_codes: [APPROVAL_REQUIRED]")).rules[0].then.approvals == 1


@pytest.mark.parametrize("number", ["0", "6", "1.5", "true", "two", "[2]"])
def test_the_number_of_people_is_from_one_to_five(number: str) -> None:
    with pytest.raises(PolicyError) as caught:
        load(_escalating(f"reason_codes: [APPROVAL_REQUIRED], approvals: {number}"))

    assert "`approvals` is a whole number from 1 to 5" in str(caught.value)
    assert f"p.yaml:{HEAD.count(chr(10)) + 2}:" in str(caught.value)


def test_people_cannot_approve_what_no_grant_lifts() -> None:
    with pytest.raises(PolicyError, match="no grant lifts the codes of this rule"):
        load(_escalating("reason_codes: [DESTRUCTIVE_ACTION], approvals: 2"))


def test_the_defaults_enforce_and_escalate() -> None:
    policy = parse_policy(f"{HEAD}rules: []")

    assert policy.mode is Mode.ENFORCE
    assert policy.default == RuleOutcome(Verdict.ESCALATE, ("NO_MATCH_DEFAULT_ESCALATE",))
    assert policy.where == "policy"


def test_a_default_that_escalates_needs_no_code() -> None:
    assert load(f"{HEAD}rules: []\ndefaults: {{}}").default == load(f"{HEAD}rules: []").default


@pytest.mark.parametrize("pin", ["1", "1.2", "1.2.0"])
def test_a_policy_may_pin_the_registry(pin: str) -> None:
    pinned = load(f"{HEAD}registry: '{pin}'\nrules: []\n")

    assert pinned.digest != load(f"{HEAD}rules: []\n").digest


@pytest.mark.parametrize(
    ("pin", "problem"),
    [
        ("'1.1'", "the core registry has version 1.2.0, not 1.1"),
        ("'2'", "the core registry has version 1.2.0, not 2"),
        ("'1.2.1'", "the core registry has version 1.2.0, not 1.2.1"),
        ("'1.2+acme.com@2'", "the registry of `acme.com` is pinned but not loaded"),
        ("latest", "`latest` is not a version of the registry"),
        ("'1.2.0.0'", "`1.2.0.0` is not a version of the registry"),
        ("'01.2'", "`01.2` is not a version of the registry"),
        ("acme.com@1", "`acme.com@1` is not a version of the registry"),
        ("1.2", "`registry` must be a text"),
        ("''", "`registry` must be a text"),
    ],
)
def test_a_policy_for_another_registry_is_refused(pin: str, problem: str) -> None:
    [told] = problems(f"{HEAD}registry: {pin}\nrules: []\n")

    assert problem in told
    assert told.startswith("p.yaml:4:11: ")
    assert "help: " in told


def test_rules_stand_in_the_order_of_stages_then_as_written() -> None:
    rows = [("a", "ALLOW_PATHS"), ("b", "ESCALATIONS"), ("c", "REQUIREMENTS"), ("d", "ESCALATIONS")]
    then = {"ALLOW_PATHS": {"verdict": "ALLOW"}}
    refuse = {"verdict": "ESCALATE", "reason_codes": ["SCOPE_MISSING"]}
    rules = [{"id": i, "stage": s, "if": {}, "then": then.get(s, refuse)} for i, s in rows]
    policy = load(HEAD + json.dumps({"rules": rules})[1:-1])

    assert [r.id for r in policy.rules] == ["c", "b", "d", "a"]


@pytest.mark.parametrize(
    ("condition", "verdict", "missing"),
    [
        ("{evidence.a: {missing: true}}", "ESCALATE", ("evidence.a",)),
        ("{any: [{evidence.a: {missing: true}}, {subject.id: {missing: true}}]}", "ESCALATE", None),
        ("{not: {evidence.a: {exists: true}}}", "ESCALATE", ("evidence.a",)),
        ("{not: {not: {evidence.a: {missing: true}}}}", "ESCALATE", ("evidence.a",)),
        ("{not: {evidence.a: {missing: true}}}", "ESCALATE", ()),
        ("{evidence.a: {exists: true}}", "ESCALATE", ()),
        ("{evidence.a: {missing: true}}", "ALLOW", ()),
    ],
)
def test_a_rule_that_asks_whether_something_is_missing_names_it(
    condition: str, verdict: str, missing: tuple[str, ...] | None
) -> None:
    then = ESCALATE if verdict == "ESCALATE" else "{verdict: ALLOW}"
    stage = "ESCALATIONS" if verdict == "ESCALATE" else "ALLOW_PATHS"
    [one] = load(rule(condition, then, stage)).rules

    assert one.then.missing == (("evidence.a", "subject.id") if missing is None else missing)


# --- the file -------------------------------------------------------------------------------


def test_a_missing_file_a_folder_and_bytes_say_so(tmp_path: Path) -> None:
    binary = tmp_path / "b.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    for path, reason in [
        (tmp_path / "none.yaml", "no such file or directory"),
        (tmp_path, "is a directory"),
        (binary, "not UTF-8 text"),
    ]:
        with pytest.raises(PolicyError) as caught:
            load_policy(path)
        assert str(caught.value) == f"{path}: cannot read the policy: {reason}"


def test_a_file_is_read_and_named_in_errors(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(rule(), encoding="utf-8")
    bad.write_text("[]", encoding="utf-8")

    assert load_policy(str(good), registry=CORE).where == str(good)
    with pytest.raises(PolicyError) as caught:
        load_policy(bad)
    assert caught.value.where == f"{bad}:1:1"


def test_a_policy_must_be_a_mapping() -> None:
    assert problems("[]")[0] == "p.yaml:1:1: a policy is a mapping"


def test_a_problem_of_the_source_is_a_problem_of_the_policy() -> None:
    assert problems("") == ["p.yaml: the file is empty"]
    assert problems(f"{HEAD}policy_id: q\nmode: no\n") == [
        "p.yaml:4:1: the key `policy_id` appears twice\n  help: first at p.yaml:2:1",
        'p.yaml:5:7: `no` is read as false\n  help: write "no" or false',
    ]


def test_a_text_without_canonical_form_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pure reader of YAML, which stands in where the fast one is missing, takes surrogates."""
    monkeypatch.setattr(reading, "YAML_LOADER", yaml.SafeLoader)
    [problem] = problems(rule('{evidence.a: "\\ud800"}'))

    assert problem.startswith("p.yaml:1:1: this value has no canonical JSON form")


# --- top level ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (
            f"{HEAD}rules: []\nrulez: []",
            ["p.yaml:5:1: unknown key `rulez`\n  help: did you mean `rules`?"],
        ),
        (
            f"{HEAD}rules: []\nzzz: []",
            [
                (
                    "p.yaml:5:1: unknown key `zzz`\n  help: a policy has schema_version, "
                    "policy_id, policy_version, description, registry, mode, defaults, rates, "
                    "shadow, rules"
                )
            ],
        ),
        (
            "rules: []",
            [
                "p.yaml:1:1: `schema_version` is missing",
                "p.yaml:1:1: `policy_id` is missing",
                "p.yaml:1:1: `policy_version` is missing",
            ],
        ),
        (HEAD, ["p.yaml:1:1: `rules` is missing"]),
        (f"{HEAD}rules:", ["p.yaml:4:7: `rules` is a list"]),
        (f"{HEAD}rules: {{}}", ["p.yaml:4:8: `rules` is a list"]),
        (f"{HEAD}rules: [x]\n", None),
        (
            "schema_version: policy.v2\npolicy_id: p\npolicy_version: a\nrules: []",
            ["p.yaml:1:17: unknown schema version `policy.v2`\n  help: this is policy.v1"],
        ),
        (
            "schema_version:\npolicy_id: 5\npolicy_version: 1.0\nrules: []",
            [
                "p.yaml:1:16: `schema_version` must be a text\n  help: quote it",
                "p.yaml:2:12: `policy_id` must be a text\n  help: quote it",
                "p.yaml:3:17: `policy_version` must be a text\n  help: quote it",
            ],
        ),
        (
            f"{HEAD}rules: []\ndescription: 5",
            ["p.yaml:5:14: `description` must be a text\n  help: quote it"],
        ),
        (
            f"{HEAD}rules: []\nmode: advisry",
            ["p.yaml:5:7: unknown mode `advisry`\n  help: did you mean `advisory`?"],
        ),
        (
            f"{HEAD}rules: []\nmode: [{{a: 1}}]",
            ["p.yaml:5:7: unknown mode `[{'a': 1}]`\n  help: one of enforce, advisory"],
        ),
    ],
)
def test_the_top_level_is_checked(text: str, want: list[str] | None) -> None:
    found = problems(text)

    assert found == want if want is not None else "a rule is a mapping" in found[0]


@pytest.mark.parametrize(
    ("defaults", "want"),
    [
        ("5", "p.yaml:5:11: `defaults` is a mapping"),
        (
            "{code: X}",
            "p.yaml:5:12: unknown key `code`\n  help: `defaults` has verdict, reason_code",
        ),
        ("{verdict: ALOW}", "p.yaml:5:21: unknown verdict `ALOW`\n  help: did you mean `ALLOW`?"),
        ("{verdict: DENY}", "p.yaml:5:11: DENY needs a reason code that refuses"),
        ("{verdict: ABSTAIN}", "p.yaml:5:11: ABSTAIN needs a reason code that refuses"),
        (
            "{reason_code: SUCCESS_MEMORY_SIMILAR_ALLOW}",
            "p.yaml:5:11: ESCALATE needs a reason code that refuses",
        ),
        (
            "{verdict: ALLOW, reason_code: NO_MATCH_DEFAULT_ESCALATE}",
            "p.yaml:5:11: ALLOW cannot carry a code of class WORKFLOW_BLOCK",
        ),
        (
            "{verdict: ALLOW, reason_code: RCE_RISK}",
            "p.yaml:5:11: ALLOW cannot carry a code of class HARD_BLOCK",
        ),
        (
            "{verdict: ALLOW, reason_code: PII_DETECTED}",
            (
                "p.yaml:5:11: ALLOW with a SOFT_BLOCK code needs constraints\n"
                "  help: name the `constraints` that make it safe"
            ),
        ),
        (
            "{reason_code: RCE_RIKS}",
            f"p.yaml:5:25: unknown reason code `RCE_RIKS`\n  help: did you mean `RCE_RISK`? {LIST}",
        ),
        ("{reason_code: [A]}", "p.yaml:5:25: `reason_code` must be a text\n  help: quote it"),
    ],
)
def test_the_default_is_checked(defaults: str, want: str) -> None:
    assert problems(f"{HEAD}rules: []\ndefaults: {defaults}") == [want]


def test_a_default_may_allow() -> None:
    assert load(f"{HEAD}rules: []\ndefaults: {{verdict: ALLOW}}").default == RuleOutcome(
        Verdict.ALLOW, ()
    )


@pytest.mark.parametrize(
    ("rates", "want"),
    [
        ("[EUR]", "8: `rates` is a mapping"),
        ("{EUR: 0}", "14: the rate of `EUR` must be a positive number"),
        ("{EUR: -1.5}", "14: the rate of `EUR` must be a positive number"),
        ("{EUR: true}", "14: the rate of `EUR` must be a positive number"),
        ("{EUR: '1.1'}", "14: the rate of `EUR` must be a positive number"),
        ("{EUR: }", "14: the rate of `EUR` must be a positive number"),
        ("{USD: 1}", "9: `USD` is no currency to convert\n  help: like EUR"),
        ("{eur: 1}", "9: `eur` is no currency to convert\n  help: like EUR"),
        ("{EURO: 1}", "9: `EURO` is no currency to convert\n  help: like EUR"),
        ("{A1B: 1}", "9: `A1B` is no currency to convert\n  help: like EUR"),
        ("{ÄÖÜ: 1}", "9: `ÄÖÜ` is no currency to convert\n  help: like EUR"),
        (
            "{EUR: .inf}",
            "14: `.inf` is no plain number\n  help: write it in decimal, or quote it",
        ),
        (
            "{EUR: 1.0e+999}",
            "14: `1.0e+999` is too large a number\n  help: quote it if it is a text",
        ),
    ],
)
def test_rates_are_positive_numbers_of_other_currencies(rates: str, want: str) -> None:
    assert problems(f"{HEAD}rules: []\nrates: {rates}") == [f"p.yaml:5:{want}"]


@pytest.mark.parametrize(
    ("shadow", "want"),
    [
        ("{}", ["9: `shadow` is a list"]),
        ("[5]", None),
        (
            "[{code: PII_DETECTED}]",
            ["10: `reason` is missing"],
        ),
        ("[{reason: x}]", ["10: `code` is missing"]),
        ("[{code: PII_DETECTED, reason: ''}]", ["39: `reason` must be a text\n  help: quote it"]),
        (
            "[{code: PII_DETECTED, reason: x, until: y}]",
            ["42: unknown key `until`\n  help: a shadow has code, reason"],
        ),
        ("[{code: ZZZ, reason: x}]", [f"17: unknown reason code `ZZZ`\n  help: {LIST}"]),
        (
            "[{code: RCE_RISK, reason: x}]",
            ["10: `RCE_RISK` is a HARD_BLOCK, which nothing lifts"],
        ),
        (
            "[{code: GUARDRAIL_UNAVAILABLE, reason: x}]",
            ["10: `GUARDRAIL_UNAVAILABLE` means that nothing was judged, which cannot be shadowed"],
        ),
        (
            "[{code: CRISIS_ESCALATION, reason: x}]",
            ["10: `CRISIS_ESCALATION` always obliges to human_review and crisis_resources"],
        ),
    ],
)
def test_a_shadow_names_a_code_that_may_be_lifted_and_says_why(
    shadow: str, want: list[str] | None
) -> None:
    found = problems(f"{HEAD}rules: []\nshadow: {shadow}")

    if want is None:
        assert found[0] == "p.yaml:5:10: a shadow is a mapping"
    else:
        assert found == [f"p.yaml:5:{problem}" for problem in want]


# --- rules ----------------------------------------------------------------------------------


def test_missing_keys_of_a_rule_are_named() -> None:
    assert problems(f"{HEAD}rules:\n  - {{}}") == [
        (
            "p.yaml:5:5: `stage` is missing\n"
            "  help: one of REQUIREMENTS, HARD_BLOCKS, ESCALATIONS, ALLOW_PATHS"
        ),
        "p.yaml:5:5: `if` is missing\n  help: write `if: {}` for a rule that always applies",
        "p.yaml:5:5: `then` is missing",
        "p.yaml:5:5: `id` is missing",
    ]


def test_unknown_keys_stages_and_verdicts_get_a_suggestion_and_nothing_follows_from_them() -> None:
    text = rule(
        then="{verdikt: DENY, verdict: DENNY, reason_codes: [RCE_RISK]}", stage="HARDBLOCKS"
    )

    assert problems(text.replace("    if:", "    when:")) == [
        "p.yaml:7:5: unknown key `when`\n  help: did you mean `then`?",
        "p.yaml:6:12: unknown stage `HARDBLOCKS`\n  help: did you mean `HARD_BLOCKS`?",
        "p.yaml:5:5: `if` is missing\n  help: write `if: {}` for a rule that always applies",
        "p.yaml:8:12: unknown key `verdikt`\n  help: did you mean `verdict`?",
        "p.yaml:8:36: unknown verdict `DENNY`\n  help: did you mean `DENY`?",
    ]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (rule(then="[]"), "8:11: `then` is a mapping"),
        (
            rule(then="{reason_codes: [RCE_RISK]}"),
            "8:11: `verdict` is missing\n  help: one of ALLOW, ESCALATE, ABSTAIN, DENY",
        ),
        (
            rule(then="{verdict: ESCALATE}"),
            "8:11: ESCALATE needs a reason code that refuses",
        ),
        (
            rule(then="{verdict: ESCALATE, reason_codes: []}"),
            "8:11: ESCALATE needs a reason code that refuses",
        ),
        (
            rule(then="{verdict: DENY, reason_codes: [SUCCESS_MEMORY_SIMILAR_ALLOW]}").replace(
                "ESCALATIONS", "HARD_BLOCKS"
            ),
            "8:11: DENY needs a reason code that refuses",
        ),
        (
            rule(then="{verdict: ESCALATE, reason_codes: SCOPE_MISSING}"),
            "8:45: `reason_codes` is a list",
        ),
        (
            rule(then="{verdict: ESCALATE, reason_codes: [scope_missing]}"),
            (
                "8:46: unknown reason code `scope_missing`\n"
                f"  help: did you mean `SCOPE_MISSING`? {LIST}"
            ),
        ),
        (
            rule(then="{verdict: ESCALATE, reason_codes: [' ']}"),
            "8:46: `reason_codes` holds texts\n  help: quote it",
        ),
        (
            rule(then="{verdict: ESCALATE, reason_codes: [RCE_RISK, RCE_RISK]}"),
            "8:56: `RCE_RISK` appears twice in `reason_codes`",
        ),
        (
            rule(then=f"{ESCALATE[:-1]}, constraints: dry}}"),
            "8:75: `constraints` is a list",
        ),
        (
            rule(then=f"{ESCALATE[:-1]}, missing: [5]}}"),
            "8:72: `missing` holds texts\n  help: quote it",
        ),
        (
            rule(then=f"{ESCALATE[:-1]}, obligations: [human-review]}}"),
            "8:76: unknown obligation `human-review`\n  help: did you mean `human_review`?",
        ),
        (
            rule(then=f"{ESCALATE[:-1]}, obligations: no_list}}"),
            "8:75: `obligations` is a list",
        ),
        (rule(more="    shadow: 1"), "9:13: `shadow` must be true or false, not `1`"),
        (
            rule(more="    shadow: [{a: b}]"),
            "9:13: `shadow` must be true or false, not `[{'a': 'b'}]`",
        ),
        (rule(more="    description: []"), "9:18: `description` must be a text\n  help: quote it"),
        (rule().replace("id: R", "id: 5"), "5:9: `id` must be a text\n  help: quote it"),
    ],
)
def test_a_rule_is_checked_field_by_field(text: str, want: str) -> None:
    found = problems(text)

    assert found[0] == f"p.yaml:{want}"
    assert len(found) == (2 if "then` is a mapping" in want else 1)


@pytest.mark.parametrize(
    ("stage", "verdict", "allowed"),
    [
        ("REQUIREMENTS", "ALLOW", "DENY or ABSTAIN or ESCALATE"),
        ("HARD_BLOCKS", "ALLOW", "DENY"),
        ("HARD_BLOCKS", "ESCALATE", "DENY"),
        ("HARD_BLOCKS", "ABSTAIN", "DENY"),
        ("ESCALATIONS", "DENY", "ESCALATE"),
        ("ESCALATIONS", "ALLOW", "ESCALATE"),
        ("ALLOW_PATHS", "DENY", "ALLOW"),
        ("ALLOW_PATHS", "ESCALATE", "ALLOW"),
    ],
)
def test_a_stage_has_its_verdicts(stage: str, verdict: str, allowed: str) -> None:
    codes = "[]" if verdict == "ALLOW" else "[RCE_RISK]"

    assert problems(rule(then=f"{{verdict: {verdict}, reason_codes: {codes}}}", stage=stage)) == [
        f"p.yaml:5:5: a rule in {stage} cannot conclude {verdict}\n  help: {allowed}"
    ]


@pytest.mark.parametrize(
    ("codes", "want"),
    [
        ("[RCE_RISK]", ["8:11: ALLOW cannot carry a code of class HARD_BLOCK"]),
        ("[SCOPE_MISSING]", ["8:11: ALLOW cannot carry a code of class WORKFLOW_BLOCK"]),
        ("[GUARDRAIL_UNAVAILABLE]", ["8:11: ALLOW cannot carry a code of class WORKFLOW_BLOCK"]),
        (
            "[PII_DETECTED, RCE_RISK]",
            [
                "8:11: ALLOW cannot carry a code of class HARD_BLOCK",
                (
                    "8:11: ALLOW with a SOFT_BLOCK code needs constraints\n"
                    "  help: name the `constraints` that make it safe"
                ),
            ],
        ),
    ],
)
def test_an_allow_rule_carries_no_code_that_contradicts_it(codes: str, want: list[str]) -> None:
    found = problems(rule(then=f"{{verdict: ALLOW, reason_codes: {codes}}}", stage="ALLOW_PATHS"))

    assert found == [f"p.yaml:{problem}" for problem in want]


def test_an_allow_may_carry_a_soft_code_with_constraints_or_a_code_that_allows() -> None:
    for then in (
        "{verdict: ALLOW, reason_codes: [PII_DETECTED], constraints: [mask it]}",
        "{verdict: ALLOW, reason_codes: [SUCCESS_MEMORY_SIMILAR_ALLOW]}",
        "{verdict: ALLOW}",
    ):
        assert load(rule(then=then, stage="ALLOW_PATHS")).rules[0].then.verdict is Verdict.ALLOW


def test_a_rule_id_is_unique() -> None:
    text = rule(more=rule().partition("rules:\n")[2])

    assert problems(text) == ["p.yaml:9:5: rule `R` appears twice\n  help: also at p.yaml:5:5"]


def test_a_rule_that_allows_cannot_read_findings() -> None:
    condition = "{findings.count: {gt: 1}}"

    assert problems(rule(condition, "{verdict: ALLOW}", "ALLOW_PATHS")) == [
        (
            "p.yaml:5:5: a rule that allows cannot read findings\n"
            "  help: a finding may tighten a decision, never relax it"
        )
    ]


def test_problems_of_all_parts_are_reported_at_once() -> None:
    text = f"""{HEAD}mode: on-off
defaults: {{verdict: DENY}}
rates: {{USD: 1}}
shadow: [{{code: RCE_RISK, reason: x}}]
rules:
  - id: R
    stage: ALLOW_PATHS
    if: {{evidnce.a: 1, evidence.b: {{gr: 1}}, findings.count: {{gt: 1}}}}
    then: {{verdict: ALLOW, reason_codes: [NOPE_NOPE, RCE_RISK], more: 1}}
"""
    places = [problem.partition(": ")[0] for problem in problems(text)]

    assert places == [
        "p.yaml:11:10",
        "p.yaml:11:37",
        "p.yaml:12:65",
        "p.yaml:12:43",
        "p.yaml:12:11",
        "p.yaml:9:5",
        "p.yaml:7:10",
        "p.yaml:5:11",
        "p.yaml:4:7",
        "p.yaml:6:9",
    ]


# --- properties -----------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        *HEAD.splitlines(),
        *rule().splitlines(),
        *("    if: {evidence.a: {gt: x}}", "&a", "*a", "<<: *a", "\t", "- ", ": ", "{", "[", "]"),
        *("!!float nan", "017", "2026-11-15", "? [a]", "---", "...", "%YAML 1.1", "|", '"\\ud800"'),
    ]
)


@given(st.text() | st.lists(PIECES).map("\n".join) | st.lists(PIECES).map(" ".join))
def test_any_text_is_a_policy_or_a_policy_error(text: str) -> None:
    with suppress(PolicyError):
        assert load(text).policy_id


NAMES = st.sampled_from(
    [
        "if",
        "then",
        "id",
        "stage",
        "verdict",
        "reason_codes",
        "shadow",
        "rates",
        "EUR",
        "rules",
        "all",
        "any",
        "not",
        "evidence.a",
        "amount_usd",
        "action_type",
        "findings.codes",
        "count",
        *map(str, Operator),
        "code",
        "reason",
        "defaults",
        "reason_code",
        "missing",
        "obligations",
        "",
    ]
)
VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["ALLOW", "DENY", "RCE_RISK", "HARD_BLOCKS", "ALLOW_PATHS", "human_review"])
)
DATA = st.recursive(
    VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["rules", "rates", "shadow", "defaults", "mode"]), DATA))
def test_any_data_is_a_policy_or_a_policy_error(data: dict[str, Any]) -> None:
    head = {"schema_version": "policy.v1", "policy_id": "p", "policy_version": "1"}
    with suppress(PolicyError):
        assert load(yaml.safe_dump({**head, **data})).policy_id == "p"


@given(DATA, st.sampled_from(["if", "then", "shadow"]))
def test_any_part_of_a_rule_is_usable_or_a_policy_error(data: Any, part: str) -> None:
    then = {"verdict": "ESCALATE", "reason_codes": ["SCOPE_MISSING"]}
    sound = {"id": "R", "stage": "ESCALATIONS", "if": {}, "then": then}
    head = {"schema_version": "policy.v1", "policy_id": "p", "policy_version": "1"}
    with suppress(PolicyError):
        assert load(yaml.safe_dump({**head, "rules": [{**sound, part: data}]})).policy_id == "p"
