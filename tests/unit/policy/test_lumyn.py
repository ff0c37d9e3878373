"""An import against the peer's documented meaning, which `peer_verdict` spells out."""

import json
from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from demur.codes.registry import Registry
from demur.codes.vocabulary import Verdict
from demur.errors import PolicyError
from demur.policy.evaluation import CompiledPolicy, Evaluation
from demur.policy.lint import lint_policy
from demur.policy.loader import parse_policy
from demur.policy.lumyn import ImportedPolicy, import_policy, translate_rule
from demur.policy.lumyn_codes import extend_registry
from demur.policy.lumyn_draft import ImportLog, RuleDraft, UntranslatableError
from demur.policy.policy import Stage
from demur.source.reading import read_source

CORE = Registry.load()
DOMAIN = "acme.com"
DEFAULTS = {
    "mode": "enforce",
    "default_verdict": "ESCALATE",
    "default_reason_code": "NO_MATCH_DEFAULT_ESCALATE",
}


def rule(
    name: str, stage: str, verdict: str, code: str = "CHARGEBACK_RISK_BLOCK", **asks: Any
) -> dict[str, Any]:
    conditions = {key.rstrip("_"): value for key, value in asks.items()}
    then = {"verdict": verdict, "reason_codes": [code]}
    return {"id": name, "stage": stage, **conditions, "then": then}


