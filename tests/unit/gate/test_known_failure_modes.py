"""Known failure modes of decision engines, each with a test that demur does not have it."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.gates import CORE, NOON, POLICY, TEXT, finding, gate_over, opened, refund, rows, stored

from demur.canonical import digest
from demur.codes import loading as bundling
from demur.codes.loading import parse_bundle
from demur.codes.vocabulary import Obligation, Verdict
from demur.errors import InputError, PolicyError
from demur.gate import config as configuring
from demur.gate.config import Config, close_gates, decide, load_config
from demur.gate.gate import Gate
from demur.gate.redaction import STRICT_PROFILE
from demur.memory.experience import Vector
from demur.memory.projection import HashedProjection
from demur.memory.recall import MemorySettings
from demur.model.request import read_request
from demur.policy.loader import load_policy, parse_policy
from demur.policy.policy import Policy
from demur.store.opening import open_store


def policy_of(*rules: str) -> Policy:
    head = "schema_version: policy.v1\npolicy_id: p\npolicy_version: '1'\nrules:\n"
    return parse_policy(head + "".join(f"- {rule}\n" for rule in rules), registry=CORE)


# An idempotency id is reused with a larger amount


def test_an_id_used_for_a_small_amount_does_not_allow_a_large_one() -> None:
    with opened() as gate:
        small = gate.decide(refund(20, request_id="r1"))
        large = gate.decide(refund(1_000_000, request_id="r1"))

    assert small.verdict is Verdict.ALLOW
    assert large.verdict is Verdict.DENY
    assert large.reason_codes == ("IDEMPOTENCY_CONFLICT",)


# A similar success outweighs an exact failure


def test_an_exact_failure_beats_every_success_and_stays_with_its_tenant() -> None:
    policy = policy_of(
        "{id: R, stage: ESCALATIONS, if: {action_type: refund},"
        " then: {verdict: ESCALATE, reason_codes: [APPROVAL_REQUIRED]}}"
    )
    with opened(policy, memory=MemorySettings(lift=True)) as gate:
        record = gate.decide(refund(), tenant="acme")
        gate.learn(record.decision_id, "failure")
        for _ in range(3):
            gate.learn(record.decision_id, "success")

        assert gate.decide(refund(), tenant="acme").verdict is Verdict.DENY
        assert gate.decide(refund(), tenant="globex").verdict is Verdict.ESCALATE


# Similarity scores do not mean what the thresholds say


class Corner(HashedProjection):
    """A projection into the plane, at an angle that the request names."""

    def project(self, facts: Any) -> Vector:
        """Return the direction."""
        across, up = facts["evidence"]["direction"]
        return Vector.from_values({0: across, 1: up})


@pytest.mark.parametrize(
    ("direction", "cosine"), [([1000, 0], 1.0), ([950, 312], 0.95), ([500, 866], 0.5), ([0, 9], 0)]
)
def test_similarity_is_the_cosine_and_thresholds_mean_what_they_say(
    direction: list[int], cosine: float
) -> None:
    settings = MemorySettings(block=0.94, escalate=0.49)
    with opened(memory=settings, projection=Corner()) as gate:
        taught = gate.decide(refund(evidence={"ticket_id": "T", "direction": [1000, 0]}))
        gate.learn(taught.decision_id, "failure")
        record = gate.decide(refund(evidence={"ticket_id": "T", "direction": direction}))

    score = record["risk_signals"]["failure_similarity"]["score"]
    assert score == pytest.approx(cosine, abs=1e-3)
    wanted = "DENY" if cosine >= 0.94 else "ESCALATE" if cosine >= 0.49 else "ALLOW"
    assert record.verdict == wanted


# Negative amounts and rates from the caller pass a limit


@pytest.mark.parametrize(
    "request_",
    [
        refund(-1_000_000),
        {
            **refund(evidence={"ticket_id": "T", "fx_rate_to_usd": 1e-9}),
            "action": {"type": "refund", "amount": {"value": 10**6, "currency": "XAU"}},
        },
        {
            **refund(),
            "action": {
                "type": "refund",
                "amount": {"value": 10**6, "currency": "EUR", "rate": 1e-9, "usd": 1},
                "fx_rate_to_usd": 1e-9,
            },
        },
    ],
)
def test_negative_amounts_and_caller_supplied_rates_allow_nothing(
    request_: dict[str, Any],
) -> None:
    with opened() as gate:
        assert not gate.decide(request_).may_execute


# Obligations are recorded for rules that did not match


def test_only_obligations_of_effective_matched_rules_are_recorded() -> None:
    duty = "obligations: [crisis_resources]"
    then = "then: {verdict: ESCALATE, reason_codes: [SCOPE_MISSING], "
    policy = policy_of(
        f"{{id: R1, stage: ESCALATIONS, if: {{action_type: other}}, {then}{duty}}}}}",
        f"{{id: R2, stage: ESCALATIONS, shadow: true, if: {{}}, {then}{duty}}}}}",
        f"{{id: R3, stage: ESCALATIONS, if: {{action_type: refund}}, {then}"
        "obligations: [human_review]}}",
    )
    with opened(policy) as gate:
        record = gate.decide(refund())

    assert record.shadow_rules == ("R2",)
    assert record.obligations == (Obligation.HUMAN_REVIEW,)


def test_the_loader_refuses_an_unknown_policy_section() -> None:
    for key in ("thresholds", "required_evidence"):
        with pytest.raises(PolicyError, match=f"unknown key `{key}`"):
            parse_policy(f"{TEXT}\n{key}: {{}}\n", registry=CORE)


# Examples run on another engine than the product


def test_the_shipped_examples_run_on_the_same_engine_as_the_gate() -> None:
    with pytest.raises(PolicyError, match="unknown schema version"):
        parse_policy(TEXT.replace("policy.v1", "policy.v0"), registry=CORE)
    folder = Path(__file__).parents[3] / "examples" / "policies"
    files = [path for path in sorted(folder.glob("*.yaml")) if ".test." not in path.name]
    policies = [load_policy(path) for path in files]

    assert policies
    for policy in policies:
        with opened(policy) as gate:
            assert gate.decide({"action": {"type": "nothing anybody thought of"}}).verdict


# A caller overrides the operator


def test_a_caller_cannot_override_the_operator() -> None:
    claims: dict[str, Any] = {
        "context": {"redaction": {"profile": "off"}, "mode": "advisory", "inline": "private text"},
        "extensions": {"mode": "advisory", "dry_run": True, "tenant": "other"},
        "evidence": {"ticket_id": "T", "tenant": {"id": "other"}, "approved": True},
        "subject": {"type": "agent", "id": "billing", "tenant_id": "other"},
    }
    with opened(redaction=STRICT_PROFILE) as gate:
        record = gate.decide(refund(400, **claims), tenant="acme")

        assert record.tenant == "acme"
        assert record.enforced
        assert not record.may_execute
        assert record["redaction"]["profile"] == "strict"
        assert "private text" not in json.dumps(dict(record))
        assert len(rows(gate)) == 1
        with pytest.raises(InputError, match="this gate uses `support`"):
            gate.decide(refund(policy={"policy_id": "lenient"}))
        with pytest.raises(InputError, match="no field `hints`"):
            gate.decide(refund(hints={"dry_run": True}))


# Secrets survive redaction in nested values


def test_redaction_removes_nested_secrets_from_every_part() -> None:
    secret = "s3cr3t-value"
    with opened() as gate:
        record = gate.decide(
            refund(
                evidence={"ticket_id": "T", "a": [{"b": {"apiKey": secret}}]},
                context={"inline": {"headers": {"Authorization": secret}}, "digest": "x"},
                trace={"session_token": secret},
                extensions={"deep": [[{"password": secret}]]},
            ),
            findings=[finding("SCOPE_MISSING", detail=secret, evidence={"text": [secret]})],
            signals={"seen": secret},
        )
        [row] = rows(gate)

    assert secret not in json.dumps(dict(row))
    assert secret.encode() not in (row.sealed or b"") + row.open_bytes()
    assert len(record["redaction"]["removed"]) == 5


# The record names a policy that did not decide


def test_the_record_keeps_the_policy_that_decided_after_the_file_changes(
    tmp_path: Path,
) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(TEXT, encoding="utf-8")
    policy = load_policy(path, registry=CORE)
    path.write_text(TEXT.replace("250", "1"), encoding="utf-8")
    with opened(policy) as gate:
        record = gate.decide(refund())
        kept = stored(gate).get_snapshot(record.determinism.policy_digest)
        registry = stored(gate).get_snapshot(record.determinism.registry_digest)

    assert kept is not None
    assert kept.text == TEXT
    assert parse_policy(kept.text, registry=CORE).digest == record.determinism.policy_digest
    assert registry is not None
    assert list(parse_bundle(registry.text)) == list(CORE)


# Digests depend on the spelling of a value


def test_a_digest_depends_on_the_value_and_not_on_its_spelling() -> None:
    with opened() as gate:
        whole, point = gate.decide(refund(20)), gate.decide(refund(20.0))
        with pytest.raises(InputError, match="nan is no finite number"):
            gate.decide(refund(float("nan")))
    one, two = whole.personal, point.personal

    assert one is not None
    assert two is not None
    assert one.inputs_digest == two.inputs_digest
    assert read_request(refund(20)).raw == read_request(refund(20.0)).raw
    assert one.inputs_digest == digest(
        {"request": one.request, "findings": [], "grants": [], "accepted": [], "signals": {}}
    )


# A record gives access to the policy in use


def test_no_record_can_be_used_to_change_the_policy() -> None:
    with opened() as gate:
        first = gate.decide(refund(400))
        for field in ("obligations", "reason_codes", "matched_rules", "policy"):
            first[field].clear()
        second = gate.decide(refund(400))

    assert second.obligations == (Obligation.HUMAN_REVIEW,)
    assert second.reason_codes == first.reason_codes
    assert second.policy == first.policy
    assert parse_policy(POLICY.text, registry=CORE).digest == second.policy.digest


# Refusals are lost while the store is down


def test_a_refusal_during_a_store_outage_is_in_the_spool(tmp_path: Path) -> None:
    config = Config(policy=str(tmp_path / "p.yaml"), store=str(tmp_path / "d.db"))
    Path(config.policy).write_text(TEXT, encoding="utf-8")
    with configuring.open_gate(config) as gate:
        stored(gate).backend.close()
        first = gate.decide(refund())
        follow_up = gate.decide(refund(continues=first.decision_id))
        spool = configuring.open_configured_spool(config)

        assert first.reason_codes == follow_up.reason_codes == ("STORAGE_UNAVAILABLE",)
        assert spool is not None
        assert [one.decision_id for one in spool.read().records] == [
            first.decision_id,
            follow_up.decision_id,
        ]


# Files in the working directory replace the registry


def test_files_in_the_working_directory_do_not_replace_registry_or_schemas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "schemas/reason_codes.v1.json",
        "schemas/decision_request.v1.schema.json",
        "reason_codes.v1.json",
        "demur/codes/reason_codes.v1.json",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    gate = Gate(POLICY)

    assert bundling.bundle_registry(gate.registry) == bundling.bundle_registry(CORE)
    with pytest.raises(InputError):
        gate.decide({})
    with pytest.raises(InputError):
        gate.decide({"action": {"type": 5}})


# Memory cannot be switched off, or fails the decision


def test_memory_can_be_switched_off_in_the_settings(tmp_path: Path) -> None:
    path = tmp_path / "demur.toml"
    path.write_text("memory = false\nstore = ':memory:'", encoding="utf-8")
    (tmp_path / "policy.yaml").write_text(TEXT, encoding="utf-8")
    with configuring.open_gate(load_config(path)) as gate:
        gate.learn(gate.decide(refund()).decision_id, "failure")

        assert gate.decide(refund()).verdict is Verdict.ALLOW


class Unloadable(HashedProjection):
    """A projection whose model is not there when it is needed."""

    there = True

    def project(self, facts: Any) -> Vector:
        """Return the vector, as long as the model is there."""
        if not self.there:
            message = "no model"
            raise OSError(message)
        return super().project(facts)


def test_memory_abstains_when_its_model_cannot_be_loaded() -> None:
    projection = Unloadable()
    with opened(memory=MemorySettings(), projection=projection) as gate:
        gate.learn(gate.decide(refund()).decision_id, "failure")
        projection.there = False

        assert gate.decide(refund()).verdict is Verdict.ABSTAIN


# The policy is loaded again for each decision


def test_the_policy_is_loaded_once_for_many_decisions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "policy.yaml").write_text(TEXT, encoding="utf-8")
    config = Config(policy=str(tmp_path / "policy.yaml"), store="")
    read: list[str] = []

    def counted(path: str, **more: Any) -> Policy:
        read.append(path)
        return load_policy(path, **more)

    monkeypatch.setattr(configuring, "load_policy", counted)
    try:
        for _ in range(5):
            decide(refund(), config=config)
    finally:
        close_gates()

    assert len(read) == 1


# The projection is built again for each decision


class Counting(HashedProjection):
    """A projection that counts how many were made."""

    made = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).made += 1


def test_the_projection_is_built_once_for_many_decisions() -> None:
    Counting.made = 0
    store = open_store(":memory:")
    with gate_over(store, memory=MemorySettings(), projection=Counting()) as gate:
        end = NOON + timedelta(days=1)
        gate.learn(gate.decide(refund()).decision_id, "failure", expires_at=end)
        for _ in range(5):
            gate.decide(refund())

    assert Counting.made == 1
