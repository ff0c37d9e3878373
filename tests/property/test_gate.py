"""Properties of a gate for every request, policy, finding, grant, clock and error."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.fake_secrets import MADE
from support.gates import (
    CORE,
    NOON,
    RING,
    entropy_of,
    finding,
    gate_over,
    grant,
    opened,
    refund,
    rows,
)
from support.property_runs import examples
from support.small_policies import REQUESTS, SMALL_POLICIES

from demur.canonical import canonical_bytes
from demur.codes.vocabulary import GrantKind, Verdict
from demur.enforce.history import add_call, finish_call, last_open_call
from demur.errors import DemurError, InputError
from demur.gate.clock import IdSource
from demur.gate.engine import internal_error_result, storage_unavailable_result
from demur.gate.redaction import (
    DEFAULT_PROFILE,
    STRICT_PROFILE,
    find_profile,
    find_secret_texts,
)
from demur.guards.secret_formats import may_hold_secrets
from demur.guards.tool_loop import CallHistory, RecordedCall
from demur.memory.experience import Vector
from demur.memory.projection import HashedProjection
from demur.memory.recall import MemorySettings
from demur.model.finding import Action, Finding
from demur.policy.policy import Policy
from demur.store.linking import record_to_row

SOME = settings(max_examples=examples(60))
MANY = settings(max_examples=examples(150))

CODES = ["RCE_RISK", "SCOPE_MISSING", "DESTRUCTIVE_ACTION", "GUARDRAIL_UNAVAILABLE"]
FINDINGS = st.lists(
    st.builds(
        finding, st.sampled_from([*CODES, "CRISIS_ESCALATION"]), action=st.sampled_from(Action)
    ),
    max_size=3,
)
# DENY and ABSTAIN are both final: what could not be judged is not made worse by memory.
STRICTNESS = {Verdict.ALLOW: 0, Verdict.ESCALATE: 1, Verdict.ABSTAIN: 2, Verdict.DENY: 2}

TEXTS = st.text(max_size=12)
NUMBERS = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(
    allow_nan=False, allow_infinity=False
).filter(lambda number: not 2**53 <= abs(number) < 1e21)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXTS, JSON, max_size=3)
AMOUNTS = st.fixed_dictionaries(
    {},
    optional={
        "value": NUMBERS | TEXTS | st.sampled_from(["20", "1e-9", "1e400", ".5"]),
        "currency": st.sampled_from(["USD", "EUR", "XAU", 5, None]),
    },
)


@st.composite
def any_requests(draw: st.DrawFn) -> dict[str, Any]:
    """Draw requests of every shape that a gate takes."""
    action: dict[str, Any] = {"type": draw(st.sampled_from(["refund", "cleanup", "é", "x"]))}
    if draw(st.booleans()):
        action["amount"] = draw(AMOUNTS)
    if draw(st.booleans()):
        action["intent"] = draw(TEXTS)
    request: dict[str, Any] = {"action": action}
    for part in ("evidence", "context", "context_ref", "extensions", "trace"):
        if draw(st.integers(0, 2)) == 0:
            request[part] = draw(OBJECTS)
    if draw(st.booleans()):
        evidence = {"ticket_id": "T", "chargeback_risk": draw(st.sampled_from([0, 0.95, "high"]))}
        request["evidence"] = {**request.get("evidence", {}), **evidence}
    if draw(st.booleans()):
        request["subject"] = {"type": "agent", "id": "billing"}
    return request


# Ids


MOMENTS = st.datetimes(datetime(1901, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - as it wants it
NOISE = st.binary(min_size=10, max_size=10)


@given(st.lists(st.tuples(MOMENTS, NOISE), min_size=2, max_size=20))
@example([(NOON, b"\xff" * 10)] * 3)
def test_ids_rise_strictly_whatever_the_clock_does(steps: list[tuple[datetime, bytes]]) -> None:
    """INVARIANT: ids rise strictly, whatever the clock does."""
    times = (moment for moment, _ in steps)
    noise = (raw for _, raw in steps)
    ids = IdSource(lambda: next(times), lambda _: next(noise))
    made = [ids() for _ in steps]

    assert made == sorted(set(made))
    assert {len(one) for one in made} == {26}


# Errors


class Raising(HashedProjection):
    """A projection that raises a chosen error."""

    error: Exception | None = None

    def project(self, facts: Mapping[str, Any]) -> Vector:
        """Return the vector, or raise."""
        if self.error is not None:
            raise self.error
        return super().project(facts)


ERRORS = st.builds(
    lambda kind, words: kind(words),
    st.sampled_from(
        [ValueError, KeyError, RuntimeError, MemoryError, RecursionError, OSError, InputError]
    ),
    st.text(min_size=6, max_size=20),
)


@SOME
@given(ERRORS, REQUESTS)
def test_an_error_refuses(error: Exception, request: dict[str, Any]) -> None:
    """INVARIANT: an error refuses: it is an ABSTAIN with a runtime code."""
    for judge in (internal_error_result, storage_unavailable_result):
        decision = judge(CORE, error).decision
        assert decision.verdict is Verdict.ABSTAIN
        assert not CORE[decision.reason_codes[0]].decided
    projection = Raising()
    with opened(memory=MemorySettings(), projection=projection) as gate:
        gate.learn(gate.decide(request).decision_id, "failure")
        projection.error = error
        record = gate.decide(request)

        assert record.verdict is Verdict.ABSTAIN
        assert record.reason_codes == ("INTERNAL_ERROR",)
        assert not record.may_execute
        assert rows(gate)[-1] == record


# The operator


SIGNAL_NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,8}", fullmatch=True).map(lambda n: f"s_{n}")
SIGNAL_VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.dictionaries(SIGNAL_NAMES, inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from(["acme", "globex", "Zoë", " "])


@SOME
@given(NAMES, NAMES | st.none())
def test_the_operators_tenant_beats_the_callers(operators: str, callers: str | None) -> None:
    """INVARIANT: a request that names another tenant than the operator's is rejected."""
    request = refund() if callers is None else refund(tenant={"id": callers})
    with opened() as gate:
        try:
            record = gate.decide(request, tenant=operators)
        except InputError:
            assert callers not in {None, operators}
            assert rows(gate) == []
        else:
            assert callers in {None, operators}
            assert record.tenant == operators
            assert [row.tenant for row in rows(gate)] == [operators]


