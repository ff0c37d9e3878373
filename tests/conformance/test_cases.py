"""Run `spec/cases`: the contract as data, which any implementation must pass."""

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from demur.canonical import canonical_bytes
from demur.classification import classify, make_decision
from demur.codes.document import read_document
from demur.codes.entry import name_problem
from demur.codes.evolution import compare_registries
from demur.codes.refusal_line import find_refusals, format_refusal, parse_refusal
from demur.codes.registry import CORE_PATH, Registry
from demur.codes.vocabulary import Surface, Verdict
from demur.errors import InconsistentError, UnknownCodeError
from demur.gate.gate import Gate
from demur.grants import KeyRing, SigningKey, resolve, sign_grant
from demur.memory.recall import MemorySettings, Recall, apply_memory
from demur.model.finding import Finding
from demur.model.grant import Grant
from demur.model.record import Similarity
from demur.policy.loader import parse_policy
from demur.store.events import ChainEvent, event_hash
from demur.store.rows import ChainHead, link_hash

Case = Mapping[str, Any]

ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
ERRORS = {"unknown_code": UnknownCodeError, "inconsistent": InconsistentError}
CORE = Registry.load()


def cases() -> Iterator[Case]:
    for path in sorted((ROOT / "spec/cases").glob("*.yaml")):
        if path.stem == "behaviour":  # see test_behaviour
            continue
        yield from yaml.safe_load(path.read_text(encoding="utf-8"))


CASES = list(cases())


def test_there_are_enough_cases_and_every_note_is_unique() -> None:
    notes = [case["note"] for case in CASES]

    assert len(notes) >= 80
    assert len(set(notes)) == len(notes)


@pytest.mark.parametrize("case", CASES, ids=[case["note"] for case in CASES])
def test_case(case: Case) -> None:
    check = next(check for key, check in CHECKS.items() if key in case)
    if "error" in case:
        with pytest.raises(ERRORS[case["error"]]):
            check(case)
    else:
        check(case)


def check_format(case: Case) -> None:
    line = format_refusal(case["format"]["code"], case["format"]["detail"], registry=CORE)

    assert line == case["want"]


def check_parse(case: Case) -> None:
    parsed = parse_refusal(case["parse"], registry=CORE)

    assert (None if parsed is None else dict(parsed._asdict())) == case["want"]


def check_find(case: Case) -> None:
    found = find_refusals(case["find"], registry=CORE)

    got = [{"code": f.code, "detail": f.detail, "legacy": f.legacy} for f in found]
    assert got == case["want"]


def check_name(case: Case) -> None:
    assert (name_problem(case["name"]) is None) is case["sound"]


def check_registered(case: Case) -> None:
    entry = CORE[case["registered"]].as_json()

    assert {name: entry[name] for name in case["want"]} == case["want"]


def check_schema_version(case: Case) -> None:
    assert json.loads(CORE_PATH.read_text("utf-8"))["schema_version"] == case["schema_version"]


def check_classify(case: Case) -> None:
    decision = make_decision(
        case["verdict"],
        case["codes"],
        constraints=case.get("constraints", ()),
        missing=case.get("missing", ()),
        attempts_left=case.get("attempts_left", True),
        registry=CORE,
    )
    fields = json.loads(msgspec.json.encode(decision))

    assert {name: fields[name] for name in case["want"]} == case["want"]
    assert classify(
        case["verdict"],
        case["codes"],
        case.get("constraints", ()),
        case.get("missing", ()),
        case.get("attempts_left", True),
        registry=CORE,
    ) == (case["want"]["refusal_class"], case["want"]["decision_output"])


def check_resolve(case: Case) -> None:
    asked = make_decision(
        case["decision"]["verdict"],
        case["decision"]["codes"],
        constraints=case["decision"].get("constraints", ()),
        missing=case["decision"].get("missing", ()),
        approvals=case["decision"].get("approvals", 1),
        requester="agent:a",
        scope={"action": "refund", "order": "42"}
        | ({"tenant": case["tenant"]} if "tenant" in case else {}),
        registry=CORE,
    )
    rows = case.get("grants", [])
    grants = [make_grant(index, row) for index, row in enumerate(rows)]
    revoked = {f"g{index}" for index, row in enumerate(rows) if row.get("revoked")}
    used_up = {
        grant.compute_digest()
        for grant, row in zip(grants, rows, strict=True)
        if row.get("used", 0) >= row.get("uses", 1)
    }
    after = resolve(
        asked,
        grants,
        case.get("accepted", ()),
        keys=KeyRing(key_of(row).trusted_key() for row in rows if row.get("trusted", True)),
        now=NOW,
        revoked=None if case.get("revocations") == "unknown" else revoked,
        subjects=case.get("subjects"),
        used_up=used_up if case.get("counts") else None,
        registry=CORE,
    )
    want = {"resolved": [], "ignored": [], "obligations": [], **case["want"]}
    got: dict[str, Any] = {
        "verdict": after.verdict,
        "decision_output": after.decision_output,
        "codes": list(after.reason_codes),
        "resolved": list(after.resolved_codes),
        "ignored": [grant.why for grant in after.ignored_grants],
        "obligations": list(after.obligations),
    }
    if "needed" in want:
        got["needed"] = [grant.still_needed for grant in after.ignored_grants]

    assert got == want


def key_of(row: Case) -> SigningKey:
    holder = row.get("by", "user:mary")
    return SigningKey.from_randomness(
        bytes(32), key_id=f"key of {holder}", holder=holder, tenants=row.get("key_tenants", ())
    )


