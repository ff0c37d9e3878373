from datetime import UTC, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from gates import CORE, NOON, finding, grant, opened, refund, rows

from demur.errors import DemurError, InputError, InputTypeError, UnknownCodeError
from demur.gate.asking import PreparedRequest, Inputs, prepare_request, inputs_digest, grant_scope
from demur.gate.redaction import DEFAULT_PROFILE, NO_REDACTION, STRICT_PROFILE, RedactionProfile
from demur.model.finding import Action, Finding, Span


def asked(
    request: dict[str, Any] | None = None, profile: RedactionProfile = DEFAULT_PROFILE, **more: Any
) -> PreparedRequest:
    return prepare_request(
        refund() if request is None else request,
        Inputs(**more),
        registry=CORE,
        profile=profile,
        now=NOON,
    )


# What cannot be used is an error with its place, and nothing is stored


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def cycle() -> Any:
    loop: dict[str, Any] = {}
    loop["again"] = loop
    return loop


@pytest.mark.parametrize(
    ("part", "where"),
    [
        (float("nan"), "evidence.x"),
        (float("inf"), "evidence.x"),
        (-float("inf"), "evidence.x"),
        (2**53, "evidence.x"),
        (10**400, "evidence.x"),
        (1e18, "evidence.x"),
        ([{"n": -(2.0**53)}], "evidence.x.0.n"),
        (nested(200), "evidence.x.0.0.0.0.0.0.…"),
        (cycle(), "evidence.x.again.again.again.again.again.again.…"),
        ("a" * 1_000_000, "evidence"),
        ("\ud800", "evidence.x"),
        ({1: "one"}, "evidence.x"),
        ({None: "none"}, "evidence.x"),
        ([{"\udfff": 1}], "evidence.x.0"),
        (b"bytes", "evidence.x"),
        (bytearray(b"bytes"), "evidence.x"),
        (Decimal("1.5"), "evidence.x"),
        (datetime(2026, 1, 1, tzinfo=UTC), "evidence.x"),
        ({1, 2}, "evidence.x"),
        (object(), "evidence.x"),
        (1j, "evidence.x"),
        (iter([]), "evidence.x"),
    ],
    ids=lambda part: type(part).__name__,
)
def test_a_value_that_is_no_json_is_an_error_with_its_path_and_stores_nothing(
    part: object, where: str
) -> None:
    with opened() as gate:
        with pytest.raises(InputError) as caught:
            gate.decide(refund(evidence={"x": part}))

        assert caught.value.where == where
        assert caught.value.help
        assert rows(gate) == []


@pytest.mark.parametrize(
    ("findings", "where"),
    [
        ([finding(evidence={"a": {"b": float("nan")}})], "findings.0.evidence.a.b"),
        ([finding(), finding(evidence={"a": b"x"})], "findings.1.evidence.a"),
        ([finding(evidence=[1])], "findings.0.evidence"),
        ([finding(detail=b"x")], "findings.0.detail"),
        ([finding(detail="\ud800")], "findings.0.detail"),
        ([finding(detail=object())], "findings.0"),
        ([finding(surface="nowhere")], "findings.0.surface"),
        ([finding(span=(1, 2))], "findings.0.span"),
        ([finding(5)], "findings.0.code"),  # type: ignore[arg-type]
    ],
)
def test_a_finding_that_cannot_be_recorded_is_an_error_with_its_place(
    findings: list[Finding], where: str
) -> None:
    with pytest.raises(InputError) as caught:
        asked(findings=findings)

    assert caught.value.where == where


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"findings": 5}, "a list of Finding"),
        ({"findings": ["RCE_RISK"]}, "a Finding"),
        ({"findings": [grant({"action": "refund"})]}, "a Finding"),
        ({"grants": ["g1"]}, "a Grant"),
        ({"accepted": "dry_run"}, "not one string"),
        ({"accepted": [5]}, "a string"),
        ({"accepted": [[]]}, "a list of strings"),
        ({"signals": [1]}, "a mapping"),
        ({"tenant": 5}, "a name"),
        ({"tenant": b"acme"}, "a name"),
    ],
)
def test_what_has_the_wrong_type_beside_a_request_is_an_error(
    given: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InputTypeError, match=problem):
        asked(**given)


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"tenant": ""}, "tenant"),
        ({"tenant": "x" * 257}, "tenant"),
        ({"tenant": "\ud800"}, "tenant"),
        ({"accepted": ["\ud800"]}, "accepted.0"),
        ({"accepted": [" "]}, None),
        ({"signals": {"a": [float("nan")]}}, "signals.a.0"),
        ({"signals": {"a": b"x"}}, "signals.a"),
        ({"signals": {"failure_similarity": {}}}, "signals.failure_similarity"),
        ({"signals": {"uncertainty_score": 0.5}}, "signals.uncertainty_score"),
    ],
)
def test_what_cannot_be_recorded_beside_a_request_is_an_error_with_its_place(
    given: dict[str, Any], where: str | None
) -> None:
    with pytest.raises(InputError) as caught:
        asked(**given)

    assert caught.value.where == where


def test_a_code_that_nobody_registered_is_an_error() -> None:
    with pytest.raises(UnknownCodeError, match="RCE_RISC"):
        asked(findings=[finding("RCE_RISC")])


def test_a_grant_with_a_scope_of_the_wrong_kind_is_an_error() -> None:
    genuine = grant({"action": "refund"})
    forged = type(genuine)(
        **{
            **{name: getattr(genuine, name) for name in genuine.__struct_fields__},
            "scope": MappingProxyType({"action": "refund"}),
        }
    )
    with pytest.raises(DemurError) as caught:
        asked(grants=[forged])

    assert caught.value.where == "grants.0"


