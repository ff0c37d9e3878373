import copy
import json
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
from support.gates import cleanup, finding, grant, opened, refund
from support.store_records import make_record

from demur.canonical import canonical_bytes
from demur.codes.vocabulary import Verdict
from demur.errors import InputError
from demur.model.record import (
    Amount,
    ChainLink,
    DecisionRecord,
    Determinism,
    FrozenDict,
    ModelRef,
    freeze_json,
)

RECORD = make_record(
    context_ref={"context_id": "c", "list": [1]}, sealed={"facts": {"amount_usd": 400}}
)


# As a mapping


def test_a_record_is_a_mapping_of_plain_json() -> None:
    assert isinstance(RECORD, Mapping)
    assert RECORD["reason_codes"] == ["REFUND_OVER_ESCALATION_LIMIT"]
    assert all(type(code) is str for code in RECORD["reason_codes"])
    assert type(RECORD["verdict"]) is str
    assert json.loads(json.dumps(dict(RECORD))) == dict(RECORD)


def test_both_halves_read_as_one_without_salt_and_bytes() -> None:
    names = set(RECORD)

    assert {"verdict", "chain", "request", "facts", "risk_signals"} <= names
    assert not {"sealed", "salt", "fingerprint"} & names
    assert len(RECORD) == len(list(RECORD)) == len(names)
    assert RECORD["request"]["action"]["type"] == "refund"
    assert RECORD["requester"] == "user:ada"


def test_it_reads_like_a_dict() -> None:
    assert "verdict" in RECORD
    assert "facts" in RECORD
    assert "salt" not in RECORD
    assert 5 not in RECORD
    assert RECORD.get("verdict") == "ESCALATE"
    assert RECORD.get("nothing") is None
    assert RECORD.get("nothing", 5) == 5
    assert (
        dict(RECORD.items())
        == dict(RECORD)
        == dict(zip(RECORD.keys(), RECORD.values(), strict=True))
    )
    assert list(RECORD.keys()) == list(RECORD)
    with pytest.raises(KeyError, match="salt"):
        RECORD["salt"]
    match RECORD:
        case {"verdict": "ESCALATE", "amount": {"value": value}}:
            assert value == 400
        case _:
            pytest.fail("a record matches like a mapping")


def test_the_mapping_returns_copies() -> None:
    before = json.dumps(dict(RECORD))
    for name in RECORD:
        value = RECORD[name]
        if isinstance(value, dict | list):
            value.clear()

    assert json.dumps(dict(RECORD)) == before


def test_once_erased_the_sealed_half_reads_as_nothing() -> None:
    erased = msgspec.structs.replace(RECORD, sealed=None)

    assert erased.personal is None
    assert erased["request"] is None
    assert erased.seal_holds
    assert erased.open_bytes() == RECORD.open_bytes()


# Frozen


def test_no_attribute_can_be_set() -> None:
    for part, name in (
        (RECORD, "verdict"),
        (RECORD.policy, "mode"),
        (RECORD.explanation, "details"),
    ):
        with pytest.raises(AttributeError):
            setattr(part, name, "x")


def test_nothing_within_can_be_changed() -> None:
    reference = RECORD.context_ref
    assert reference is not None
    with pytest.raises(TypeError, match="a record is immutable"):
        reference["x"] = 1  # type: ignore[index]
    assert reference["list"] == (1,)
    settings = Determinism(
        engine_version="1",
        registry_version="1",
        registry_digest="1",
        policy_digest="1",
        memory_settings={"block": 1},
    ).memory_settings
    with pytest.raises(TypeError, match="a record is immutable"):
        settings["block"] = 2  # type: ignore[index]


def test_changing_the_personal_part_in_hand_changes_no_record() -> None:
    personal = RECORD.personal
    assert personal is not None
    personal.request["action"].clear()

    assert RECORD["request"]["action"]["type"] == "refund"
    assert RECORD.seal_holds


def test_a_record_has_a_hash_and_equals_itself_read_back() -> None:
    back = msgspec.json.decode(RECORD.open_bytes(), type=DecisionRecord)

    assert msgspec.structs.replace(back, sealed=RECORD.sealed) == RECORD
    plain = make_record()
    assert hash(plain) == hash(make_record())
    models = {"guard": ModelRef(model="guard-1", digest="sha256:1")}
    scored = msgspec.structs.replace(plain.determinism, models=models)
    assert hash(scored) == hash(msgspec.structs.replace(scored))


# Bytes


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"amount": None},
        {"amount": Amount(value=1e-7, currency="USD")},
        {"amount": Amount(value=0.1, currency="é")},
        {"amount": Amount(value=-1.5, currency=None)},
        {"amount": Amount(value=1e21, currency="USD")},
        {"amount": Amount(value=-5, currency="USD")},
        {"amount": Amount(value=None, currency="USD")},
        {"context_ref": {"n": 20.0, "\U0001f600": 1, "\uffff": 2}},
        {"tenant": "Zoë\n\x7f\u2028"},
        {
            "determinism": Determinism(
                engine_version="1",
                registry_version="1",
                registry_digest="1",
                policy_digest="1",
                memory_settings={"block": 1.0, "escalate": 1e-6},
            )
        },
    ],
)
def test_the_open_half_is_written_canonically(more: dict[str, Any]) -> None:
    raw = make_record(**more).open_bytes()

    assert canonical_bytes(json.loads(raw)) == raw