# Redaction


SECRETS = st.text('ξψЖж漢"\\\n q', min_size=6, max_size=12).map(lambda text: f"zq{text}qz")
SECRET_NAMES = st.sampled_from(["password", "apiToken", "API_KEY", "pin", "client_secrets"])


def hidden(secret: str) -> st.SearchStrategy[Any]:
    """Return values that may hold a secret anywhere."""
    leaf = st.sampled_from([secret, f"a{secret}b", f"{secret}{secret}", "plain", 5, None])
    names = st.sampled_from([secret, f"x-{secret}", "note", "list"])
    return st.recursive(
        leaf,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
        max_leaves=6,
    )


@st.composite
def leaking(draw: st.DrawFn) -> tuple[str, dict[str, Any], list[Finding], dict[str, Any]]:
    secret = draw(SECRETS)
    anything = hidden(secret)
    free = st.dictionaries(st.sampled_from(["a", "b", secret]), anything, max_size=2)
    request = refund(
        evidence={
            "ticket_id": "T-1",
            **draw(free),
            draw(SECRET_NAMES): draw(st.sampled_from([secret, [secret], {"x": secret}])),
        },
        context=draw(free),
        trace=draw(free),
        context_ref=draw(free),
        extensions=draw(free),
    )
    request["action"]["intent"] = draw(st.sampled_from([secret, f"use {secret}", "nothing"]))
    request["action"]["target"] = {"resource_id": draw(st.sampled_from([secret, "o1"]))}
    seen = [finding("SCOPE_MISSING", detail=f"saw {secret}", evidence={"x": draw(anything)})]
    signals = st.recursive(
        st.sampled_from([secret, f"a{secret}b", "plain", 5, None]),
        lambda inner: st.dictionaries(st.sampled_from(["note", "list"]), inner, max_size=2),
        max_leaves=4,
    )
    return secret, request, seen, {"model": draw(signals)}


def holds(value: Any, text: str) -> bool:
    """Return whether a JSON value contains a text anywhere."""
    if isinstance(value, str):
        return text in value
    if isinstance(value, dict):
        return any(holds(part, text) for pair in value.items() for part in pair)
    return isinstance(value, list | tuple) and any(holds(part, text) for part in value)


@MANY
@given(
    leaking(),
    st.sampled_from([DEFAULT_PROFILE, STRICT_PROFILE, find_profile("default", ["trace"])]),
)
def test_a_redacted_record_never_contains_the_removed_text(
    asked: tuple[str, dict[str, Any], list[Finding], dict[str, Any]], profile: Any
) -> None:
    """INVARIANT: a redacted record never contains the removed text."""
    secret, request, findings, signals = asked
    with opened(redaction=profile) as gate:
        record = gate.decide(request, findings=findings, signals=signals)
        [row] = rows(gate)

    assert row == record
    assert record.redaction is not None
    assert record.redaction.removed
    assert not holds(dict(record), secret)
    columns = record_to_row(record)
    assert not holds(list(columns[:15]), secret)
    for raw in (columns.record, columns.sealed or b""):
        assert not holds(json.loads(raw), secret)
        assert secret.encode() not in raw
        assert json.dumps(secret)[1:-1].encode() not in raw