# What came in beside the request


def test_findings_are_copied_in_plain_types() -> None:
    evidence = {"spans": [1]}
    one = finding(evidence=MappingProxyType(evidence), span=Span(start=1, end=2))
    seen = asked(findings=[one]).beside.findings
    evidence["spans"].append(2)

    assert seen[0].evidence == {"spans": [1]}
    assert seen[0].span == Span(start=1, end=2)


def test_a_grant_survives_being_copied() -> None:
    given = grant({"action": "refund"})

    assert asked(grants=[given]).beside.grants == (given,)


def test_what_is_handed_in_may_be_used_up_by_reading() -> None:
    question = asked(findings=iter([finding()]), accepted=iter(["dry_run", "dry_run"]))

    assert len(question.beside.findings) == 1
    assert question.beside.accepted == ("dry_run",)
    assert not question.beside.is_empty
    assert asked(signals={}).beside.is_empty


# Digests


def test_the_digest_of_the_inputs_is_the_same_by_the_short_way_and_the_long_one() -> None:
    for request in (refund(), refund(1e-7), refund(evidence={"é": "ü", "\U0001f600": 1})):
        question = asked(request, NO_REDACTION)

        assert question.inputs_digest() == inputs_digest(
            question.redacted.request, question.stored_inputs
        )


def test_the_fingerprint_changes_with_everything_that_was_asked() -> None:
    questions = [
        asked(),
        asked(refund(21)),
        asked(findings=[finding()]),
        asked(findings=[finding(), finding()]),
        asked(findings=[finding(surface="output")]),
        asked(findings=[finding(action="warn")]),
        asked(accepted=["dry_run"]),
        asked(signals={"a": 1}),
        asked(grants=[grant({"action": "refund"})]),
    ]

    assert len({question.fingerprint("salt") for question in questions}) == len(questions)
    assert asked().fingerprint("salt") == asked().fingerprint("salt")
    assert asked().fingerprint("salt") != asked().fingerprint("other")


def test_a_secret_changes_the_fingerprint_and_not_what_is_recorded() -> None:
    one, two = (asked(refund(evidence={"password": word})) for word in ("hunter2", "hunter3"))

    assert one.fingerprint("s") != two.fingerprint("s")
    assert one.inputs_digest() == two.inputs_digest()


# The scope


def test_the_scope_names_action_tenant_target_and_the_very_request() -> None:
    target = {"system": "shop", "resource_type": "order", "resource_id": "o1", "more": 5}
    request = refund()
    request["action"]["target"] = target
    scope = grant_scope(asked(request, tenant="acme"))

    assert {key: scope[key] for key in scope if key != "request"} == {
        "action": "refund",
        "tenant": "acme",
        "system": "shop",
        "resource_type": "order",
        "resource_id": "o1",
    }


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"request_id": "other"}, True),
        ({"continues": "01J"}, True),
        ({"trace": {"span": 1}}, True),
        ({"evidence": {"ticket_id": "T-2"}}, False),
        ({"context": {"inline": "x"}}, False),
        ({"subject": {"id": "other"}}, False),
        ({"action": {"type": "refund", "amount": {"value": 20, "currency": "EUR"}}}, False),
    ],
)
def test_the_scope_stays_the_same_while_the_same_thing_is_asked(
    change: dict[str, Any], same: bool
) -> None:
    before, after = (grant_scope(asked(request)) for request in (refund(), refund(**change)))

    assert (before["request"] == after["request"]) is same


def test_unusual_numbers_do_not_change_the_way_a_scope_is_made() -> None:
    digests = {grant_scope(asked(refund(value)))["request"] for value in (1e-7, 1e-8, 20, 20.0)}

    assert len(digests) == 3


def test_a_target_that_may_not_be_stored_is_no_part_of_the_scope() -> None:
    request = refund()
    request["action"]["target"] = {"system": "shop", "resource_id": "hunter22"}
    profile = DEFAULT_PROFILE._replace(paths=("action.target.resource_id",))
    scope = grant_scope(asked(request, profile))

    assert set(scope) == {"action", "tenant", "system", "request"}
    assert grant_scope(asked(request))["resource_id"] == "hunter22"


@pytest.mark.parametrize("target", [None, {}, {"system": 5, "resource_id": ""}])
def test_a_target_that_names_nothing_is_left_out(target: Any) -> None:
    request = refund()
    request["action"]["target"] = target

    assert set(grant_scope(asked(request))) == {"action", "tenant", "request"}


# What may be recorded


def test_removed_texts_are_taken_out_of_what_guards_quoted_too() -> None:
    question = asked(
        refund(evidence={"password": "hunter22"}),
        findings=[finding(detail="saw hunter22", evidence={"hunter22": ["hunter22!"]})],
        signals={"note": "hunter22"},
    )
    recorded = question.stored_inputs

    assert recorded.findings[0].detail == "saw [removed]"
    assert recorded.findings[0].evidence == {"[removed]": ["[removed]!"]}
    assert recorded.signals == {"note": "[removed]"}


def test_a_strict_profile_keeps_no_quotes_of_guards() -> None:
    least = finding(span=Span(start=0, end=3), action=Action.WARN)
    seen = msgspec.structs.replace(least, detail="a quote", evidence={"quote": "a"})
    [kept] = asked(profile=STRICT_PROFILE, findings=[seen]).stored_inputs.findings

    assert kept == least
    assert asked(findings=[seen]).stored_inputs.findings == (seen,)
