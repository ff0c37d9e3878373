import json
import re
from pathlib import Path

import pytest
from support.command_line import demur
from support.gates import CORE, KEY, TEXT, Ticking, cleanup, gate_over, opened, refund, rows, stored
from support.packs import changed_record, changed_sealed, packed

from demur.audit import pack as container
from demur.audit.pack import read_lines, read_pack, write_pack
from demur.audit.replay import replay_pack
from demur.audit.report import export_pack
from demur.grants import KeyRing
from demur.model.record import DecisionRecord
from demur.policy.loader import parse_policy
from demur.store.opening import open_store
from demur.store.verify import heads_document
from demur.version import ENGINE_VERSION


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[DecisionRecord]:
    """Return what was decided in the working folder."""
    monkeypatch.chdir(tmp_path)
    Path("demur.toml").write_text('policy = "policy.yaml"\nstore = "demur.db"\n')
    Path("policy.yaml").write_text(TEXT)
    clock = Ticking()
    policy = parse_policy(TEXT, registry=CORE)
    made = []
    with gate_over(open_store("demur.db"), policy, clock=clock) as gate:
        for request in (refund(), refund(400, tenant={"id": "acme"}), cleanup()):
            made.append(gate.decide(request))
            clock.advance(days=1)
    return made


def test_a_decision_is_printed_as_json(records: list[DecisionRecord]) -> None:
    ran = demur("export", records[1].decision_id)

    assert ran.status == 0
    printed = json.loads(ran.out)
    assert printed["verdict"] == "ESCALATE"
    assert printed["request"]["action"]["amount"]["value"] == 400


def test_a_decision_is_written_as_json_to_a_file_that_is_its_owners(
    records: list[DecisionRecord],
) -> None:
    assert demur("export", records[0].decision_id, "--out", "one.json").status == 0

    assert json.loads(Path("one.json").read_text())["decision_id"] == records[0].decision_id
    assert Path("one.json").stat().st_mode & 0o077 == 0
    assert not Path("one.json.part").exists()


@pytest.mark.usefixtures("records")
def test_exported_lines_replay_beside_the_store() -> None:
    assert demur("export", "--all", "--out", "records.jsonl").status == 0

    ran = demur("replay", "records.jsonl")
    assert ran == (0, "3 decisions: 3 the same\n", "")
    rows = [
        json.loads(line) for line in demur("replay", "records.jsonl", "--json").out.splitlines()
    ]
    assert [row["result"] for row in rows] == ["same"] * 3


def test_lines_that_differ_or_cannot_be_replayed_are_named(records: list[DecisionRecord]) -> None:
    demur(
        "audit",
        "erase",
        "--subject",
        "agent:billing",
        "--tenant",
        "acme",
        "--yes",
        "--by",
        "ops",
        "--reason",
        "test",
    )
    assert demur("export", "--all", "--out", "records.jsonl").status == 0
    assert demur("replay", "records.jsonl").status == 6

    with Path("records.jsonl").open("a", encoding="utf-8") as lines:
        lines.write("{}\n")
    ran = demur("replay", "records.jsonl")
    assert ran.status == 1
    assert "line 4: not a line of an export" in ran.out
    assert records[1].decision_id in ran.out
    assert ran.out.endswith("4 decisions: 1 not replayable, 2 the same, 1 unusable\n")


@pytest.mark.usefixtures("records")
def test_options_of_packs_are_refused_with_lines() -> None:
    demur("export", "--all", "--out", "records.jsonl")

    ran = demur("replay", "records.jsonl", "--markdown")
    assert ran == (2, "", "error: --markdown is for a pack, and the file holds lines\n")


def test_a_pack_replays(records: list[DecisionRecord]) -> None:
    ran = demur("export", records[1].decision_id, "--pack", "--out", "decision.zip")

    assert ran.out == f"decision.zip: decision {records[1].decision_id}\n"
    assert replay_pack(read_pack(Path("decision.zip").read_bytes())).same


