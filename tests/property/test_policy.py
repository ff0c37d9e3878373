"""The compiler says what the reference evaluator says, over generated policies and requests."""

import json
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support import reference_evaluator as reference
from support.property_runs import examples

from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface
from demur.errors import PolicyError
from demur.model.finding import Action, Finding
from demur.policy.evaluation import CompiledPolicy
from demur.policy.loader import parse_policy
from demur.policy.policy import Operator, Policy

CORE = Registry.load()
REFUSING = ["RCE_RISK", "SCOPE_MISSING", "DESTRUCTIVE_ACTION", "GUARDRAIL_UNAVAILABLE"]
TEXTS = ["refund", "purchase", "login", "vip", "x"]
NUMBERS = [0, 1, 2.5, 100, -3]
FIELDS = [
    "action_type",
    "amount_usd",
    "evidence.risk",
    "evidence.status",
    "evidence.tags",
    "evidence.deep.er",
    "subject.id",
    "request_id",
    "signals.fraud",
    "signals.guards.pii.score",
]
OPERATORS = [str(operator) for operator in Operator]
SCALARS = st.sampled_from([*TEXTS, *NUMBERS, True, False])


@st.composite
def comparisons(draw: st.DrawFn) -> dict[str, Any]:
    operator = draw(st.sampled_from(OPERATORS))
    if operator in {"exists", "missing"}:
        return {operator: True}
    if operator in {"gt", "gte", "lt", "lte"}:
        return {operator: draw(st.sampled_from(NUMBERS))}
    if operator in {"in", "not_in"}:
        values: list[Any] = draw(st.sampled_from([list[Any](TEXTS), list[Any](NUMBERS)]))
        return {operator: draw(st.lists(st.sampled_from(values), min_size=1, unique=True))}
    if operator in {"starts_with", "matches"}:
        return {operator: draw(st.sampled_from(["r", "re", "^p", "x", "fund$"]))}
    return {operator: draw(SCALARS)}


LEAVES = st.dictionaries(st.sampled_from(FIELDS), comparisons() | SCALARS, min_size=1, max_size=3)
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: (
        st.fixed_dictionaries({"all": st.lists(inner, min_size=1, max_size=2)})
        | st.fixed_dictionaries({"any": st.lists(inner, min_size=1, max_size=3)})
        | st.fixed_dictionaries({"not": inner})
    ),
    max_leaves=4,
)
FINDING_CONDITIONS = st.sampled_from(
    [
        {"findings.codes": {"contains": "RCE_RISK"}},
        {"findings.surfaces": {"contains": "input"}},
        {"findings.count": {"gte": 2}},
    ]
)
STAGES = {"HARD_BLOCKS": "DENY", "ESCALATIONS": "ESCALATE", "ALLOW_PATHS": "ALLOW"}


@st.composite
def rules(draw: st.DrawFn) -> dict[str, Any]:
    stage = draw(st.sampled_from([*STAGES, "REQUIREMENTS"]))
    verdict = STAGES.get(stage) or draw(st.sampled_from(["DENY", "ABSTAIN", "ESCALATE"]))
    condition = draw(CONDITIONS)
    if verdict != "ALLOW" and draw(st.booleans()):
        condition = {"all": [condition, draw(FINDING_CONDITIONS)]}
    if draw(st.booleans()):
        condition = {"all": [{"action_type": draw(st.sampled_from(TEXTS))}, condition]}
    codes = [] if verdict == "ALLOW" else [draw(st.sampled_from(REFUSING))]
    several = draw(st.sampled_from([{}, {"approvals": 1}, {"approvals": 2}, {"approvals": 3}]))
    return {
        "stage": stage,
        "shadow": draw(st.sampled_from([False, False, True])),
        "if": condition,
        "then": {
            "verdict": verdict,
            "reason_codes": codes,
            **(several if codes == ["SCOPE_MISSING"] else {}),
        },
    }


