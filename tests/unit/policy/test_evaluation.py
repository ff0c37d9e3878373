"""What matched rules, unusable facts and findings amount to."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from itertools import product
from threading import Barrier
from time import sleep
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import reference_evaluator as reference

from demur.codes.registry import Registry
from demur.codes.vocabulary import Obligation, Surface, Verdict
from demur.errors import UnknownCodeError
from demur.model.finding import Action, Finding
from demur.model.record import InvalidField
from demur.policy import codegen
from demur.policy import evaluation as compiler
from demur.policy.evaluation import (
    CompiledPolicy,
    Evaluation,
    FoundCode,
    combine_outcomes,
    verdict_floor,
)
from demur.policy.loader import parse_policy
from demur.policy.policy import All, Mode, Policy, PolicyRule, RuleOutcome, ShadowedCode, Stage

CORE = Registry.load()
DEFAULT = RuleOutcome(Verdict.ESCALATE, ("NO_MATCH_DEFAULT_ESCALATE",))


def rule(name: str, verdict: Verdict, *codes: str, **more: Any) -> PolicyRule:
    flags = {key: more.pop(key, False) for key in ("shadow", "reads_findings")}
    return PolicyRule(
        id=name,
        stage=Stage.ESCALATIONS,
        condition=All(()),
        then=RuleOutcome(verdict, codes, **more),
        where="",
        **flags,
    )


def policy(default: RuleOutcome = DEFAULT, *shadows: str) -> Policy:
    marked = tuple(ShadowedCode(code, "why") for code in shadows)
    return Policy("p", "1", Mode.ENFORCE, default, {}, marked, (), "", "", "")


def seen(*codes: str) -> list[Finding]:
    return [Finding(code=code, surface=Surface.INPUT) for code in codes]


ALLOW = rule("a", Verdict.ALLOW)


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        ("RCE_RISK", Verdict.DENY),
        ("SCOPE_MISSING", Verdict.ESCALATE),
        ("PII_DETECTED", Verdict.ESCALATE),
        ("GUARDRAIL_UNAVAILABLE", Verdict.ABSTAIN),
        ("SUCCESS_MEMORY_SIMILAR_ALLOW", Verdict.ALLOW),
    ],
)
def test_a_finding_has_the_floor_of_its_code(code: str, verdict: Verdict) -> None:
    assert verdict_floor(CORE[code]) is verdict
    assert combine_outcomes(policy(), [ALLOW], [], seen(code), CORE).verdict is verdict


def test_nothing_that_matched_is_the_default() -> None:
    assert combine_outcomes(policy(), [], [], [], CORE) == Evaluation(
        Verdict.ESCALATE,
        ("NO_MATCH_DEFAULT_ESCALATE",),
        (),
        defaulted=True,
        fallback_codes=("NO_MATCH_DEFAULT_ESCALATE",),
    )


def test_an_ordinary_rule_displaces_the_default() -> None:
    assert combine_outcomes(policy(), [ALLOW], [], [], CORE) == Evaluation(
        Verdict.ALLOW, (), ("a",)
    )


def test_a_rule_that_reads_findings_never_displaces_the_default() -> None:
    reading = rule("f", Verdict.ESCALATE, "SCOPE_MISSING", reads_findings=True)
    alone = combine_outcomes(policy(), [reading], [], [], CORE)
    beside = combine_outcomes(policy(), [reading, ALLOW], [], [], CORE)

    assert alone.defaulted
    assert alone.reason_codes == ("SCOPE_MISSING", "NO_MATCH_DEFAULT_ESCALATE")
    assert not beside.defaulted
    assert beside.reason_codes == ("SCOPE_MISSING",)


def test_a_finding_alone_leaves_the_default() -> None:
    got = combine_outcomes(
        policy(RuleOutcome(Verdict.ALLOW, ())), [], [], seen("PII_DETECTED"), CORE
    )

    assert got == Evaluation(
        Verdict.ESCALATE,
        ("PII_DETECTED",),
        (),
        defaulted=True,
        found=(FoundCode("PII_DETECTED", "input"),),
    )


def test_effects_of_rules_are_merged_in_order_without_duplicates() -> None:
    first = rule(
        "1",
        Verdict.DENY,
        "RCE_RISK",
        "SCOPE_MISSING",
        constraints=("c1", "c2"),
        missing=("m1",),
        obligations=(Obligation.CRISIS_RESOURCES,),
    )
    second = rule(
        "2",
        Verdict.ESCALATE,
        "SCOPE_MISSING",
        "APPROVAL_REQUIRED",
        constraints=("c2", "c3"),
        missing=("m2", "m1"),
        obligations=(Obligation.HUMAN_REVIEW, Obligation.CRISIS_RESOURCES),
    )
    invalid = [
        InvalidField(rule_id=rule_id, path=path)
        for rule_id, path in (("3", "m3"), ("4", "m3"), ("4", "m1"))
    ]

    assert combine_outcomes(
        policy(), [first, second], invalid, seen("PII_DETECTED"), CORE
    ) == Evaluation(
        verdict=Verdict.DENY,
        reason_codes=(
            *("RCE_RISK", "SCOPE_MISSING", "APPROVAL_REQUIRED", "EVIDENCE_INVALID"),
            "PII_DETECTED",
        ),
        matched_rules=("1", "2"),
        invalid=tuple(invalid),
        constraints=("c1", "c2", "c3"),
        missing=("m1", "m2", "m3"),
        obligations=tuple(Obligation),
        defaulted=False,
        found=(FoundCode("PII_DETECTED", "input"),),
    )


def test_an_unusable_fact_abstains_and_leaves_a_proven_no() -> None:
    fact = InvalidField(rule_id="r", path="evidence.a")
    deny = rule("d", Verdict.DENY, "RCE_RISK")

    got = combine_outcomes(policy(), [ALLOW], [fact], [], CORE)
    assert (got.verdict, got.reason_codes, got.missing, got.invalid) == (
        Verdict.ABSTAIN,
        ("EVIDENCE_INVALID",),
        ("evidence.a",),
        (fact,),
    )
    assert combine_outcomes(policy(), [deny], [fact], [], CORE).verdict is Verdict.DENY


def test_a_shadow_rule_is_recorded_and_does_not_count() -> None:
    shadow = rule(
        "s",
        Verdict.DENY,
        "RCE_RISK",
        shadow=True,
        constraints=("c",),
        missing=("m",),
        obligations=(Obligation.HUMAN_REVIEW,),
    )
    got = combine_outcomes(policy(), [shadow, ALLOW], [], [], CORE)

    assert got == Evaluation(Verdict.ALLOW, (), ("a",), shadow_rules=("s",))
    assert combine_outcomes(policy(), [shadow], [], [], CORE).defaulted


def test_a_shadowed_code_is_recorded_and_does_not_count() -> None:
    findings = seen("PII_DETECTED", "SCOPE_MISSING", "PII_DETECTED")
    got = combine_outcomes(policy(DEFAULT, "PII_DETECTED"), [ALLOW], [], findings, CORE)

    assert got.shadowed_codes == ("PII_DETECTED",)
    assert got.reason_codes == ("SCOPE_MISSING",)
    quiet = combine_outcomes(
        policy(DEFAULT, "PII_DETECTED"), [ALLOW], [], seen("PII_DETECTED"), CORE
    )
    assert quiet.verdict is Verdict.ALLOW


def test_a_shadow_hides_only_what_guards_saw() -> None:
    same = rule("p", Verdict.ESCALATE, "PII_DETECTED")

    assert combine_outcomes(policy(DEFAULT, "PII_DETECTED"), [same], [], [], CORE).reason_codes == (
        "PII_DETECTED",
    )


def test_a_finding_of_no_known_code_is_an_error() -> None:
    with pytest.raises(UnknownCodeError):
        combine_outcomes(policy(), [], [], seen("NOBODY_KNOWS"), CORE)


ROWS = st.builds(
    lambda verdict, shadow, reads: rule(
        "r", verdict, "SCOPE_MISSING", shadow=shadow, reads_findings=reads
    ),
    st.sampled_from(Verdict),
    st.booleans(),
    st.booleans(),
)
CODES = st.lists(st.sampled_from(["RCE_RISK", "PII_DETECTED", "GUARDRAIL_UNAVAILABLE"]))


@given(st.lists(ROWS), CODES, st.booleans())
def test_the_verdict_is_the_strictest_of_its_parts(
    rules: list[PolicyRule], codes: list[str], broken: bool
) -> None:
    invalid = [InvalidField(rule_id="r", path="x")] if broken else []
    got = combine_outcomes(policy(), rules, invalid, seen(*codes), CORE)
    counted = [one for one in rules if not one.shadow]
    parts = [one.then.verdict for one in counted] + [verdict_floor(CORE[code]) for code in codes]
    parts += [Verdict.ABSTAIN] if broken else []
    parts += [Verdict.ESCALATE] if all(one.reads_findings for one in counted) else []
    order = ["ALLOW", "ESCALATE", "ABSTAIN", "DENY"]

    assert got.verdict == max(parts, key=order.index)


@pytest.mark.parametrize(
    ("code", "action", "verdict"),
    [
        ("RCE_RISK", Action.ESCALATE, Verdict.ESCALATE),
        ("PII_DETECTED", Action.ESCALATE, Verdict.ESCALATE),
        ("SUCCESS_MEMORY_SIMILAR_ALLOW", Action.ESCALATE, Verdict.ALLOW),
        ("GUARDRAIL_UNAVAILABLE", Action.WARN, Verdict.ABSTAIN),
        ("GUARDRAIL_UNAVAILABLE", Action.ESCALATE, Verdict.ABSTAIN),
    ],
)
def test_a_guard_may_ask_for_less_but_not_for_nothing(
    code: str, action: Action, verdict: Verdict
) -> None:
    assert verdict_floor(CORE[code], action) is verdict


def test_a_warning_counts_for_nothing_unless_it_obliges() -> None:
    warned = [
        Finding(code=code, surface=Surface.OUTPUT, action=Action.WARN)
        for code in ("OUTPUT_FORBIDDEN", "CRISIS_ESCALATION", "GUARDRAIL_UNAVAILABLE")
    ]
    got = combine_outcomes(policy(), [], [], warned, CORE)

    assert "OUTPUT_FORBIDDEN" not in got.reason_codes
    assert {"CRISIS_ESCALATION", "GUARDRAIL_UNAVAILABLE"} <= set(got.reason_codes)


REFUSE = {"verdict": "ESCALATE", "reason_codes": ["SCOPE_MISSING"]}
RCE = Finding(code="RCE_RISK", surface=Surface.INPUT)
PII = Finding(code="PII_DETECTED", surface=Surface.OUTPUT)


def policy_of(*conditions: Mapping[str, Any], **more: Any) -> Policy:
    """Return a policy with one escalating rule for each condition."""
    rules = [
        {"id": f"R{number}", "stage": "ESCALATIONS", "if": condition, "then": REFUSE}
        for number, condition in enumerate(conditions)
    ]
    head = {"schema_version": "policy.v1", "policy_id": "p", "policy_version": "1"}
    return parse_policy(json.dumps({**head, "rules": rules, **more}), registry=CORE)


def compiled(*conditions: Mapping[str, Any], **more: Any) -> CompiledPolicy:
    return CompiledPolicy(policy_of(*conditions, **more), registry=CORE)


def agrees(
    one: CompiledPolicy, request: Mapping[str, Any], findings: Sequence[Finding] = ()
) -> Evaluation:
    want = reference.evaluate(one.policy, request, findings, CORE)
    got = one.evaluate(request, findings)
    assert got.verdict == want["verdict"]
    assert list(got.reason_codes) == want["reason_codes"]
    assert list(got.matched_rules) == want["matched_rules"]
    assert list(got.shadow_rules) == want["shadow_rules"]
    assert [(fact.rule_id, fact.path) for fact in got.invalid] == want["invalid"]
    assert list(got.missing) == want["missing"]
    assert got.defaulted == want["defaulted"]
    return got


Built = list[list[int]]


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Built:
    """Return the rules of each function that is built from now on."""
    seen: Built = []
    real = codegen.write_rule_function

    def watched(conditions: Mapping[int, Any], rates: Mapping[str, float]) -> codegen.RuleFunction:
        seen.append(list(conditions))
        return real(conditions, rates)

    monkeypatch.setattr(compiler, "write_rule_function", watched)
    return seen


# --- buckets --------------------------------------------------------------------------------


def test_unrelated_actions_cost_nothing(built: Built) -> None:
    one = compiled(
        {"action_type": "refund"},
        {"action_type": {"in": ["refund", "credit"]}, "evidence.a": 1},
        {"action_type": "login"},
        {"evidence.a": 1},
        {"all": [{"all": [{"action_type": "credit"}]}]},
        {"any": [{"action_type": "login"}, {"evidence.a": 2}]},
        {"not": {"action_type": "login"}},
        {"action_type": {"ne": "login"}},
    )
    assert built == []
    for action in ("refund", "credit", "other"):
        agrees(one, {"action": {"type": action}, "evidence": {"a": 1}})

    assert built == [[0, 1, 3, 5, 6, 7], [1, 3, 4, 5, 6, 7], [3, 5, 6, 7]]


def test_a_function_is_built_when_first_needed_and_once(built: Built) -> None:
    one = compiled({"action_type": "refund"}, {"action_type": "login"})
    for _ in range(3):
        agrees(one, {"action": {"type": "refund"}})
        agrees(one, {"action": {"type": "unknown"}})
        agrees(one, {"action": {"type": "also unknown"}})
        agrees(one, {"action": {"type": ""}})

    assert built == [[0], []]


def test_an_empty_text_is_an_action_like_any_other(built: Built) -> None:
    one = compiled({"action_type": ""}, {"action_type": "x"})

    assert agrees(one, {"action": {"type": ""}}).matched_rules == ("R0",)
    assert agrees(one, {"action": {"type": "y"}}).matched_rules == ()
    assert built == [[0]]


@pytest.mark.parametrize("action", [None, 5, True, ["refund"], {}, float("nan")])
def test_an_action_that_is_no_text_is_judged_by_every_rule(built: Built, action: Any) -> None:
    one = compiled({"action_type": "refund"}, {"action_type": "login"}, {"action_type": 5})
    agrees(one, {"action": {"type": action}})
    agrees(one, {"action": action})

    assert built == [[0, 1, 2]]


def test_a_rule_that_asks_for_an_action_that_is_no_text_is_in_every_bucket(built: Built) -> None:
    one = compiled({"action_type": 5}, {"action_type": {"in": [5, 6]}}, {"action_type": "x"})

    got = agrees(one, {"action": {"type": "x"}})
    assert got.matched_rules == ("R2",)
    assert [(fact.rule_id, fact.path) for fact in got.invalid] == [
        ("R0", "action.type"),
        ("R1", "action.type"),
    ]
    assert agrees(one, {"action": {"type": 5}}).matched_rules == ("R0", "R1")
    assert built == [[0, 1, 2], [0, 1, 2]]


class Kind(StrEnum):
    REFUND = "refund"


def test_an_action_that_is_a_kind_of_text_is_a_text() -> None:
    one = compiled({"action_type": "refund"}, {"action_type": "login"})

    assert agrees(one, {"action": {"type": Kind.REFUND}}).matched_rules == ("R0",)


# --- the second index -----------------------------------------------------------------------


def two_hundred() -> list[dict[str, Any]]:
    by_country: list[dict[str, Any]] = [
        {"action_type": "pay", "evidence.country": f"C{n % 40}", "evidence.score": {"gt": n}}
        for n in range(150)
    ]
    others: list[dict[str, Any]] = [
        {"action_type": "pay", "evidence.score": {"gt": 20 * n}} for n in range(20)
    ]
    odd: list[dict[str, Any]] = [
        {"action_type": "pay", "any": [{"evidence.country": "C1"}, {"evidence.score": n}]}
        for n in range(20)
    ]
    empty: list[dict[str, Any]] = [
        {"action_type": "pay", "evidence.country": "", "evidence.score": {"lt": n}}
        for n in range(10)
    ]
    return [*by_country, *others, *odd, *empty]


def test_a_large_bucket_is_indexed_by_what_most_of_its_rules_ask_for(built: Built) -> None:
    one = compiled(*two_hundred())
    for country in ("C3", "C3", "C39", "nowhere", ""):
        agrees(one, {"action": {"type": "pay"}, "evidence": {"country": country, "score": 5}})

    straight = list(range(150, 200))
    assert built == [
        [3, 43, 83, 123, *straight],
        [39, 79, 119, *straight],
        straight,
    ]


@pytest.mark.parametrize("country", ["C0", "C1", "C39", "", "zz", None, 5, ["C1"], {}, True])
@pytest.mark.parametrize("score", [0, 7, 149.5, None, "7", float("nan")])
def test_the_index_changes_no_answer(country: Any, score: Any) -> None:
    agrees(
        compiled(*two_hundred()),
        {"action": {"type": "pay"}, "evidence": {"country": country, "score": score}},
    )


def test_a_field_that_is_no_text_is_judged_by_the_whole_bucket(built: Built) -> None:
    one = compiled(*two_hundred())
    agrees(one, {"action": {"type": "pay"}, "evidence": {"country": 5, "score": 1}})
    agrees(one, {"action": {"type": "pay"}, "evidence": 5})
    agrees(one, {"action": {"type": "pay"}})

    assert built == [list(range(200))]


def test_without_a_usable_action_nothing_is_indexed(built: Built) -> None:
    one = compiled(*two_hundred())
    agrees(one, {"evidence": {"country": "C3", "score": 5}})

    assert built == [list(range(200))]


@pytest.mark.parametrize(
    ("asking", "rest", "indexed"), [(32, 32, True), (31, 33, False), (63, 0, False), (64, 0, True)]
)
def test_an_index_is_built_only_where_it_pays_off(
    built: Built, asking: int, rest: int, indexed: bool
) -> None:
    rules = [{"evidence.a": f"v{n}"} for n in range(asking)]
    more = [{"evidence.b": {"gt": n}} for n in range(rest)]
    agrees(compiled(*rules, *more), {"action": {"type": "x"}, "evidence": {"a": "v0", "b": 1}})

    assert len(built[0]) == (1 + rest if indexed else asking + rest)


def test_the_index_field_is_deterministic_among_equals(built: Built) -> None:
    rules = [{"evidence.a": f"v{n}", "subject.b": "w"} for n in range(64)]
    agrees(
        compiled(*rules), {"action": {"type": "x"}, "evidence": {"a": "v1"}, "subject": {"b": "w"}}
    )

    assert built == [list(range(64))]


def test_findings_and_numbers_are_no_index(built: Built) -> None:
    rules = [{"evidence.a": n, "findings.codes": {"contains": "RCE_RISK"}} for n in range(70)]
    agrees(compiled(*rules), {"action": {"type": "x"}, "evidence": {"a": 5}}, [RCE])

    assert len(built[0]) == 70


# --- threads --------------------------------------------------------------------------------


@pytest.mark.parametrize("rules", [[{"action_type": "pay"}], two_hundred()])
def test_sixteen_threads_at_once_build_each_function_once(
    monkeypatch: pytest.MonkeyPatch, rules: list[dict[str, Any]]
) -> None:
    one = compiled(*rules)
    request = {"action": {"type": "pay"}, "evidence": {"country": "C3", "score": 5}}
    barrier = Barrier(16)
    seen: Built = []
    real = codegen.write_rule_function

    def slow(conditions: Mapping[int, Any], rates: Mapping[str, float]) -> codegen.RuleFunction:
        seen.append(list(conditions))
        for _ in range(20):  # long enough for the others to arrive
            judge = real(conditions, rates)
        return judge

    def ask(_: int) -> Evaluation:
        barrier.wait(timeout=30)
        return one.evaluate(request)

    monkeypatch.setattr(compiler, "write_rule_function", slow)
    with ThreadPoolExecutor(16) as pool:
        answers = set(pool.map(ask, range(16)))

    assert len(seen) == 1
    assert answers == {agrees(one, request)}


def test_sixteen_threads_at_once_make_one_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    class Slow(compiler._RuleBucket):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            made.append(1)
            sleep(0.05)  # long enough for the others to arrive
            super().__init__(*args, **kwargs)

    one = compiled({"action_type": "pay"})
    barrier = Barrier(16)

    def ask(_: int) -> Evaluation:
        barrier.wait(timeout=30)
        return one.evaluate({"action": {"type": "pay"}})

    monkeypatch.setattr(compiler, "_RuleBucket", Slow)
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(ask, range(16)))

    assert made == [1]


# --- states ---------------------------------------------------------------------------------

STATES: dict[str, Any] = {"true": 1, "false": 2, "missing": None, "invalid": "x"}


@pytest.mark.parametrize("group", ["all", "any"])
@pytest.mark.parametrize("facts", list(product(STATES, repeat=3)))
def test_every_combination_of_states_is_judged_by_the_book(
    group: str, facts: tuple[str, ...]
) -> None:
    parts = [{f"evidence.a{n}": 1} for n in range(3)]
    one = compiled(
        {group: parts[:2]},
        {"not": {group: parts[:2]}},
        {group: parts},
        {"not": {group: parts}},
        {"not": {"not": parts[0]}},
    )

    agrees(one, {"evidence": {f"a{n}": STATES[state] for n, state in enumerate(facts)}})


# --- what is remembered ---------------------------------------------------------------------


def test_the_evaluation_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "_MAX_CACHED_EVALUATIONS", 10)
    one = compiled(*({"evidence.a": {"gt": n}} for n in range(50)))
    for n in range(50):
        agrees(one, {"evidence": {"a": n}})
        agrees(one, {"evidence": {"a": n}})

    assert len(one._cached) == 10


def test_the_bound_is_some_thousands() -> None:
    assert compiler._MAX_CACHED_EVALUATIONS == 4096


def test_neither_findings_nor_unusable_facts_are_remembered() -> None:
    one = compiled({"evidence.a": 1})
    agrees(one, {"evidence": {"a": 1}}, [RCE])
    agrees(one, {"evidence": {"a": "1"}})
    assert one._cached == {}

    first = agrees(one, {"evidence": {"a": 1}})
    assert first.verdict is Verdict.ESCALATE
    assert one.evaluate({"evidence": {"a": 1}}) is first
    assert agrees(one, {"evidence": {"a": 1}}, [RCE]).verdict is Verdict.DENY


# --- findings -------------------------------------------------------------------------------


def test_the_callers_own_findings_are_never_read() -> None:
    forged = {"codes": ["RCE_RISK"], "surfaces": ["input"], "count": 9}
    one = compiled(
        {"findings.codes": {"contains": "RCE_RISK"}},
        {"findings.surfaces": {"contains": "input"}},
        {"findings.count": {"gte": 1}},
    )

    for value in (forged, 5, None, [forged]):
        assert agrees(one, {"findings": value}).matched_rules == ()
    assert agrees(one, {"findings": forged}, [PII]).matched_rules == ("R2",)
    assert agrees(one, {}, [RCE]).matched_rules == ("R0", "R1", "R2")


def test_only_the_unusable_fact_is_named_next_to_findings() -> None:
    one = compiled({"findings.codes": {"contains": "RCE_RISK"}, "evidence.a": {"gt": 1}})

    assert agrees(one, {"evidence": {"a": "x"}}, [RCE]).invalid == (
        InvalidField(rule_id="R0", path="evidence.a", why="it is a text; give a number"),
    )
    assert agrees(one, {"evidence": {"a": "x"}}, [PII]).invalid == ()
    forged = {"evidence": {"a": "x"}, "findings": 5}
    assert [(fact.rule_id, fact.path) for fact in agrees(one, forged, [RCE]).invalid] == [
        ("R0", "evidence.a")
    ]


def test_a_shadow_rule_that_cannot_be_judged_is_silent() -> None:
    rule = {"id": "S", "stage": "ESCALATIONS", "if": {"evidence.a": 1}, "then": REFUSE}
    one = compiled(rules=[{**rule, "shadow": True}])

    assert agrees(one, {"evidence": {"a": "x"}}).invalid == ()
    assert agrees(one, {"evidence": {"a": 1}}).shadow_rules == ("S",)


# --- text never becomes code ----------------------------------------------------------------

HOSTILE = [
    "__import__('os').abort()",
    '"); raise SystemExit; ("',
    "'''\nraise SystemExit\n'''",
    "\\",
    "{fetch}",
    "judge",
    "MISSING",
    "k0",
    "f0",
    "\u2028raise SystemExit",
    "%s%n",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_in_a_policy_never_becomes_code(text: str) -> None:
    one = compiled(
        {"action_type": text},
        {"evidence.a": {"in": [text, "b"]}},
        {"evidence.a": {"contains": text}},
        {"evidence.a": {"starts_with": text}},
        {"evidence.a": {"ne": text}},
    )

    got = agrees(one, {"action": {"type": text}, "evidence": {"a": text}})
    assert got.matched_rules == ("R0", "R1", "R2", "R3")
    assert agrees(one, {"action": {"type": "x"}, "evidence": {"a": "b"}}).matched_rules == (
        "R1",
        "R4",
    )


@pytest.mark.parametrize(
    "name", ["import", "None", "class", "judge", "matched", "s", "f0", "k0", "request", "__class__"]
)
def test_a_field_named_like_source_is_a_field(name: str) -> None:
    one = compiled({f"evidence.{name}": 1}, {f"evidence.{name}.{name}": {"missing": True}})

    assert agrees(one, {"evidence": {name: 1}}).matched_rules == ("R0",)
    assert agrees(one, {"evidence": {}}).matched_rules == ("R1",)


def test_the_source_holds_no_text_of_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    sources: list[str] = []

    def watched(source: str, *rest: Any) -> Any:
        sources.append(source)
        return compile(source, *rest)

    monkeypatch.setattr(codegen, "compile", watched, raising=False)
    one = compiled(
        {"action_type": "zebra", "evidence.giraffe": {"gt": 777}, "subject.lion.paw": "tiger"},
        {"any": [{"evidence.giraffe": {"matches": "panther"}}, {"amount_usd": {"in": [888]}}]},
        {"not": {"context.hyena": {"not_in": ["jackal"]}}},
        {"findings.codes": {"contains": "RCE_RISK"}},
    )
    agrees(one, {"action": {"type": "zebra"}})

    [source] = sources
    words = "zebra giraffe 777 lion paw tiger panther 888 hyena jackal RCE_RISK evidence codes R0"
    assert not [word for word in words.split() if word in source]


# --- size -----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 250, 1000])
def test_a_long_list_of_parts_is_judged_like_a_short_one(count: int) -> None:
    fields = [{f"evidence.a{n}": 1} for n in range(count)]
    one = compiled({"any": fields}, {"all": fields}, {key: 1 for f in fields for key in f})
    full = {f"a{n}": 1 for n in range(count)}
    last = f"a{count - 1}"

    for evidence in (full, {}, {last: 1}, {**full, last: 2}, {**full, last: "x"}, {last: "x"}):
        agrees(one, {"evidence": evidence})


def test_conditions_as_deep_as_a_policy_can_be_are_judged() -> None:
    condition: dict[str, Any] = {"evidence.last": 1}
    for n in range(21):
        wide = [{f"evidence.a{m}": 1} for m in range(60)]
        condition = {"any": [*wide, condition]} if n % 2 else {"all": [condition, *wide]}
    one = compiled(condition, {"not": {"not": {"not": condition}}})
    full = {f"a{m}": 1 for m in range(60)}

    for evidence in ({**full, "last": 1}, {**full, "last": 2}, {}, {"a59": 1}, {"last": "x"}):
        agrees(one, {"evidence": evidence})


def test_many_negations_are_judged() -> None:
    condition: dict[str, Any] = {"evidence.a": 1}
    for _ in range(44):
        condition = {"not": condition}
    one = compiled(condition)

    assert agrees(one, {"evidence": {"a": 1}}).matched_rules == ("R0",)
    assert agrees(one, {"evidence": {"a": 2}}).matched_rules == ()
    assert agrees(one, {"evidence": {"a": "1"}}).invalid


# --- requests -------------------------------------------------------------------------------


class Frozen(Mapping[str, Any]):
    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, key: str) -> Any:
        value = self._values[key]
        return Frozen(value) if isinstance(value, dict) else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


@pytest.mark.parametrize("wrap", [MappingProxyType, Frozen])
@pytest.mark.parametrize("a", [1, 2, "x", None, {"b": 1}])
def test_any_mapping_is_a_request(wrap: Callable[[Any], Mapping[str, Any]], a: Any) -> None:
    request = {
        "action": {"type": "pay", "amount": {"value": 5, "currency": "USD"}},
        "evidence": {"a": a},
    }
    one = compiled(
        {"action_type": "pay", "evidence.a": 1},
        {"evidence.a.b": 1},
        {"amount_usd": 5},
        {"request_id": {"missing": True}},
    )

    assert one.evaluate(wrap(request)) == agrees(one, request)
    assert one.evaluate(wrap({**request, "evidence": wrap({"a": a})})) == agrees(one, request)


def test_a_request_is_left_as_it_was() -> None:
    request = {"action": {"type": "pay"}, "evidence": {"a": "x"}, "findings": 5}
    copy = json.loads(json.dumps(request))
    agrees(compiled({"evidence.a": 1}), request, [RCE])

    assert request == copy


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["a", "type", "amount", "value"]), inner, max_size=3)
    ),
    max_leaves=8,
)
REQUESTS = st.dictionaries(
    st.sampled_from(["action", "evidence", "subject", "findings", "request_id"]), JSON
)
SAMPLE: list[dict[str, Any]] = [
    {"action_type": "pay"},
    {"amount_usd": {"gt": 5}},
    {"evidence.a": {"gte": 0}},
    {"any": [{"evidence.a": "x"}, {"subject.a": True}]},
    {"not": {"evidence.a.a": {"in": [1, 2]}}},
    {"evidence.a": {"contains": 1}},
    {"evidence.a": {"matches": "^x"}},
    {"request_id": {"missing": True}},
    {"findings.count": {"gt": 0}},
]


@given(REQUESTS, st.lists(st.sampled_from([RCE, PII])))
def test_the_same_request_is_evaluated_the_same(
    request: dict[str, Any], findings: list[Finding]
) -> None:
    one, other = compiled(*SAMPLE), compiled(*SAMPLE)
    first = one.evaluate(request, findings)

    assert one.evaluate(request, findings) == first
    other.evaluate({}, findings)
    assert other.evaluate(request, findings) == first


ALTERNATIVES: list[dict[str, Any]] = [
    {"any": [{"findings.count": {"gt": 1}}, {"findings.codes": {"contains": "RCE_RISK"}}]},
    {"findings.surfaces": {"contains": "output"}, "evidence.a": {"gte": 0}},
    {"all": [{"findings.count": {"gte": 1}}, {"any": [{"evidence.a": 1}, {"subject.a": "x"}]}]},
]


@given(REQUESTS, st.lists(st.sampled_from([RCE, PII])), st.lists(st.sampled_from([RCE, PII])))
def test_a_finding_can_only_ever_make_a_condition_hold(
    request: dict[str, Any], some: list[Finding], more: list[Finding]
) -> None:
    """INVARIANT: a finding can only ever make a condition hold, never stop it from holding."""
    one = compiled(*ALTERNATIVES)
    before, after = one.evaluate(request, some), one.evaluate(request, [*some, *more])

    assert set(before.matched_rules) <= set(after.matched_rules)
    # Nor does one settle what an unusable fact has left open.
    assert set(before.invalid) <= set(after.invalid)


def test_the_default_registry_is_used_unless_one_is_passed() -> None:
    one = CompiledPolicy(policy_of({}))

    assert one.evaluate({}, [RCE]).verdict is Verdict.DENY


def test_a_rule_with_two_action_conditions_is_evaluated_beyond_its_bucket() -> None:
    one = compiled(
        {"all": [{"action_type": "refund"}, {"action_type": {"in": ["login", "credit"]}}]},
        {"all": [{"action_type": {"in": ["refund", "login"]}}, {"action_type": {"ne": "login"}}]},
        {"action_type": "refund"},
    )

    for action in ("refund", "login", "credit", "other"):
        agrees(one, {"action": {"type": action}})


def test_compared_facts_are_returned_with_the_evaluation() -> None:
    one = compiled(
        {"evidence.risk": {"gt": 5}, "evidence.name": "x"},
        {"findings.codes": {"contains": "RCE_RISK"}, "amount_usd": {"gt": 5}},
    )
    request = {
        "action": {"type": "refund", "amount": {"value": "7", "currency": "USD"}},
        "evidence": {"risk": 6, "other": 1},
    }

    evaluation, facts = one.evaluate_with_facts(request)

    assert evaluation == one.evaluate(request)
    assert facts == {"evidence.risk": 6, "amount_usd": 7}