@given(st.sampled_from(sorted(MADE)), hidden("%s"))
@MANY
def test_a_history_of_calls_never_contains_a_recognised_secret(kind: str, shape: Any) -> None:
    """INVARIANT: a history of calls never contains a recognised secret."""
    secret = MADE[kind]
    arguments = json.loads(json.dumps(shape).replace("%s", json.dumps(f" {secret} ")[1:-1]))
    call = RecordedCall(name="tool", arguments={"a": arguments, "b": secret}, at_s=0.0)
    history = add_call(CallHistory(), call, granted=False)
    found = last_open_call(history, "tool", call.arguments)
    assert found is not None
    history = finish_call(history, found, f"it says {secret}", failed=False)

    for text in find_secret_texts({"b": secret}):
        assert json.dumps(text)[1:-1].encode() not in msgspec.json.encode(history)


@MANY
@given(
    st.sampled_from([*MADE.values(), "pass_word: %s", "API-Key = %s", "the secret is %s", "%s"]),
    st.sampled_from(["Zq7-Rk2Wm9-Xv4Tp8", "hunter2hunter2", "\uff21KIA", "two words"]),
    st.sampled_from(["note", "Password", "api key", "access_token", "publicKey", "a" * 20]),
    hidden("%s"),
)
def test_json_without_a_mark_holds_no_secret(text: str, value: str, name: str, shape: Any) -> None:
    """INVARIANT: no search finds a secret in the texts of a JSON document that shows no mark."""
    words = text.replace("%s", value)
    nested = json.loads(json.dumps(shape).replace("%s", json.dumps(words)[1:-1]))
    for request in ({name: words}, {name: [[words]]}, {words: 1}, {"a": nested}):
        raw = json.dumps(request, ensure_ascii=False).encode()
        assert may_hold_secrets(raw) or not find_secret_texts(request)


@MANY
@given(leaking())
def test_a_removed_text_cannot_be_guessed_from_a_digest(
    asked: tuple[str, dict[str, Any], list[Finding], dict[str, Any]],
) -> None:
    """INVARIANT: no digest that is stored covers a removed text without a salt."""
    _, request, findings, signals = asked
    digests = []
    for seed in ("one", "other"):
        with opened(entropy=entropy_of(seed)) as gate:
            record = gate.decide(request, findings=findings, signals=signals)
        personal = record.personal
        assert personal is not None
        # It covers only what is stored.
        assert personal.inputs_digest
        digests.append({personal.fingerprint, personal.scope.get("request")} - {None})

    assert digests[0].isdisjoint(digests[1])


# Determinism


def decided(
    policy: Policy, request: dict[str, Any], findings: list[Finding]
) -> tuple[bytes, bytes | None]:
    with opened(policy, entropy=entropy_of("e")) as gate:
        record = gate.decide(request, findings=findings)
        assert record.chain is not None
        return record.open_bytes() + record.chain.hash.encode(), record.sealed


@SOME
@given(SMALL_POLICIES, REQUESTS, FINDINGS)
def test_the_same_clock_randomness_and_request_give_the_same_bytes(
    policy: Policy, request: dict[str, Any], findings: list[Finding]
) -> None:
    assert decided(policy, request, findings) == decided(policy, request, findings)


@MANY
@given(any_requests(), FINDINGS, st.dictionaries(SIGNAL_NAMES, SIGNAL_VALUES, max_size=2))
def test_both_halves_of_every_record_are_canonical(
    request: dict[str, Any], findings: list[Finding], signals: dict[str, Any]
) -> None:
    gate = gate_over(None)
    for beside in ({}, {"findings": findings, "signals": signals}):
        record = gate.decide(request, **beside)  # type: ignore[arg-type]

        assert record.sealed is not None
        for raw in (record.sealed, record.open_bytes()):
            assert canonical_bytes(json.loads(raw, parse_int=float)) == raw
        assert record.seal_holds
        assert json.loads(json.dumps(dict(record))) == dict(record)


# Strictness


@SOME
@given(SMALL_POLICIES, REQUESTS, FINDINGS, FINDINGS, st.sampled_from(["failure", "success", ""]))
def test_adding_a_finding_never_relaxes_what_the_gate_decides(
    policy: Policy,
    request: dict[str, Any],
    some: list[Finding],
    more: list[Finding],
    outcome: str,
) -> None:
    with opened(policy, memory=MemorySettings(lift=True)) as gate:
        if outcome:
            gate.learn(gate.decide(request).decision_id, outcome)
        before = gate.decide(request, findings=some)
        after = gate.decide(request, findings=[*some, *more])

    assert STRICTNESS[after.verdict] >= STRICTNESS[before.verdict]
    assert before.may_execute or not after.may_execute