@st.composite
def policies(draw: st.DrawFn, adjust: Callable[[Any], Any] = lambda condition: condition) -> Policy:
    written = [{**rule, "if": adjust(rule["if"])} for rule in draw(st.lists(rules(), max_size=6))]
    raw = {
        "schema_version": "policy.v1",
        "policy_id": "generated",
        "policy_version": "1",
        "rates": {"EUR": 2},
        "shadow": draw(
            st.sampled_from([[], [{"code": "SCOPE_MISSING", "reason": "asked elsewhere"}]])
        ),
        "rules": [{"id": f"R{number}", **rule} for number, rule in enumerate(written)],
        "defaults": {"verdict": "ALLOW"} if adjust is without_presence else {},
    }
    try:
        return parse_policy(json.dumps(raw), registry=CORE)
    except PolicyError as error:
        # The generator knows nothing of contradictions; everything else it writes is sound.
        assume("can satisfy" not in str(error) and "being missing" not in str(error))
        raise


ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, float("nan"), float("inf"), [], ["vip", 1], [{}], {"er": 1}, "12", 10**400]
)
VALUES = SCALARS | ODD
REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        "request_id": VALUES,
        "findings": st.just({"codes": ["RCE_RISK"], "count": 9}),
        "signals": st.just({"fraud": 0}),
        "subject": st.fixed_dictionaries({}, optional={"id": VALUES}) | st.sampled_from([None, 5]),
        "action": st.fixed_dictionaries(
            {},
            optional={
                "type": st.sampled_from(TEXTS) | VALUES,
                "amount": st.fixed_dictionaries(
                    {},
                    optional={
                        "value": VALUES,
                        "currency": st.sampled_from(["USD", "EUR", "XXX", 7]),
                    },
                )
                | st.sampled_from([None, 5]),
            },
        ),
        "evidence": st.fixed_dictionaries(
            {},
            optional={
                "risk": VALUES,
                "status": VALUES,
                "tags": st.lists(SCALARS, max_size=2) | VALUES,
                "deep": st.fixed_dictionaries({}, optional={"er": VALUES}) | VALUES,
            },
        ),
    },
)
SIGNALS = st.fixed_dictionaries(
    {},
    optional={
        "fraud": VALUES,
        "guards": st.fixed_dictionaries(
            {}, optional={"pii": st.fixed_dictionaries({}, optional={"score": VALUES})}
        ),
    },
)
FINDINGS = st.lists(
    st.builds(
        Finding,
        code=st.sampled_from([*REFUSING, "SUCCESS_MEMORY_SIMILAR_ALLOW"]),
        surface=st.sampled_from(Surface),
        action=st.sampled_from(Action),
    ),
    max_size=3,
)


@settings(max_examples=examples(500))
@given(policies(), REQUESTS, FINDINGS, SIGNALS)
def test_the_compiler_says_what_the_reference_says(
    policy: Policy, request: dict[str, Any], findings: list[Finding], signals: dict[str, Any]
) -> None:
    check_compiled(policy, request, findings, signals)


@pytest.mark.slow
@settings(max_examples=examples(10_000))
@given(policies(), REQUESTS, FINDINGS, SIGNALS)
def test_the_compiled_policy_agrees_with_the_reference_on_every_evaluation(
    policy: Policy, request: dict[str, Any], findings: list[Finding], signals: dict[str, Any]
) -> None:
    check_compiled(policy, request, findings, signals)


def check_compiled(
    policy: Policy, request: dict[str, Any], findings: list[Finding], signals: dict[str, Any]
) -> None:
    compiled = CompiledPolicy(policy, registry=CORE)
    want = reference.evaluate(policy, request, findings, CORE, signals)
    for _ in range(2):  # the second answer may come from memory
        got = compiled.evaluate(request, findings, signals)

        assert got.verdict == want["verdict"]
        assert list(got.reason_codes) == want["reason_codes"]
        assert list(got.matched_rules) == want["matched_rules"]
        assert list(got.shadow_rules) == want["shadow_rules"]
        assert [(fact.rule_id, fact.path) for fact in got.invalid] == want["invalid"]
        assert list(got.missing) == want["missing"]
        assert got.approvals == want["approvals"]
        assert got.defaulted == want["defaulted"]
        assert sorted(got.missing_signals) == sorted(want["missing_signals"])


def without_presence(condition: Any) -> Any:
    """Return a written condition without tests whether a signal is there."""
    if isinstance(condition, list):
        return [without_presence(part) for part in condition]
    if not isinstance(condition, dict):
        return condition
    return {
        key: {"lt": 1}
        if key.startswith("signals.") and isinstance(part, dict) and {"exists", "missing"} & {*part}
        else without_presence(part)
        for key, part in condition.items()
    }


@settings(max_examples=examples(500))
@given(policies(adjust=without_presence), REQUESTS, SIGNALS, SIGNALS)
def test_no_allow_rests_on_a_missing_signal(
    policy: Policy, request: dict[str, Any], signals: dict[str, Any], supplied: dict[str, Any]
) -> None:
    """INVARIANT: no ALLOW rests on a missing signal."""
    compiled = CompiledPolicy(policy, registry=CORE)
    before = compiled.evaluate(request, (), signals)
    assume(before.verdict == "ALLOW")

    after = compiled.evaluate(request, (), {**supplied, **signals})

    # Whatever the missing signals are, nothing refuses; a signal of another type is not judged.
    assert after.verdict == "ALLOW" or after.reason_codes == ("EVIDENCE_INVALID",)