def test_neither_the_sealed_half_nor_the_place_is_part_of_the_open_one() -> None:
    link = ChainLink(seq=1, previous="sha256:0", hash="sha256:1")
    placed = msgspec.structs.replace(RECORD, chain=link)

    assert placed.open_bytes() == RECORD.open_bytes()
    assert b"ada" not in RECORD.open_bytes()
    assert RECORD.sealed_digest.encode() in RECORD.open_bytes()


def test_another_sealed_half_breaks_the_seal() -> None:
    forged = msgspec.structs.replace(RECORD, sealed=RECORD.sealed and RECORD.sealed + b" ")

    assert RECORD.seal_holds
    assert not forged.seal_holds


@pytest.mark.parametrize("sealed", [b"", b"{}", b'{"salt":5}', b"\xff", b"[" * 5000])
def test_a_sealed_half_that_somebody_else_wrote_is_an_error_of_ours(sealed: bytes) -> None:
    forged = msgspec.structs.replace(RECORD, sealed=sealed)
    with pytest.raises(InputError, match="cannot be read") as caught:
        forged["request"]

    assert caught.value.where == RECORD.decision_id


# As a decision


@pytest.mark.parametrize(
    ("verdict", "enforced", "may"),
    [
        (Verdict.ESCALATE, True, False),
        (Verdict.ESCALATE, False, True),
    ],
)
def test_an_unenforced_verdict_may_execute(verdict: Verdict, enforced: bool, may: bool) -> None:
    assert make_record(verdict=verdict, enforced=enforced).may_execute is may


def test_the_decision_in_a_record_equals_the_original() -> None:
    with opened() as gate:
        records = [
            gate.decide(refund()),
            gate.decide(refund(400), findings=[finding("SCOPE_MISSING")]),
            gate.decide(cleanup(), accepted=["dry_run"]),
            gate.decide(
                refund(400), grants=[grant({"action": "refund"}), grant({"x": "y"}, grant_id="g2")]
            ),
        ]

    for record in records:
        decision = record.decision
        for name in set(decision.__struct_fields__) - {"requester", "scope", "unusable"}:
            assert getattr(decision, name) == getattr(record, name)
        assert decision.requester == record["requester"] == "agent:billing"
        assert decision.scope == record["scope"]
        assert msgspec.structs.replace(record, sealed=None).decision.requester is None


CHANGES: list[Callable[[dict[str, Any]], object]] = [
    lambda value: value.__setitem__("b", 1),
    lambda value: value.__delitem__("a"),
    lambda value: value.__ior__({"b": 1}),
    lambda value: value.update(b=1),
    lambda value: value.setdefault("b", 1),
    lambda value: value.pop("a"),
    lambda value: value.popitem(),
    lambda value: value.clear(),
]


@pytest.mark.parametrize("change", CHANGES)
def test_frozen_json_refuses_every_change(change: Callable[[dict[str, Any]], object]) -> None:
    value = freeze_json({"a": {"deep": [1]}})
    for part in (value, value["a"]):
        with pytest.raises(TypeError, match="a record is immutable"):
            change(part)

    assert value == {"a": {"deep": (1,)}}


def test_freezing_copies() -> None:
    inner = [1]
    value = freeze_json({"a": inner})
    inner.append(2)

    assert value["a"] == (1,)


def test_every_encoder_writes_it_like_any_other() -> None:
    value = freeze_json({"b": [1, {"c": None}], "a": "x"})
    plain = {"b": [1, {"c": None}], "a": "x"}

    assert json.loads(json.dumps(value)) == plain
    assert msgspec.json.decode(msgspec.json.encode(value)) == plain
    assert canonical_bytes(value) == canonical_bytes(plain)


def test_copies_are_frozen_too_and_a_dict_of_it_is_not() -> None:
    value = freeze_json({"a": [1]})
    for copied in (copy.deepcopy(value), pickle.loads(pickle.dumps(value))):  # noqa: S301 - our own
        assert copied == value
        assert isinstance(copied, FrozenDict)
    assert {**value, "b": 2} == {"a": (1,), "b": 2}


def test_the_leading_code_of_an_old_record_is_the_strictest_then_the_most_severe() -> None:
    with opened() as gate:
        record = gate.decide(refund(400), findings=[finding("RCE_RISK"), finding("PII_DETECTED")])
    old = msgspec.structs.replace(record, recorded_lead=None)

    assert old.leading_code == record.leading_code == old["leading_code"] == "RCE_RISK"
    assert b"leading_code" not in old.open_bytes()
    unknown = msgspec.structs.replace(old, reason_codes=("acme/UNKNOWN",))
    assert unknown.leading_code == "acme/UNKNOWN"


def test_a_record_that_allows_has_no_leading_code() -> None:
    with opened() as gate:
        record = gate.decide(refund())

    assert record.leading_code is None
    assert b"leading_code" not in record.open_bytes()
