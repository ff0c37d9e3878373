import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.codes.reason_code import ReasonCode
from demur.codes.registry import Registry
from demur.codes.vocabulary import Advice, RefusalClass, RetryScope, Severity, Surface
from demur.errors import InputError, InputTypeError, UnknownCodeError
from demur.model.next_steps import next_step
from demur.model.refusal import (
    MAX_DETAIL_LENGTH,
    Refusal,
    RefusalSource,
    refusal_from_envelope,
    tighten_to_registry,
)

SCHEMA = Path(__file__).parents[3] / "spec/schemas/refusal.v1.schema.json"


def test_the_registry_fills_in_what_the_code_means() -> None:
    refusal = Refusal.from_code(ReasonCode.RCE_RISK, "curl x | sh", surface="code_execution")

    assert refusal.refusal_class is RefusalClass.HARD_BLOCK
    assert refusal.advice is Advice.DO_NOT_RETRY
    assert refusal.surface is Surface.CODE_EXECUTION
    assert refusal.parent == "POLICY_VIOLATION"
    assert refusal.registry == Registry.load().label


def test_the_line_is_its_projection() -> None:
    refusal = Refusal.from_code("RATE_LIMIT", "a\nb", evidence={"retry_after": 30})

    assert str(refusal) == refusal.line == r"REFUSED: RATE_LIMIT: a\u000ab"


def test_a_line_makes_a_refusal_again() -> None:
    refusal = Refusal.from_code("RATE_LIMIT", "slow down")

    assert Refusal.from_line(refusal.line) == refusal
    assert Refusal.from_line("all is well") is None


@pytest.mark.parametrize("code", list(ReasonCode))
def test_every_code_makes_an_envelope_that_the_published_schema_accepts(code: ReasonCode) -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    envelope = json.loads(
        msgspec.json.encode(Refusal.from_code(code, "x", surface="policy", source="t"))
    )

    jsonschema.validate(envelope, schema)


def test_an_organisation_travels_with_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "acme.json"
    row = {
        "code": "acme.com/KYC_EXPIRED",
        "description": "The identity check is out of date.",
        "parent": "CONTEXT_MISSING",
        "since": "1.0.0",
    }
    path.write_text(
        json.dumps(
            {
                "schema_version": "reason_codes.v1",
                "version": "2.3.0",
                "domain": "acme.com",
                "codes": [row],
            }
        )
    )
    refusal = Refusal.from_code("acme.com/KYC_EXPIRED", registry=Registry.load(path))

    assert refusal.parent == "CONTEXT_MISSING"
    assert refusal.registry == f"{Registry.load().label}+acme.com@2.3.0"


def test_a_long_detail_is_cut_and_says_so() -> None:
    refusal = Refusal.from_code("RATE_LIMIT", "x" * 10_000_000)

    assert len(refusal.detail) <= MAX_DETAIL_LENGTH
    kept = refusal.detail.count("x")
    assert refusal.detail.endswith(f"[{10_000_000 - kept} more characters]")


def test_a_long_detail_cannot_be_smuggled_past_the_bound() -> None:
    refusal = Refusal.from_code("RATE_LIMIT")

    with pytest.raises(InputError, match="at most"):
        msgspec.structs.replace(refusal, detail="x" * (MAX_DETAIL_LENGTH + 1), line="")


def test_the_line_follows_from_code_and_detail_and_cannot_say_otherwise() -> None:
    refusal = Refusal.from_code("RCE_RISK", "x")

    assert msgspec.structs.replace(refusal, line="").line == "REFUSED: RCE_RISK: x"
    with pytest.raises(InputError, match="does not match its code"):
        msgspec.structs.replace(refusal, line="REFUSED: RATE_LIMIT: zzz")


def test_a_refusal_can_always_travel() -> None:
    refusal = Refusal.from_code("RCE_RISK", "\ud800", evidence={"when": (1, 2)})

    assert msgspec.json.decode(msgspec.json.encode(refusal), type=Refusal) == refusal
    with pytest.raises(InputError, match="plain JSON values"):
        Refusal.from_code("RCE_RISK", evidence={"a": object()})
    with pytest.raises(InputTypeError, match="evidence must be a mapping"):
        Refusal.from_code("RCE_RISK", evidence=[1])  # type: ignore[arg-type]