def policy(*rules: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    head = {"schema_version": "policy.v1", "policy_id": "p", "policy_version": "1"}
    return {**head, "defaults": DEFAULTS, "rules": list(rules), **more}


def carried(raw: Mapping[str, Any], registry: Registry = CORE, **options: Any) -> ImportedPolicy:
    return import_policy(json.dumps(raw), "p.yml", registry=registry, domain=DOMAIN, **options)


def loaded(imported: ImportedPolicy, registry: Registry = CORE) -> CompiledPolicy:
    known = extend_registry(registry, DOMAIN, imported.entries)
    return CompiledPolicy(parse_policy(imported.text, registry=known), registry=known)


def decide(imported: ImportedPolicy, request: Mapping[str, Any]) -> Evaluation:
    return loaded(imported).evaluate(request)


def kinds(imported: ImportedPolicy) -> list[str]:
    return [diagnostic.kind for diagnostic in imported.diagnostics]


# What the peer says by its own documents.

ORDER = ["ALLOW", "ESCALATE", "DENY", "ABSTAIN"]
NUMBERS = {
    "gt": lambda fact, bound: fact > bound,
    "gte": lambda fact, bound: fact >= bound,
    "lt": lambda fact, bound: fact < bound,
    "lte": lambda fact, bound: fact <= bound,
}


def peer_verdict(raw: Mapping[str, Any], request: Mapping[str, Any]) -> str:
    verdicts = [one["then"]["verdict"] for one in raw["rules"] if peer_matches(one, request)]
    return str(max(verdicts or [raw["defaults"]["default_verdict"]], key=ORDER.index))


def peer_matches(one: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
    action = one.get("when", {}).get("action_type")
    alternatives = one.get("if_any") or [{}]
    return (
        (not action or action == request["action"]["type"])
        and all(peer_holds(part, request) for part in [one.get("if", {}), *one.get("if_all", [])])
        and any(peer_holds(part, request) for part in alternatives)
    )


def peer_holds(condition: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
    return all(peer_leaf(key, wanted, request) for key, wanted in condition.items())


def peer_leaf(key: str, wanted: Any, request: Mapping[str, Any]) -> bool:
    name, _, operator = key.rpartition("_")
    amount = request["action"].get("amount", {})
    if name == "amount_usd":
        fact = peer_dollars(amount, request["evidence"])
    elif name == "amount_currency":
        fact = amount.get("currency")
    else:
        fact = request["evidence"].get(name.removeprefix("evidence."))
    if operator == "is":
        return bool(fact == wanted)
    if operator == "ne":
        return bool(fact != wanted)
    if operator == "in":
        return isinstance(wanted, list) and fact in wanted
    if operator in NUMBERS and isinstance(fact, int | float):
        return bool(NUMBERS[operator](fact, wanted))
    return False


def peer_dollars(amount: Mapping[str, Any], evidence: Mapping[str, Any]) -> float | None:
    if not amount:
        return None
    rate = 1 if amount["currency"] == "USD" else evidence.get("fx_rate_to_usd")
    return None if rate is None else float(amount["value"] * rate)


# A policy of ordinary shape, and what comes of ordinary requests.

REFUND = {"action_type": "support.refund"}
ORDINARY = policy(
    rule(
        *("NEEDS", "REQUIREMENTS", "DENY", "MISSING_EVIDENCE_REFUND"),
        when=REFUND,
        if_any=[{"evidence.ticket_is": None}, {"evidence.risk_is": None}],
    ),
    rule("CARD", "HARD_BLOCKS", "ABSTAIN", when=REFUND, if_={"evidence.card_is": "stolen"}),
    rule("RISK", "HARD_BLOCKS", "DENY", when=REFUND, if_={"evidence.risk_gte": 0.7}),
    rule("STATUS", "HARD_BLOCKS", "DENY", when=REFUND, if_={"evidence.status_ne": "open"}),
    rule(
        *("LIMIT", "ESCALATIONS", "ESCALATE", "REFUND_OVER_ESCALATION_LIMIT"),
        when=REFUND,
        if_={"amount_usd_gt": 200},
    ),
    rule(
        *("SMALL", "ALLOW_PATHS", "ALLOW", "REFUND_SMALL_LOW_RISK"),
        when=REFUND,
        if_all=[{"amount_usd_lte": 25}, {"evidence.card_in": ["good", "new"]}],
    ),
)


def refund(value: float | None = 20, **evidence: Any) -> dict[str, Any]:
    given = {"ticket": "T-1", "risk": 0.1, "card": "good", "status": "open", **evidence}
    amount = {} if value is None else {"amount": {"value": value, "currency": "USD"}}
    return {"action": {"type": "support.refund", **amount}, "evidence": given}


@pytest.mark.parametrize(
    ("request_", "peer", "here", "matched"),
    [
        (refund(), "ALLOW", "ALLOW", ("SMALL",)),
        (refund(100), "ESCALATE", "ESCALATE", ()),
        (refund(201), "ESCALATE", "ESCALATE", ("LIMIT",)),
        (refund(ticket=None), "DENY", "DENY", ("NEEDS", "SMALL")),
        (refund(risk=0.7), "DENY", "DENY", ("RISK", "SMALL")),
        (refund(status="closed"), "DENY", "DENY", ("STATUS", "SMALL")),
        (refund(status=None), "DENY", "DENY", ("STATUS", "SMALL")),
        (refund(card="stolen"), "ABSTAIN", "DENY", ("CARD",)),
        (refund(card="stolen", risk=0.9), "ABSTAIN", "DENY", ("CARD", "RISK")),
        (refund(card=None), "ESCALATE", "ESCALATE", ()),
        (refund(None), "ESCALATE", "ESCALATE", ()),
        # Where the peer guesses, nobody guesses here.
        (refund(risk="0.9"), "ALLOW", "ABSTAIN", ("SMALL",)),
        (refund(-20), "ALLOW", "ABSTAIN", ()),
        ({"action": {"type": "support.close"}, "evidence": {}}, "ESCALATE", "ESCALATE", ()),
    ],
)
def test_an_import_decides_as_the_peer_or_says_where_not(
    request_: dict[str, Any], peer: str, here: str, matched: tuple[str, ...]
) -> None:
    got = decide(carried(ORDINARY), request_)

    assert peer_verdict(ORDINARY, request_) == peer
    assert got.verdict == here
    assert got.matched_rules == matched


def test_diagnostics_are_in_line_order() -> None:
    text = json.dumps(ORDINARY, indent=1)
    imported = import_policy(text, "p.yml", registry=CORE)
    lines = [int(diagnostic.where.split(":")[1]) for diagnostic in imported.diagnostics]

    assert lines == sorted(lines)
    assert sorted(set(kinds(imported))) == [
        *("code-left-out", "evidence-needed", "kinds", "rates", "verdict")
    ]
    assert imported.entries == ()


def test_a_rule_that_differs_says_so_in_a_comment() -> None:
    text = carried(ORDINARY).text

    assert "  # verdict: ABSTAIN in HARD_BLOCKS becomes DENY" in text
    assert text.index("# verdict:") < text.index("- id: CARD") < text.index("- id: RISK")


def test_a_policy_without_differences_needs_no_remarks() -> None:
    imported = carried(
        policy(
            rule("A", "REQUIREMENTS", "DENY", when=REFUND, if_={"evidence.a_is": None}),
            rule("B", "ESCALATIONS", "ESCALATE", "APPROVAL_REQUIRED"),
        )
    )

    assert kinds(imported) == ["code-class"]
    assert imported.diagnostics[0].rule == "A"


def test_rules_with_one_name_are_renamed() -> None:
    again = rule("A", "ESCALATIONS", "ESCALATE", "APPROVAL_REQUIRED")
    imported = carried(policy(again, again, again))

    assert [row["id"] for row in rules_of(imported)] == ["A", "A_2", "A_3"]
    assert kinds(imported) == ["renamed-rule", "renamed-rule"]
    assert [diagnostic.rule for diagnostic in imported.diagnostics] == ["A_2", "A_3"]


def rules_of(imported: ImportedPolicy) -> list[dict[str, Any]]:
    rules = loaded(imported).policy.rules
    return [{"id": one.id, "codes": one.then.reason_codes} for one in rules]


def test_a_rule_that_is_left_out_is_named_and_the_others_stay() -> None:
    bad = rule("BAD", "HARD_BLOCKS", "DENY", if_={"evidence.a_gt": "high"})
    imported = carried(policy(bad, {"stage": 5}, rule("B", "ESCALATIONS", "ESCALATE", "A_REASON")))

    assert rules_of(imported) == [{"id": "B", "codes": ("acme.com/A_REASON",)}]
    left = [diagnostic for diagnostic in imported.diagnostics if diagnostic.kind == "left-out"]
    assert left[0].message == ("rule `BAD` is left out: `evidence.a_gt` takes a number, not `high`")
    assert left[1].message == "a rule is left out: `then` is missing"
    assert [diagnostic.level for diagnostic in left] == ["error", "error"]


def test_abstain_no_longer_beats_deny() -> None:
    raw = policy(
        rule("A", "REQUIREMENTS", "ABSTAIN", "SCOPE_MISSING"),
        rule("D", "HARD_BLOCKS", "DENY"),
    )
    request = {"action": {"type": "a.b"}, "evidence": {}}

    assert peer_verdict(raw, request) == "ABSTAIN"
    assert decide(carried(raw), request).verdict == "DENY"
    assert kinds(carried(raw)) == ["precedence"]


def test_two_codes_that_become_one_stand_once() -> None:
    both = rule("A", "HARD_BLOCKS", "DENY")
    both["then"]["reason_codes"] = ["OVER_500", "OVER_900"]

    assert rules_of(carried(policy(both)))[0]["codes"] == ("POLICY_VIOLATION",)


# What stands above the rules.


@pytest.mark.parametrize(
    ("defaults", "line", "said"),
    [
        (DEFAULTS, "{ verdict: ESCALATE, reason_code: NO_MATCH_DEFAULT_ESCALATE }", []),
        ({}, "{ verdict: ESCALATE, reason_code: NO_MATCH_DEFAULT_ESCALATE }", []),
        (
            {"default_verdict": "DENY", "default_reason_code": "OUT_OF_HOURS"},
            "{ verdict: DENY, reason_code: acme.com/OUT_OF_HOURS }",
            ["code-renamed"],
        ),
        ({"default_verdict": "ALLOW"}, "{ verdict: ALLOW }", ["code-left-out"]),
        (
            {"default_verdict": "ALLOW", "default_reason_code": "SUCCESS_MEMORY_SIMILAR_ALLOW"},
            "{ verdict: ALLOW, reason_code: SUCCESS_MEMORY_SIMILAR_ALLOW }",
            [],
        ),
    ],
)
def test_defaults_are_carried_over(defaults: dict[str, str], line: str, said: list[str]) -> None:
    imported = carried(policy(defaults=defaults))

    assert f"\nmode: enforce\ndefaults: {line}\n" in imported.text
    assert kinds(imported) == said


def test_an_advisory_policy_stays_one_and_no_longer_binds() -> None:
    imported = carried(policy(defaults={**DEFAULTS, "mode": "advisory"}))

    assert "\nmode: advisory\n" in imported.text
    assert kinds(imported) == ["mode"]


def test_keys_that_lumyn_never_reads_are_reported() -> None:
    imported = carried(policy(thresholds={"a": 1}, extensions={}, notes="x"))

    assert [(diagnostic.kind, diagnostic.message) for diagnostic in imported.diagnostics] == [
        ("never-read", "Lumyn never reads `thresholds`; it is left out"),
        ("never-read", "Lumyn never reads `extensions`; it is left out"),
        ("left-out", "unknown key `notes`"),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "p.yml: the file is empty"),
        ("[]", "p.yml:1:1: a policy is a mapping"),
        ("a: 1\na: 2", "p.yml:2:1: the key `a` appears twice"),
        (json.dumps(policy(schema_version="policy.v0")), "unknown schema version `policy.v0`"),
        (json.dumps(policy(policy_id=None)), "`policy_id` must be a text"),
        (json.dumps(policy(policy_version=1.0)), "`policy_version` must be a text"),
        (json.dumps(policy(rules={})), "`rules` is a list"),
        (json.dumps(policy(defaults=[])), "`defaults` is a mapping"),
        (json.dumps(policy(defaults={"mode": "loud"})), "unknown mode `loud`"),
        (json.dumps(policy(defaults={"default_verdict": 5})), "unknown default_verdict `5`"),
        (json.dumps(policy(defaults={"default_reason_code": ""})), "`default_reason_code` must be"),
    ],
)
def test_a_document_that_is_not_a_lumyn_policy_is_refused(text: str, problem: str) -> None:
    with pytest.raises(PolicyError) as caught:
        import_policy(text, "p.yml", registry=CORE)

    assert problem in str(caught.value)


def test_every_problem_of_the_head_is_reported_at_once() -> None:
    with pytest.raises(PolicyError) as caught:
        import_policy("{}", "p.yml", registry=CORE)

    assert [problem.problem for problem in caught.value.problems] == [
        "unknown schema version `none`",
        "`defaults` is missing",
        "`rules` is missing",
        "`policy_id` is missing",
        "`policy_version` is missing",
    ]


# Evidence that nobody asks for.

OPEN = policy(
    rule("A", "HARD_BLOCKS", "DENY", when=REFUND, if_={"evidence.risk_gt": 1}),
    rule("B", "ESCALATIONS", "ESCALATE", "APPROVAL_REQUIRED", if_={"evidence.age_lt": 9}),
    rule(
        *("NEEDS", "REQUIREMENTS", "DENY", "SCOPE_MISSING"),
        when=REFUND,
        if_={"evidence.ticket_is": None},
    ),
    rule("OK", "ALLOW_PATHS", "ALLOW", if_={"evidence.mood_is": "good"}),
    required_evidence={"support.refund": ["ticket", "order"], "a.b": ["order"]},
)


def test_evidence_that_may_be_left_out_is_named() -> None:
    said = [diagnostic for diagnostic in carried(OPEN).diagnostics if diagnostic.help]

    assert [
        (diagnostic.kind, diagnostic.rule, diagnostic.message.split("`")[1]) for diagnostic in said
    ] == [
        ("evidence-needed", "A", "evidence.risk"),
        ("evidence-needed", "B", "evidence.age"),
        ("never-read", None, "required_evidence"),
        ("never-read", None, "required_evidence"),
    ]
    assert "`evidence.order` of `support.refund`" in said[2].message, "`ticket` is asked for"


def test_missing_evidence_becomes_a_requirement_if_configured() -> None:
    imported = carried(OPEN, require_evidence=True)
    made = parse_policy(imported.text, registry=CORE)
    asking = {one.id: one.then.missing for one in made.rules if one.id.startswith("NEEDS")}

    assert asking == {
        "NEEDS_SUPPORT_REFUND": ("evidence.order", "evidence.risk"),
        "NEEDS_A_B": ("evidence.order",),
        "NEEDS_2": ("evidence.age",),
        "NEEDS": ("evidence.ticket",),
    }
    assert {"evidence-needed", "never-read"}.isdisjoint(kinds(imported))
    assert "uncovered-field" not in [diagnostic.rule for diagnostic in lint_policy(made, CORE)]


def test_required_evidence_that_a_rule_asks_for_needs_no_word() -> None:
    imported = carried({**OPEN, "required_evidence": {"support.refund": ["ticket"]}})

    assert "never-read" not in kinds(imported)


@pytest.mark.parametrize("listed", [[], {"a.b": "ticket"}, {"a.b": [5]}, {"a.b": ["a b"]}])
def test_required_evidence_of_another_form_is_left_out(listed: Any) -> None:
    imported = carried(policy(required_evidence=listed), require_evidence=True)

    assert kinds(imported) == ["left-out"]


# Properties.

# The organisation has its code already: building a registry for each example is slow.
KNOWN = extend_registry(
    CORE,
    DOMAIN,
    carried(policy(rule("R", "ESCALATIONS", "ESCALATE", "A_REASON"))).entries,
)

CLEAN: dict[str, list[Any]] = {"a": [1, 2], "b": ["x", "no"]}
VALUES: dict[str, list[Any]] = {"a": [1, 2, True, "x", None], "b": ["x", "no", 1, None]}
OPERATORS = ["is", "ne", "in", "gt", "gte", "lt", "lte"]


@st.composite
def leaves(draw: st.DrawFn, *, clean: bool) -> tuple[str, Any]:
    name = draw(st.sampled_from("ab"))
    values = st.sampled_from(CLEAN[name] if clean else VALUES[name])
    operator = draw(st.sampled_from(OPERATORS if name == "a" else OPERATORS[:3]))
    if operator == "in":
        lists = st.lists(values, min_size=1 if clean else 0, max_size=3)
        return f"evidence.{name}_in", draw(lists if clean else lists | values)
    return f"evidence.{name}_{operator}", draw(values | st.none() if operator == "is" else values)


AMOUNTS = st.tuples(
    st.sampled_from(["amount_usd_gt", "amount_usd_gte", "amount_usd_lt", "amount_usd_lte"]),
    st.sampled_from([10, 20]),
)
CURRENCIES = st.tuples(st.just("amount_currency_ne"), st.sampled_from(["USD", "EUR"]))
USELESS = st.sampled_from([("amount_usd", 10), ("action_type", "a.b"), ("amount_currency", "USD")])
VERDICTS = {
    "REQUIREMENTS": ["DENY", "ESCALATE"],
    "HARD_BLOCKS": ["DENY", "ABSTAIN"],
    "ESCALATIONS": ["ESCALATE"],
    "ALLOW_PATHS": ["ALLOW"],
}
CODES = ["A_REASON", "CHARGEBACK_RISK_BLOCK", "OVER_500", "SUCCESS_MEMORY_SIMILAR_ALLOW"]


@st.composite
def policies(draw: st.DrawFn, *, clean: bool) -> dict[str, Any]:
    parts = leaves(clean=clean) | AMOUNTS | CURRENCIES
    parts = parts if clean else parts | USELESS
    conditions = st.lists(parts, max_size=2).map(dict)
    rows = []
    for number in range(draw(st.integers(1, 3))):
        stage = draw(st.sampled_from(list(VERDICTS)))
        verdict = draw(st.sampled_from(VERDICTS[stage] if clean else ORDER))
        row = rule(f"R{number}", stage, verdict, draw(st.sampled_from(CODES)))
        optional = {
            "when": st.sampled_from([{"action_type": "a.b"}, {"action_type": "a.c"}]),
            "if": conditions,
            "if_all": st.lists(conditions, max_size=2),
            "if_any": st.lists(conditions, max_size=2),
        }
        rows.append(row | draw(st.fixed_dictionaries({}, optional=optional)))
    default = draw(st.sampled_from(["ALLOW", "ESCALATE", "DENY"]))
    return policy(*rows, defaults={**DEFAULTS, "default_verdict": default})


def requests(values: dict[str, list[Any]], *amounts: tuple[int, str]) -> list[dict[str, Any]]:
    """Return every combination of action, amount and evidence."""
    evidence = [
        {name: value for name, value in zip(values, chosen, strict=True) if value is not None}
        for chosen in product(*([*facts, None] for facts in values.values()))
    ]
    priced = [{"amount": {"value": value, "currency": currency}} for value, currency in amounts]
    actions = [{"type": name, **more} for name in ("a.b", "a.d") for more in ({}, *priced)]
    return [{"action": one, "evidence": facts} for one, facts in product(actions, evidence)]


ORDINARY_REQUESTS = requests(CLEAN, (5, "USD"), (10, "USD"), (30, "USD"))
ODD_REQUESTS = requests(
    {**VALUES, "fx_rate_to_usd": [1e-9]}, (-5, "USD"), (10, "USD"), (30, "USD"), (30, "EUR")
)


@given(policies(clean=False))
def test_no_rule_is_lost(raw: dict[str, Any]) -> None:
    """INVARIANT: every rule of the peer is carried over, or an error says that it was left out."""
    imported = carried(raw, KNOWN)
    kept = {one.id for one in parse_policy(imported.text, registry=KNOWN).rules}
    left = {
        diagnostic.message.split("`")[1]
        for diagnostic in imported.diagnostics
        if diagnostic.kind == "left-out"
    }

    assert kept | left == {row["id"] for row in raw["rules"]}
    assert not kept & left


@given(policies(clean=False))
def test_an_import_allows_nothing_that_the_peer_does_not(raw: dict[str, Any]) -> None:
    imported = carried(raw, KNOWN)
    assume("left-out" not in kinds(imported))
    compiled = loaded(imported, KNOWN)
    for request in ODD_REQUESTS:
        if compiled.evaluate(request).verdict == "ALLOW":
            assert peer_verdict(raw, request) == "ALLOW", request


@given(policies(clean=True))
def test_ordinary_requests_get_the_same_verdict(raw: dict[str, Any]) -> None:
    imported = carried(raw, KNOWN)
    assume(not {"left-out", "unequal"} & set(kinds(imported)))
    compiled = loaded(imported, KNOWN)
    for request in ORDINARY_REQUESTS:
        there = peer_verdict(raw, request)

        # Here a hard block is a no, and says so.
        want = "DENY" if there == "ABSTAIN" else there
        assert compiled.evaluate(request).verdict == want, request


CORE = Registry.load()


def written(**changes: Any) -> dict[str, Any]:
    then = {"verdict": "DENY", "reason_codes": ["A_CODE"], **changes.pop("then", {})}
    return {"id": "R1", "stage": "HARD_BLOCKS", "if": {"evidence.a_gt": 1}, "then": then, **changes}


def carry(raw: Any) -> tuple[RuleDraft, ImportLog]:
    diagnostics = ImportLog()
    return translate_rule(read_source("p.yml", json.dumps(raw)), diagnostics, CORE), diagnostics


def rule_kinds(diagnostics: ImportLog) -> list[str]:
    return [diagnostic.kind for diagnostic in diagnostics.found if diagnostic.kind != "kinds"]


def test_a_rule_keeps_its_id_its_place_and_its_codes() -> None:
    draft, diagnostics = carry(written(then={"reason_codes": ["A_CODE", "B_CODE", "A_CODE"]}))

    assert draft == RuleDraft(
        "R1",
        Stage.HARD_BLOCKS,
        Verdict.DENY,
        {"evidence.a": {"gt": 1}},
        "p.yml:1:1",
        ("A_CODE", "B_CODE"),
    )
    assert rule_kinds(diagnostics) == []


def test_a_rule_is_not_left_out_for_a_blank_code() -> None:
    draft, _ = carry(written(then={"reason_codes": [""]}))

    assert draft.codes == ("",)


@pytest.mark.parametrize(
    ("stage", "verdict", "to", "then", "said"),
    [
        ("REQUIREMENTS", "DENY", "REQUIREMENTS", "DENY", []),
        ("REQUIREMENTS", "ABSTAIN", "REQUIREMENTS", "ABSTAIN", []),
        ("REQUIREMENTS", "ESCALATE", "REQUIREMENTS", "ESCALATE", []),
        ("HARD_BLOCKS", "DENY", "HARD_BLOCKS", "DENY", []),
        ("HARD_BLOCKS", "ABSTAIN", "HARD_BLOCKS", "DENY", ["verdict"]),
        ("HARD_BLOCKS", "ESCALATE", "ESCALATIONS", "ESCALATE", ["moved"]),
        ("ESCALATIONS", "DENY", "HARD_BLOCKS", "DENY", ["moved"]),
        ("ESCALATIONS", "ABSTAIN", "REQUIREMENTS", "ABSTAIN", ["moved"]),
        ("ESCALATIONS", "ESCALATE", "ESCALATIONS", "ESCALATE", []),
        ("ALLOW_PATHS", "DENY", "HARD_BLOCKS", "DENY", ["moved"]),
        ("ALLOW_PATHS", "ABSTAIN", "REQUIREMENTS", "ABSTAIN", ["moved"]),
        ("ALLOW_PATHS", "ESCALATE", "ESCALATIONS", "ESCALATE", ["moved"]),
        ("ALLOW_PATHS", "ALLOW", "ALLOW_PATHS", "ALLOW", []),
    ],
)
def test_a_rule_moves_to_a_stage_that_permits_its_verdict(
    stage: str, verdict: str, to: str, then: str, said: list[str]
) -> None:
    draft, diagnostics = carry(written(stage=stage, then={"verdict": verdict}))

    assert (draft.stage, draft.verdict, draft.shadow) == (to, then, False)
    assert rule_kinds(diagnostics) == said


@pytest.mark.parametrize("stage", ["REQUIREMENTS", "HARD_BLOCKS", "ESCALATIONS"])
def test_an_allow_among_blocks_is_on_trial(stage: str) -> None:
    draft, diagnostics = carry(written(stage=stage, then={"verdict": "ALLOW"}))

    assert (draft.stage, draft.shadow) == ("ALLOW_PATHS", True)
    assert rule_kinds(diagnostics) == ["on-trial"]
    assert diagnostics.found[-1].message.startswith(f"ALLOW in {stage} contradicts itself")


def test_an_allow_that_never_matched_is_on_trial() -> None:
    raw = written(**{"stage": "ALLOW_PATHS", "if": {"action_type": "a.b"}})
    raw["then"]["verdict"] = "ALLOW"
    draft, diagnostics = carry(raw)

    assert draft.shadow
    assert rule_kinds(diagnostics) == ["never-matched", "on-trial"]


def test_a_block_that_never_matched_matches_now() -> None:
    draft, diagnostics = carry(written(**{"if": {"action_type": "a.b"}}))

    assert not draft.shadow
    assert rule_kinds(diagnostics) == ["never-matched"]


def test_queries_become_what_is_missing() -> None:
    asked = [{"field": "evidence.a", "question": "What a?"}, {"field": "evidence.b"}]
    draft, diagnostics = carry(written(then={"queries": asked}))

    assert draft.missing == ("evidence.a", "evidence.b")
    assert rule_kinds(diagnostics) == ["words-left-out"]


def test_evidence_that_a_condition_finds_missing_is_not_repeated() -> None:
    raw = written(**{"if": {"evidence.a_is": None}})
    raw["then"]["queries"] = [{"field": "evidence.a", "question": "What a?"}]

    assert carry(raw)[0].missing == ()


@pytest.mark.parametrize(
    "queries", [[{"question": "?"}], ["what?"], {"field": 5}, [{"field": " "}]]
)
def test_a_query_without_a_field_is_named(queries: Any) -> None:
    draft, diagnostics = carry(written(then={"queries": queries}))

    assert draft.missing == ()
    assert rule_kinds(diagnostics) == ["words-left-out", "words-left-out"]
    assert "names no field" in diagnostics.found[-1].message


def test_an_allow_asks_for_nothing() -> None:
    then = {"verdict": "ALLOW", "queries": [{"field": "evidence.a"}]}
    draft, diagnostics = carry(written(stage="ALLOW_PATHS", then=then))

    assert draft.missing == ()
    assert diagnostics.found[-1].message.startswith(
        "queries and obligations of an ALLOW rule are left out"
    )


def test_an_obligation_to_bring_evidence_is_what_is_missing() -> None:
    duty = {"type": "required_evidence", "fields": ["evidence.a", 5, ""]}

    assert carry(written(then={"obligations": [duty]}))[0].missing == ("evidence.a",)


@pytest.mark.parametrize(
    ("duty", "words"),
    [
        ({"type": "check", "title": "Look twice", "details": "x"}, "`check: Look twice`"),
        ({"type": "log"}, "`log`"),
        ({"type": "required_evidence", "fields": []}, "`required_evidence`"),
        ("call me", "`call me`"),
    ],
)
def test_every_other_obligation_is_named_as_left_out(duty: Any, words: str) -> None:
    draft, diagnostics = carry(written(then={"obligations": [duty]}))

    assert draft.missing == ()
    assert rule_kinds(diagnostics) == ["words-left-out"]
    assert words in diagnostics.found[-1].message


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ([], "p.yml:1:1: a rule is a mapping"),
        ({**written(), "wen": {}}, "unknown key `wen`\n  help: did you mean `when`?"),
        ({"id": "R", "stage": "HARD_BLOCKS"}, "p.yml:1:1: `then` is missing"),
        ({**written(), "then": []}, "`then` is a mapping"),
        ({"stage": "HARD_BLOCKS", "then": {}}, "`id` is missing"),
        (written(id=5), "`id` must be a text"),
        (written(stage="TRUST_PATHS"), "unknown stage `TRUST_PATHS`"),
        (written(then={"verdict": "QUERY"}), "unknown verdict `QUERY`"),
        (written(then={"reason_codes": []}), "names at least one reason code"),
        (written(then={"reason_codes": "A_CODE"}), "`reason_codes` is a list"),
        (written(then={"reason_codes": [1]}), "`reason_codes` holds texts"),
        (written(**{"if": {"evidence.a_gt": 2, "evidence.a_lt": 1}}), "no value of `evidence.a`"),
        (written(**{"if": {"amount_usd_lt": 0}}), "no value of `amount_usd`"),
        (written(**{"if": {"evidence.a_gt": "9e20"}}), "too large a number"),
    ],
)
def test_a_rule_without_a_form_here_is_refused_with_its_place(raw: Any, problem: str) -> None:
    with pytest.raises(UntranslatableError) as caught:
        carry(raw)

    assert problem in str(caught.value)
    assert str(caught.value).startswith("p.yml:1:")


def test_a_rule_without_codes_is_refused() -> None:
    raw = written()
    del raw["then"]["reason_codes"]
    with pytest.raises(UntranslatableError, match="at least one reason code"):
        carry(raw)
