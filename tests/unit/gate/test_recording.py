import json
from typing import Any

import pytest
from gates import POLICY, finding, grant, opened, refund

from demur.canonical import canonical_bytes, digest_of_bytes
from demur.codes.bundle import bundle_registry
from demur.gate.redaction import NO_REDACTION
from demur.memory.settings import MemorySettings
from demur.model.record import DecisionRecord
from demur.version import __version__


def amounts(value: Any, currency: Any = "USD") -> dict[str, Any]:
    request = refund()
    request["action"]["amount"] = {"value": value, "currency": currency}
    return request


def is_canonical(record: DecisionRecord) -> bool:
    assert record.sealed is not None
    return all(
        canonical_bytes(json.loads(raw)) == raw for raw in (record.sealed, record.open_bytes())
    )


@pytest.mark.parametrize(
    "request_",
    [
        refund(),
        refund(1e-7),
        refund(1e300),
        refund(-20.5),
        refund("20"),
        refund("1e-9"),
        amounts(100, "EUR"),
        amounts(0.1, "EUR"),
        amounts(4e15, "EUR"),
        amounts(1.7e308, "EUR"),
        refund(context_ref={"context_id": "c", "n": 1e-9}),
        refund(evidence={"ticket_id": "é", "\U0001f600": 1, "\uffff": 2}),
        refund(evidence={"password": "hunter22", "ticket_id": 5}),
        refund(tenant={"id": "Zoë"}),
    ],
)
def test_both_halves_are_canonical(request_: dict[str, Any]) -> None:
    with opened() as gate:
        assert is_canonical(gate.decide(request_))
        assert is_canonical(
            gate.decide(
                request_,
                findings=[finding(evidence={"n": 1e-8, "m": 20.0})],
                grants=[grant({"action": "refund"})],
                accepted=["é"],
                signals={"s": 1e21},
            )
        )


def test_settings_of_memory_are_written_canonically_too() -> None:
    with opened(memory=MemorySettings(block=1.0, escalate=1e-6, allow=1.0)) as gate:
        gate.learn(gate.decide(refund()).decision_id, "failure")
        record = gate.decide(refund())

    assert record.determinism.memory_settings is not None
    assert is_canonical(record)


def test_a_record_names_engine_registry_and_policy_by_digest() -> None:
    with opened() as gate:
        record = gate.decide(refund())
        text = bundle_registry(gate.registry)

    assert record["determinism"] == {
        "engine_version": __version__,
        "registry_version": gate.registry.label,
        "registry_digest": digest_of_bytes(text.encode()),
        "policy_digest": POLICY.digest,
    }
    assert record["policy"] == {
        "policy_id": "support",
        "policy_version": "1.0.0",
        "digest": POLICY.digest,
        "mode": "enforce",
    }


def test_the_seal_is_the_digest_of_the_sealed_half() -> None:
    with opened() as gate:
        record = gate.decide(refund())

    assert record.sealed is not None
    assert record.sealed_digest == digest_of_bytes(record.sealed)
    assert record.seal_holds


def test_the_same_request_twice_has_another_salt_and_so_another_seal() -> None:
    with opened() as gate:
        one, two = gate.decide(refund()), gate.decide(refund())

    assert one.sealed_digest != two.sealed_digest
    assert one.personal is not None
    assert two.personal is not None
    assert one.personal.salt != two.personal.salt
    assert one.personal.fingerprint != two.personal.fingerprint
    assert one.personal.inputs_digest == two.personal.inputs_digest


@pytest.mark.parametrize(
    ("amount", "column"),
    [
        ({"value": 20, "currency": "USD"}, {"value": 20, "currency": "USD"}),
        ({"value": 20.0, "currency": "USD"}, {"value": 20, "currency": "USD"}),
        ({"value": "20.50", "currency": "USD"}, {"value": 20.5, "currency": "USD"}),
        ({"value": 1e300, "currency": "USD"}, {"value": 1e300, "currency": "USD"}),
        ({"value": "much", "currency": "USD"}, {"value": None, "currency": "USD"}),
        ({"value": "inf", "currency": "USD"}, {"value": None, "currency": "USD"}),
        ({"value": True, "currency": 5}, {"value": None, "currency": None}),
        ({"value": [1]}, {"value": None, "currency": None}),
        ({}, {"value": None, "currency": None}),
        (None, None),
    ],
)
def test_the_amount_stands_in_the_record_as_a_number_or_not_at_all(
    amount: Any, column: Any
) -> None:
    request = refund()
    request["action"]["amount"] = amount
    with opened() as gate:
        assert gate.decide(request)["amount"] == column


def test_what_was_derived_and_is_no_number_is_no_fact() -> None:
    with opened() as gate:
        record = gate.decide(amounts(1.7e308, "EUR"))

    assert record.reason_codes[0] == "EVIDENCE_INVALID"
    assert "amount_usd" not in record["facts"]
    assert record["invalid"] != []


def test_only_what_is_refused_or_granted_has_a_scope() -> None:
    with opened() as gate:
        assert gate.decide(refund())["scope"] == {}
        assert set(gate.decide(refund(400))["scope"]) == {"action", "tenant", "request"}
        granted = gate.decide(refund(), grants=[grant({"action": "refund"})])
        assert set(granted["scope"]) == {"action", "tenant", "request"}


def test_the_profile_is_on_record_also_if_nothing_was_removed() -> None:
    with opened(redaction=NO_REDACTION) as gate:
        assert gate.decide(refund())["redaction"] == {"profile": "off", "removed": []}


def test_links_to_elsewhere_are_kept() -> None:
    reference = {"context_id": "c1", "record_hash": "sha256:1"}
    with opened() as gate:
        record = gate.decide(refund(context_ref=reference, trace={"span_id": "s"}))

    assert record["context_ref"] == reference
    assert record["request"]["trace"] == {"span_id": "s"}