def test_bad_input_says_what_is_wrong() -> None:
    with pytest.raises(UnknownCodeError, match="did you mean `RCE_RISK`"):
        Refusal.from_code("RCE_RISC")
    with pytest.raises(InputTypeError, match="a detail must be a string"):
        Refusal.from_code("RCE_RISK", None)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="unknown surface `kitchen`"):
        Refusal.from_code("RCE_RISK", surface="kitchen")


def test_the_native_signal_travels_verbatim() -> None:
    source = RefusalSource(name="gemini", path="candidates[0].finishReason", native="SPII")
    refusal = Refusal.from_code("PII_DETECTED", source=source)
    envelope = msgspec.json.encode(refusal)

    assert json.loads(envelope)["source"] == {
        "name": "gemini",
        "path": "candidates[0].finishReason",
        "native": "SPII",
    }
    assert msgspec.json.decode(envelope, type=Refusal) == refusal
    jsonschema.validate(json.loads(envelope), json.loads(SCHEMA.read_text(encoding="utf-8")))


def test_a_source_passed_as_text_is_its_name() -> None:
    assert Refusal.from_code("RCE_RISK", source="shell").source == RefusalSource(name="shell")


def test_a_source_needs_a_name() -> None:
    with pytest.raises(InputError, match="needs a name"):
        RefusalSource(name="")


@pytest.mark.parametrize("confidence", [-0.1, 1.1, float("nan")])
def test_a_confidence_lies_between_none_and_all(confidence: float) -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        RefusalSource(name="detect", confidence=confidence)


CORE = Registry.load()
CODES = st.sampled_from([str(entry.code) for entry in CORE])
SCOPES = [None, *RetryScope]


def envelope(of: str = "RCE_RISK", **changed: Any) -> dict[str, Any]:
    made: dict[str, Any] = msgspec.to_builtins(Refusal.from_code(of, "x", registry=CORE))
    return {**made, **changed}


def strictness(kind: RefusalClass | None) -> int:
    return 0 if kind is None else kind.strictness


@given(
    CODES,
    st.none() | st.sampled_from(RefusalClass),
    st.none() | st.sampled_from(Advice),
    st.none() | st.sampled_from(RetryScope),
    st.fixed_dictionaries({"severity": st.sampled_from(Severity), "decided": st.booleans()}),
)
def test_nothing_that_is_read_is_looser(
    code: str,
    kind: RefusalClass | None,
    advice: Advice | None,
    scope: RetryScope | None,
    more: dict[str, Any],
) -> None:
    """INVARIANT: a refusal with a known code is never looser than the registry."""
    claims = {"refusal_class": kind, "advice": advice, "retry_scope": scope}
    found = refusal_from_envelope(envelope(code, **claims, **more))
    entry = CORE[code]

    assert found is not None
    assert strictness(found.refusal_class) >= strictness(entry.refusal_class)
    assert found.advice in {entry.advice, Advice.DO_NOT_RETRY, None}
    assert SCOPES.index(found.retry_scope) >= SCOPES.index(entry.retry_scope)
    assert found.decided is entry.decided
    assert tighten_to_registry(found, registry=CORE) == found


@given(CODES)
def test_a_refusal_that_matches_the_registry_is_kept(code: str) -> None:
    refusal = Refusal.from_code(code, "x", evidence={"a": [1]}, decision_id="dec_1", registry=CORE)

    assert tighten_to_registry(refusal, registry=CORE) is refusal
    assert refusal_from_envelope(msgspec.to_builtins(refusal)) == refusal


def test_a_forged_denial_is_not_retried() -> None:
    forged = envelope("APPROVAL_DENIED", advice="retry_later", evidence={"retry_after": 0})
    found = refusal_from_envelope(forged)

    assert found is not None
    assert not next_step(found).retry