@given(policies(), REQUESTS, FINDINGS, FINDINGS)
def test_adding_a_finding_never_relaxes_a_decision(
    policy: Policy, request: dict[str, Any], some: list[Finding], more: list[Finding]
) -> None:
    """INVARIANT: adding a finding never relaxes a decision."""
    compiled = CompiledPolicy(policy, registry=CORE)
    before = compiled.evaluate(request, some)
    after = compiled.evaluate(request, [*some, *more])

    assert reference.ORDER.index(after.verdict) >= reference.ORDER.index(before.verdict)
    assert set(before.reason_codes) <= set(after.reason_codes)
    # INVARIANT: a further rule or finding never needs fewer people.
    assert after.approvals >= before.approvals


NUMBER_FIELDS, TEXT_FIELDS = ["evidence.n1", "evidence.n2"], ["evidence.t1", "evidence.t2"]
PRESENCE: list[dict[str, Any]] = [{"missing": True}, {"exists": True}]
TESTS: dict[str, list[dict[str, Any]]] = {
    **{field: [*PRESENCE, {"gt": 1}, {"lte": 1}] for field in NUMBER_FIELDS},
    **{field: [*PRESENCE, {"eq": "x"}, {"ne": "x"}] for field in TEXT_FIELDS},
}
TYPED_LEAVES: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{field: test} for field, tests in TESTS.items() for test in tests]
)
TYPED_CONDITIONS = st.recursive(
    TYPED_LEAVES,
    lambda inner: st.one_of(
        st.fixed_dictionaries({"all": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"any": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"not": inner}),
    ),
    max_leaves=6,
)
EVIDENCE = st.fixed_dictionaries(
    {}, optional={"n1": st.integers(0, 2), "n2": st.just(2), "t1": st.just("x"), "t2": st.just("y")}
)


def names_fields_once(condition: dict[str, Any]) -> bool:
    """Return whether each field occurs once in a written condition."""
    text = json.dumps(condition)
    return all(text.count(f'"{field}"') <= 1 for field in TESTS)


@settings(max_examples=examples(500))
@given(
    st.lists(
        st.tuples(
            TYPED_CONDITIONS, st.sampled_from([[], ["evidence.n1", "approval"], ["evidence.t2"]])
        ),
        min_size=1,
        max_size=3,
    ),
    EVIDENCE,
)
def test_missing_names_absent_fields_and_supplying_them_changes_the_decision(
    written: list[tuple[dict[str, Any], list[str]]], evidence: dict[str, Any]
) -> None:
    """INVARIANT: `missing` never names a field that is there and can be used."""
    listed = [
        {
            "id": f"R{number}",
            "stage": "ESCALATIONS",
            "if": condition,
            "then": {"verdict": "ESCALATE", "reason_codes": ["SCOPE_MISSING"], "missing": missing},
        }
        for number, (condition, missing) in enumerate(written)
    ]
    head = {"schema_version": "policy.v1", "policy_id": "p", "policy_version": "1"}
    try:
        policy = parse_policy(json.dumps({**head, "rules": listed}), registry=CORE)
    except PolicyError as error:
        assume("can satisfy" not in str(error))
        raise
    compiled = CompiledPolicy(policy, registry=CORE)
    before = compiled.evaluate({"action": {"type": "x"}, "evidence": evidence})
    fields = [name for name in before.missing if name.startswith("evidence.")]

    assert not {name.removeprefix("evidence.") for name in fields} & evidence.keys()
    if fields:
        values: dict[str, list[Any]] = {"n": [0, 2], "t": ["x", "y"]}
        names = [name.removeprefix("evidence.") for name in fields]
        supplied = [
            {**evidence, **dict(zip(names, chosen, strict=True))}
            for chosen in product(*(values[name[0]] for name in names))
        ]
        after = [compiled.evaluate({"action": {"type": "x"}, "evidence": one}) for one in supplied]
        assert all(set(fields).isdisjoint(one.missing) for one in after)
        # A rule that tests a field twice may hold whatever its value is.
        if all(not missing and names_fields_once(condition) for condition, missing in written):
            assert all(one.matched_rules != before.matched_rules for one in after)


@given(policies(), REQUESTS, FINDINGS)
def test_a_field_that_is_missing_is_absent_or_unusable(
    policy: Policy, request: dict[str, Any], findings: list[Finding]
) -> None:
    """INVARIANT: `missing` never names a field that is there and can be used."""
    got = CompiledPolicy(policy, registry=CORE).evaluate(request, findings)
    facts = {**request, "signals": {}}

    for name in got.missing:
        fact = reference.dollars(facts, policy) if name == "amount_usd" else None
        fact = reference.look(facts, name) if fact is None else fact
        unusable = {fact.field: fact for fact in got.invalid}
        assert fact is reference.ABSENT or name in unusable
        assert name not in unusable or unusable[name].why
