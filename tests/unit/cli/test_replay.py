import json
from pathlib import Path

import pytest
from commandline import demur
from gates import KEY, cleanup, opened, refund, rows, stored
from packs import changed_record, changed_sealed, packed

from demur.audit import container
from demur.audit.exporting import export_pack
from demur.audit.pack import write_pack
from demur.store.heads import heads_document
from demur.version import __version__


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    """Return a pack on which `list_heads.json` beside it speaks."""
    with opened() as gate:
        gate.decide(refund())
        record = gate.decide(refund(400))
        heads = stored(gate).list_heads()
        path = tmp_path / "decision.zip"
        path.write_bytes(packed(gate, record))
    (tmp_path / "heads.json").write_text(json.dumps(heads_document(heads, "2026-11-15T12:00Z")))
    return path


def forge(pack: Path, raw: bytes) -> Path:
    path = pack.with_name("forged.zip")
    path.write_bytes(raw)
    return path


def test_the_same_decision_is_said_to_be_the_same(pack: Path) -> None:
    ran = demur("replay", pack)

    assert ran.status == 0
    assert "ESCALATE, REFUSE_WITH_PATH" in ran.out
    assert "REFUND_OVER_ESCALATION_LIMIT" in ran.out
    assert "R_LIMIT (ESCALATIONS)" in ran.out
    assert "same decision" in ran.out