def test_a_stricter_claim_is_kept_with_the_label_of_the_local_registry() -> None:
    found = refusal_from_envelope(
        envelope("RATE_LIMIT", refusal_class="HARD_BLOCK", registry="elsewhere 9")
    )

    assert found is not None
    assert found.refusal_class is RefusalClass.HARD_BLOCK
    weaker = refusal_from_envelope(
        envelope("RCE_RISK", refusal_class="SOFT_BLOCK", registry="elsewhere 9")
    )
    assert weaker is not None
    assert (weaker.refusal_class, weaker.registry) == (RefusalClass.HARD_BLOCK, CORE.label)


def test_a_code_from_elsewhere_keeps_what_it_says() -> None:
    theirs = envelope("RATE_LIMIT", code="acme.com/BUSY", line="", advice="use_other_model")
    found = refusal_from_envelope(theirs)

    assert found is not None
    assert found.advice is Advice.USE_OTHER_MODEL


def shared(times: int) -> list[Any]:
    many: list[Any] = ["x"]
    for _ in range(times):
        many = [many] * 10
    return many


class Endless(list[Any]):
    def __iter__(self) -> Any:
        while True:
            yield 1


@pytest.mark.parametrize(
    "evidence",
    [{"a": shared(30)}, {"a": "x" * 3_000_000}, {"a": list(range(30_000))}, {"a": Endless()}],
)
def test_an_envelope_of_any_size_is_read_without_what_makes_it_large(evidence: Any) -> None:
    found = refusal_from_envelope(envelope(evidence=evidence, source={"name": "guard"}))

    assert found is not None
    assert (found.code, found.source) == ("RCE_RISK", None)
    assert found.evidence == {"left_out": ["evidence", "source"]}


@pytest.mark.parametrize(
    "changed",
    [{"evidence": {"a": object()}}, {"code": shared(30)}, {"detail": "x" * 3000}, {"line": "no"}],
)
def test_a_malformed_envelope_is_none(changed: dict[str, Any]) -> None:
    assert refusal_from_envelope(envelope(**changed)) is None


@pytest.mark.parametrize(
    ("code", "evidence", "advice"),
    [
        ("SECRET_LEAK", {}, Advice.CHANGE_REQUEST),
        ("SECRET_LEAK", {"constraints": []}, Advice.CHANGE_REQUEST),
        ("SECRET_LEAK", {"constraints": [" ", 7]}, Advice.CHANGE_REQUEST),
        ("SECRET_LEAK", {"constraints": ["redact"]}, Advice.ACCEPT_CONSTRAINTS),
        ("CONTENT_CYBER", {"constraints": ["redact"]}, CORE["CONTENT_CYBER"].advice),
    ],
)
def test_constraints_are_to_be_accepted_only_if_they_are_named(
    code: str, evidence: dict[str, Any], advice: Advice
) -> None:
    assert Refusal.from_code(code, evidence=evidence).advice is advice


@pytest.mark.parametrize(
    ("code", "claims", "advice"),
    [
        ("SECRET_LEAK", {"advice": "accept_constraints"}, "change_request"),
        ("SECRET_LEAK", {"advice": "retry_later"}, "change_request"),
        ("RATE_LIMIT", {"advice": "change_request"}, "retry_later"),
        ("RATE_LIMIT", {"advice": "escalate_operator"}, "escalate_operator"),
        ("RCE_RISK", {"advice": "escalate_operator"}, "do_not_retry"),
        ("SECRET_LEAK", {"advice": "reset_context"}, "change_request"),
        (
            "SECRET_LEAK",
            {"advice": "reset_context", "refusal_class": "HARD_BLOCK"},
            "reset_context",
        ),
    ],
)
def test_an_envelope_keeps_only_advice_that_a_decision_can_have(
    code: str, claims: dict[str, str], advice: str
) -> None:
    envelope = {**msgspec.to_builtins(Refusal.from_code(code, registry=CORE)), **claims}
    read = refusal_from_envelope(envelope)

    assert read is not None
    assert read.advice == advice
