"""Known failure modes of audit tools, each with a test that demur's replay does not have it."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from support.command_line import demur
from support.gates import CORE, POLICY, TEXT, opened, refund, rows, stored
from support.packs import packed, repaired

from demur.audit.diff import compare_policy
from demur.audit.pack import read_zip, write_line
from demur.canonical import canonical_bytes
from demur.errors import InputError
from demur.policy.loader import load_policy, parse_policy


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("record.json", {"verdict": "ALLOW"}),
        ("record.json", {"reason_codes": ["RCE_RISK"]}),
        ("record.json", {"matched_rules": [{"rule_id": "R_SMALL", "stage": "ALLOW_PATHS"}]}),
        ("sealed.json", {"request": refund(1)}),
    ],
    ids=repr,
)
def test_a_replay_detects_a_rewritten_file(
    tmp_path: Path, name: str, change: dict[str, Any]
) -> None:
    with opened() as gate:
        members = read_zip(packed(gate, gate.decide(refund(400))))
    members[name] = canonical_bytes({**json.loads(members[name]), **change})
    pack = tmp_path / "decision.zip"
    pack.write_bytes(repaired(members))

    ran = demur("replay", pack)

    assert ran.status == 1
    assert name in ran.err


def test_a_diff_in_which_every_record_fails_is_not_a_match(tmp_path: Path) -> None:
    with opened() as gate:
        gate.decide(refund())
        line = write_line(rows(gate)[0])
    (tmp_path / "policy.yaml").write_text(TEXT, encoding="utf-8")
    records = tmp_path / "records.jsonl"
    records.write_bytes(line.replace(b"T-1", b"T-2") + b"\n")

    ran = demur("diff", records, "--policy", tmp_path / "policy.yaml", "--allow-changes")

    assert ran.status == 1
    assert "0 compared" in ran.out
    assert "nothing to compare" in ran.out


def test_a_diff_compares_codes_and_obligations() -> None:
    with opened() as gate:
        gate.decide(refund(400))
        records = rows(gate)

    for old, new in (("[human_review]", "[]"), ("[REFUND_OVER_ESCALATION_LIMIT]", "[RCE_RISK]")):
        policy = parse_policy(TEXT.replace(old, new), registry=CORE)
        assert compare_policy(policy, records, registry=CORE).changed == 1


def test_the_stored_policy_matches_its_digest_after_the_file_changes(
    tmp_path: Path,
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(TEXT, encoding="utf-8")
    policy = load_policy(file, registry=CORE)
    file.write_text(TEXT.replace("gt: 250", "gt: 999999"), encoding="utf-8")
    with opened(policy) as gate:
        record = gate.decide(refund(400))
        snapshot = stored(gate).get_snapshot(record.policy.digest)

    assert record.verdict == "ESCALATE"
    assert snapshot is not None
    assert parse_policy(snapshot.text, registry=CORE).digest == record.policy.digest


def test_spellings_of_one_number_have_one_digest() -> None:
    with opened() as gate:
        whole, point = gate.decide(refund(20)), gate.decide(refund(20.0))
    one, other = whole.personal, point.personal

    assert one is not None
    assert other is not None
    assert one.inputs_digest == other.inputs_digest


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_are_never_stored(value: float) -> None:
    with opened() as gate:
        with pytest.raises(InputError, match="no finite number"):
            gate.decide(refund(evidence={"risk": value}))

        assert rows(gate) == []


def test_mutating_a_returned_value_does_not_change_the_record() -> None:
    with opened() as gate:
        record = gate.decide(refund(400))
        before = record.open_bytes(), record.sealed, POLICY.digest
        record["obligations"].append("nothing")
        record["reason_codes"].clear()
        record["request"]["action"]["amount"]["value"] = 1
        record["explanation"]["summary"] = ""
        again = gate.decide(refund(400))

    assert (record.open_bytes(), record.sealed, POLICY.digest) == before
    assert again.obligations == record.obligations == ("human_review",)
    assert again["request"]["action"]["amount"]["value"] == 400