def test_nothing_but_the_pack_is_needed(pack: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEMUR_CONFIG", "/nowhere/demur.toml")
    monkeypatch.chdir(pack.parent)

    assert demur("replay", "decision.zip").status == 0


def test_each_field_that_differs_is_shown_with_both_values(pack: Path) -> None:
    ran = demur("replay", forge(pack, changed_record(pack.read_bytes(), enforced=False)))

    assert ran.status == 1
    assert "1 field differs" in ran.out
    assert "  enforced\n    recorded false\n    replayed true\n" in ran.out


def test_a_changed_member_is_an_error_that_names_it(pack: Path) -> None:
    raw = pack.read_bytes()
    ran = demur("replay", forge(pack, raw.replace(b"policy_id: support", b"policy_id: sapport")))

    assert ran.status == 1
    assert ran.err.startswith("error: policy.yaml: the member was changed")
    assert ran.out == ""


def test_what_cannot_be_made_again_ends_with_6(pack: Path) -> None:
    with opened() as gate:
        gate.decide(refund(1, request_id="r"))
        gate.decide(refund(2, request_id="r"))
        conflict = packed(gate, rows(gate)[-1])

    ran = demur("replay", forge(pack, conflict))

    assert ran.status == 6
    assert "not replayable: basis: demur itself made this decision" in ran.out


def test_a_json_answer_says_everything(pack: Path) -> None:
    ran = demur("replay", pack, "--json", "--heads", pack.with_name("heads.json"))
    answer = json.loads(ran.out)

    assert ran.status == 0
    assert answer["result"] == "same"
    assert answer["decided_by"] == answer["replayed_by"] == __version__
    assert answer["matched_rules"] == [{"rule_id": "R_LIMIT", "stage": "ESCALATIONS"}]
    assert answer["differences"] == []
    assert answer["notes"] == ["a head confirms the record at place 2 of its chain"]


def test_a_json_answer_about_a_difference_holds_both_values(pack: Path) -> None:
    forged = forge(pack, changed_record(pack.read_bytes(), verdict="DENY"))
    ran = demur("replay", forged, "--json")

    assert ran.status == 1
    assert json.loads(ran.out)["differences"][0] == {
        "field": "verdict",
        "recorded": "DENY",
        "replayed": "ESCALATE",
    }


@pytest.mark.parametrize(
    ("raw", "where"), [(b"", "the zip container"), (b"PK", "the zip container")]
)
def test_a_json_answer_about_a_broken_pack_names_the_place(
    pack: Path, raw: bytes, where: str
) -> None:
    ran = demur("replay", forge(pack, raw), "--json")
    answer = json.loads(ran.out)

    assert ran.status == 1
    assert (answer["result"], answer["where"]) == ("tampered", where)
    assert "decision_id" not in answer


def test_a_json_answer_about_what_cannot_be_replayed_says_why(pack: Path) -> None:
    redaction = {"profile": "own", "removed": ["evidence.ticket_id"]}
    forged = forge(pack, changed_record(pack.read_bytes(), redaction=redaction))
    ran = demur("replay", forged, "--json")
    answer = json.loads(ran.out)

    assert ran.status == 6
    assert (answer["result"], answer["where"]) == ("not_replayable", "evidence.ticket_id")


def test_a_ticket_shows_what_differs_but_nothing_personal(pack: Path) -> None:
    raw = changed_sealed(pack.read_bytes(), requester="user:eve")
    ran = demur("replay", forge(pack, changed_record(raw, enforced=False)), "--markdown")

    assert ran.status == 1
    assert ran.out.startswith("### Replay of `01")
    assert "- **Differs** `enforced`: recorded `false`, replayed `true`" in ran.out
    assert "- **Differs** `sealed.requester` (personal, not shown)" in ran.out
    assert "eve" not in ran.out


def test_a_ticket_of_what_was_allowed_has_no_codes(pack: Path) -> None:
    with opened() as gate:
        raw = packed(gate, gate.decide(refund()))

    ran = demur("replay", forge(pack, raw), "--markdown")

    assert ran.status == 0
    assert "- **Verdict** ALLOW, ALLOW_EXECUTE\n- **Rule** `R_SMALL` (ALLOW_PATHS)" in ran.out
    assert "- **Policy** `support 1.0.0`" in ran.out


def test_a_ticket_of_a_resolution_carries_its_notes(pack: Path) -> None:
    with opened() as gate:
        asked = gate.decide(cleanup())
        done = gate.resolve(asked.decision_id, accepted=["dry_run"])
        raw = packed(gate, done)

    ran = demur("replay", forge(pack, raw), "--markdown")

    assert ran.status == 0
    assert "same decision" in ran.out
    assert "- the decision that was resolved is taken as recorded" in ran.out


def test_a_ticket_of_what_cannot_be_replayed_says_so(pack: Path) -> None:
    with opened() as gate:
        record = gate.decide({"action": {"type": "elsewhere"}, "subject": {"id": "eve"}})
        stored(gate).erase_subject("default", "eve")
        erased = stored(gate).get(record.decision_id)
        assert erased is not None
        raw = packed(gate, erased)

    ran = demur("replay", forge(pack, raw), "--markdown")

    assert ran.status == 6
    assert "not replayable: sealed: what came in was erased" in ran.out


def test_heads_of_another_record_give_it_away(pack: Path) -> None:
    forged = forge(pack, changed_record(pack.read_bytes(), created_at="2026-11-15T12:00:01.000Z"))

    # Everything in the pack fits; only the head, kept elsewhere, knows better.
    assert demur("replay", forged).status == 0
    ran = demur("replay", forged, "--heads", pack.with_name("heads.json"))
    assert ran.status == 1
    assert "record.json: the head of place 2 is of another record" in ran.err


@pytest.mark.parametrize("text", ["no json", "{}"])
def test_heads_that_cannot_be_read_are_an_error(pack: Path, text: str) -> None:
    heads = pack.with_name("odd.json")
    heads.write_text(text)

    assert demur("replay", pack, "--heads", heads).status == 1


def test_with_keys_a_signature_is_needed(pack: Path) -> None:
    with opened() as gate:
        signed = write_pack(export_pack(stored(gate), gate.decide(refund())), KEY)
    key = KEY.trusted_key()
    keys = pack.with_name("mary.trusted.json")
    keys.write_text(json.dumps({name: getattr(key, name) for name in key.__struct_fields__}))

    ran = demur("replay", forge(pack, signed), "--keys", keys)
    assert ran.status == 0
    assert "note: signed by user:mary" in ran.out
    ran = demur("replay", pack, "--keys", keys)
    assert ran.status == 1
    assert "manifest.json: nobody signed the pack" in ran.err


def test_a_file_that_is_not_there_or_too_large_is_an_error(
    pack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "no such file" in demur("replay", pack.with_name("none.zip")).err
    monkeypatch.setattr("demur.cli.replay.MAX_PACK_BYTES", 10)
    ran = demur("replay", pack)

    assert ran.status == 1
    assert container.CONTAINER in ran.err