def make_grant(index: int, row: Case) -> Grant:
    start, end = row.get("hours", (-1, 1))
    key = key_of(row)
    grant = Grant(
        grant_id=f"g{index}",
        kind=row["kind"],
        granted_by=key.holder,
        granted_to=row.get("to", "agent:a"),
        scope=row["scope"],
        not_before=NOW + timedelta(hours=start),
        expires_at=NOW + timedelta(hours=end),
        key_id=key.key_id,
        algorithm=key.algorithm,
        codes=tuple(row.get("codes", ())),
        uses=row.get("uses", msgspec.UNSET),
    )
    signature = key.sign(grant.signed_bytes())
    if row.get("respelled"):
        # The last letter before the padding has unused bits.
        signature = f"{signature[:-2]}{chr(ord(signature[-2]) + 1)}{signature[-1]}"
    signed = msgspec.structs.replace(grant, signature=signature)
    return msgspec.structs.replace(signed, scope={"action": "*"}) if row.get("forged") else signed


def check_evolution(case: Case) -> None:
    old = json.loads(CORE_PATH.read_text(encoding="utf-8"))
    new = edited(copy.deepcopy(old), case)
    evolution = compare_registries(
        read_document("old.json", json.dumps(old)), read_document("new.json", json.dumps(new))
    )

    assert evolution.level.name.lower() == case["want"]


def edited(registry: dict[str, Any], case: Case) -> dict[str, Any]:
    by_code = {row["code"]: row for row in registry["codes"]}
    if "delete" in case:
        registry["codes"].remove(by_code[case["delete"]])
    if "of" in case:
        by_code[case["of"]].update(case["set"])
    if "add" in case:
        registry["codes"].append({**by_code["LOOP_DETECTED"], "code": case["add"], "aliases": []})
    if "move_phrase" in case:
        for row in registry["codes"]:
            row["aliases"] = [p for p in row["aliases"] if p != case["move_phrase"]]
        by_code[case["to"]]["aliases"].append(case["move_phrase"])
    return registry


STAGES = {"DENY": "HARD_BLOCKS", "ESCALATE": "ESCALATIONS", "ALLOW": "ALLOW_PATHS"}


def check_policy(case: Case) -> None:
    rules = [
        {"id": f"R{index}", "stage": STAGES[rule["then"]["verdict"]], **rule}
        for index, rule in enumerate(case["rules"])
    ]
    head = {"schema_version": "policy.v1", "policy_id": "case", "policy_version": "1"}
    head |= {"defaults": case["defaults"]} if "defaults" in case else {}
    written = json.dumps({**head, "rates": case.get("rates", {}), "rules": rules})
    gate = Gate(parse_policy(written, registry=CORE), registry=CORE)
    findings = [Finding(code=code, surface=Surface.INPUT) for code in case.get("findings", ())]

    record = gate.decide(case["request"], findings=findings, signals=case.get("signals"))

    got = {**record, "matched_rules": [rule.rule_id for rule in record.matched_rules]}
    want = {name: sorted(v) if name == "reason_codes" else v for name, v in case["want"].items()}
    got["reason_codes"] = sorted(got["reason_codes"])
    assert {name: got[name] for name in want} == want


def check_memory(case: Case) -> None:
    scores = case["memory"]
    recalled = Recall(
        failure=Similarity(score=scores["failure"]),
        success=Similarity(score=scores["success"]),
        severe_score=scores["failure"],
        uncertainty_score=0,
        digest="",
    )
    settings = MemorySettings(block=0.95, escalate=0.85, allow=0.98, lift=scores.get("lift", False))
    after = apply_memory(Verdict(case["verdict"]), case["codes"], recalled, settings, CORE)

    assert {
        "verdict": after.verdict,
        "codes": list(after.reason_codes),
        "resolved": list(after.resolved_codes),
    } == case["want"]


def check_canonical(case: Case) -> None:
    assert canonical_bytes(case["canonical"]).decode() == case["want"]


def check_chain(case: Case) -> None:
    link = case["chain"]
    head = ChainHead(link["tenant"], link["seq"] - 1, link["previous"])

    assert link_hash(head, link["decision_id"], canonical_bytes(link["record"])) == case["want"]


def check_event(case: Case) -> None:
    link = case["event"]
    head = ChainHead(link["tenant"], link["seq"] - 1, link["previous"])
    raw = canonical_bytes(link["event"])

    assert msgspec.convert(link["event"], ChainEvent).to_bytes() == raw
    assert event_hash(head, raw) == case["want"]


# The key that tells what a case is about.
CHECKS: Mapping[str, Callable[[Case], None]] = {
    "rules": check_policy,
    "memory": check_memory,
    "canonical": check_canonical,
    "chain": check_chain,
    "event": check_event,
    "format": check_format,
    "parse": check_parse,
    "find": check_find,
    "name": check_name,
    "registered": check_registered,
    "schema_version": check_schema_version,
    "decision": check_resolve,
    "verdict": check_classify,
    "note": check_evolution,
}


def test_signing_by_the_book_gives_the_same_grant() -> None:
    """The cases build grants by hand, so that bad ones can be made; good ones must agree."""
    row = {"kind": "approval", "scope": {"action": "refund"}}
    signed = sign_grant(
        key_of(row),
        grant_id="g0",
        kind="approval",
        granted_to="agent:a",
        scope={"action": "refund"},
        not_before=NOW - timedelta(hours=1),
        expires_at=NOW + timedelta(hours=1),
    )

    assert signed == make_grant(0, row)