def test_a_pack_can_be_signed(records: list[DecisionRecord]) -> None:
    Path("key.json").write_text(
        json.dumps({name: getattr(KEY, name) for name in KEY.__struct_fields__})
    )
    words = ("export", records[0].decision_id, "--pack", "--out", "signed.zip")

    assert demur(*words, "--sign", "key.json").status == 0
    ring = KeyRing([KEY.trusted_key()])
    assert read_pack(Path("signed.zip").read_bytes(), ring).signed_by == "user:mary"


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        (["--all"], [0, 1, 2]),
        (["--verdict", "ESCALATE"], [1, 2]),
        (["--code", "DESTRUCTIVE_ACTION"], [2]),
        (["--action", "refund"], [0, 1]),
        (["--subject", "agent:billing"], [0, 1, 2]),
        (["--tenant", "acme"], [1]),
        (["--since", "2026-11-16T12:00Z"], [1, 2]),
        (["--since", "2026-11-16", "--until", "2026-11-17"], [1]),
        (["--all", "--until", "2020-01-01"], []),
    ],
    ids=str,
)
def test_many_are_written_as_lines(
    records: list[DecisionRecord], options: list[str], chosen: list[int]
) -> None:
    ran = demur("export", *options, "--out", "records.jsonl")

    count = len(chosen)
    assert ran.out == f"records.jsonl: {count} decision{'s' * (count != 1)}\n"
    with Path("records.jsonl").open("rb") as lines:
        assert list(read_lines(lines)) == [records[number] for number in chosen]


def test_lines_can_be_printed(records: list[DecisionRecord]) -> None:
    ran = demur("export", "--all")

    assert list(read_lines(line.encode() for line in ran.out.splitlines())) == records


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "no decision is chosen"),
        (["last", "--all"], "--all filters decisions"),
        (["last", "--since", "7d"], "--since filters decisions"),
        (["--all", "--pack", "--out", "x.zip"], "a pack holds one decision"),
        (["last", "--pack"], "--pack needs --out"),
        (["last", "--sign", "key.json"], "`--sign` needs `--pack`"),
        (["nosuch"], "there is no decision"),
        (["last", "--out", "nowhere/one.json"], "no such file"),
    ],
)
@pytest.mark.usefixtures("records")
def test_export_refuses_invalid_arguments(words: list[str], problem: str) -> None:
    ran = demur("export", *words)

    in_the_store_or_a_file = problem in {"there is no decision", "no such file"}
    assert ran.status == (1 if in_the_store_or_a_file else 2)
    assert problem in ran.err


@pytest.mark.usefixtures("records")
def test_a_failure_leaves_the_earlier_file_as_it_was() -> None:
    Path("records.jsonl").write_text("before")
    Path("demur.db").write_bytes(b"no database")

    assert demur("export", "--all", "--out", "records.jsonl").status == 1
    assert Path("records.jsonl").read_text() == "before"
    assert not Path("records.jsonl.part").exists()


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    """Return a pack, with the heads of its chain in `heads.json` next to it."""
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


def test_replay_reports_the_same_decision(pack: Path) -> None:
    ran = demur("replay", pack)

    assert ran.status == 0
    assert "  says needs something\n" in ran.out
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


def test_a_record_that_cannot_be_replayed_exits_with_6(pack: Path) -> None:
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
    assert answer["decided_by"] == answer["replayed_by"] == ENGINE_VERSION
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
    verdict = "- **Outcome** allowed\n- **Verdict** ALLOW, ALLOW_EXECUTE\n"
    assert f"{verdict}- **Decided** by rule R_SMALL\n" in ran.out
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
        stored(gate).erase_subject("default", "eve", by="ops", reason="test")
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
    monkeypatch.setattr("demur.cli.export.MAX_PACK_BYTES", 10)
    ran = demur("replay", pack)

    assert ran.status == 1
    assert container.CONTAINER in ran.err


@pytest.mark.usefixtures("workspace")
def test_replaying_no_file_names_a_command_that_writes_one() -> None:
    demur("decide", "samples/small-refund.json")
    ran = demur("replay", "last")
    command = re.search("`demur (.+)`", ran.err)

    assert (ran.status, ran.err.splitlines()[0]) == (1, "error: last: no such file")
    assert command is not None
    assert demur(*command[1].split()).status == 0
    assert demur("replay", command[1].split()[-1]).status == 0