EVERY_GRANT = [
    grant({"action": action}, kind=kind, grant_id=f"{kind} {action}", granted_to="agent:billing")
    for kind in GrantKind
    for action in ("x", "y", "z")
]
GRANTS = st.lists(st.sampled_from(EVERY_GRANT), max_size=4, unique_by=lambda one: one.grant_id)
ACCEPTED = st.lists(st.sampled_from(["dry_run", "backup"]), unique=True)


def owned(request: dict[str, Any]) -> dict[str, Any]:
    return {**request, "subject": {"type": "agent", "id": "billing"}}


@SOME
@given(SMALL_POLICIES, REQUESTS, FINDINGS, GRANTS, ACCEPTED)
def test_no_grant_or_acceptance_changes_a_hard_block_through_the_gate(
    policy: Policy,
    request: dict[str, Any],
    findings: list[Finding],
    grants: list[Any],
    accepted: list[str],
) -> None:
    with opened(policy) as gate:
        first = gate.decide(owned(request), findings=findings)
        hard = {code for code in first.reason_codes if CORE[code].refusal_class == "HARD_BLOCK"}
        ways = [
            gate.resolve(first.decision_id, grants=grants, accepted=accepted),
            gate.decide(owned(request), findings=findings, grants=grants, accepted=accepted),
            gate.decide({**owned(request), "continues": first.decision_id}, findings=findings),
        ]

    for after in ways:
        assert hard <= set(after.reason_codes)
        assert not hard & set(after.resolved_codes)
        if hard:
            assert after.verdict is first.verdict
            assert not after.may_execute
        assert set(first.obligations) <= set(after.obligations)


@SOME
@given(SMALL_POLICIES, REQUESTS, FINDINGS, GRANTS, ACCEPTED)
def test_an_unjudged_request_never_executes(
    policy: Policy,
    request: dict[str, Any],
    findings: list[Finding],
    grants: list[Any],
    accepted: list[str],
) -> None:
    unjudged = [*findings, finding("GUARDRAIL_UNAVAILABLE", action=Action.WARN)]
    with opened(policy, memory=MemorySettings(lift=True)) as gate:
        gate.learn(gate.decide(request).decision_id, "success")
        record = gate.decide(owned(request), findings=unjudged, grants=grants, accepted=accepted)
        after = gate.resolve(record.decision_id, grants=grants, accepted=accepted)

    for one in (record, after):
        assert one.verdict in {Verdict.ABSTAIN, Verdict.DENY}
        assert "GUARDRAIL_UNAVAILABLE" in one.reason_codes
        assert not one.may_execute


# Ids of requests


@SOME
@given(REQUESTS, REQUESTS, FINDINGS)
def test_one_id_is_one_decision_and_never_answers_another_question(
    one: dict[str, Any], two: dict[str, Any], findings: list[Finding]
) -> None:
    with opened() as gate:
        first = gate.decide({**one, "request_id": "r"})
        again = gate.decide({**one, "request_id": "r"})
        other = gate.decide({**two, "request_id": "r"}, findings=findings)

    assert again == first
    same = canonical_bytes(one) == canonical_bytes(two) and not findings
    assert (other == first) is same
    if not same:
        assert other.reason_codes == ("IDEMPOTENCY_CONFLICT",)


@SOME
@given(any_requests(), st.integers(1, 4), st.lists(st.integers(0, 5), min_size=1, max_size=5))
def test_attempts_run_out_whatever_is_continued(
    request: dict[str, Any], most: int, choices: list[int]
) -> None:
    with opened(attempts=most) as gate:
        made = [gate.decide(request)]
        for choice in choices:
            earlier = made[choice % len(made)]
            made.append(gate.decide({**request, "continues": earlier.decision_id}))

    assert [record.attempt for record in made] == list(range(1, len(made) + 1))
    for record in made:
        assert record.attempts_left is (record.attempt < most)
        if not record.attempts_left:
            assert record.decision_output != "NEED_CONTEXT"


@SOME
@given(st.integers(-3600, 7200))
def test_a_grant_counts_exactly_as_long_as_it_says(seconds: int) -> None:
    now = NOON + timedelta(seconds=seconds)
    gate = gate_over(None, clock=lambda: now, keys=RING)
    record = gate.decide(refund(400), grants=[grant({"action": "refund"})])

    lasts = timedelta(hours=-1) <= timedelta(seconds=seconds) < timedelta(hours=1)
    assert (record.verdict is Verdict.ALLOW) is lasts


@SOME
@given(st.data())
def test_nothing_but_our_own_errors_leaves_a_gate_that_resolves(data: st.DataObject) -> None:
    with opened() as gate:
        first = gate.decide(refund(400))
        wanted = data.draw(st.sampled_from([first.decision_id, "", "01J", 5, None, b"x", "\ud800"]))
        try:
            gate.resolve(wanted, accepted=data.draw(ACCEPTED))  # type: ignore[arg-type]
        except DemurError:
            assert wanted != first.decision_id
